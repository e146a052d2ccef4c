#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"
#include "gbdt/gradients.hpp"
#include "gbdt/params.hpp"

namespace longtail::gbdt {

// One entry of a row's sparse score vector z. Positives (y = 1) are stored with the complement of their label id, so
// that eight bytes hold label, y and z.
struct RowEntry {
    std::int32_t key = 0;
    float score = 0.0F;

    bool is_positive() const { return key < 0; }
    std::int32_t label_id() const { return key < 0 ? ~key : key; }
};

// r = -½ ∂ℓ/∂z. Squared: y - z. Shifted squared hinge (eq. 9): only the wrong side of 1 (positives) or 0 counts.
inline float residual(Loss loss, const RowEntry& entry) {
    const float difference = (entry.is_positive() ? 1.0F : 0.0F) - entry.score;
    if (loss == Loss::kSquared) return difference;
    if (entry.is_positive()) return difference > 0.0F ? difference : 0.0F;
    return difference < 0.0F ? difference : 0.0F;
}

// A leaf's output: labels ascending.
struct LeafView {
    std::span<const std::int32_t> label_ids;
    std::span<const float> values;
};

// The scores of the training rows during boosting. A row lists its own labels and those some leaf has given it: after
// T trees at most ‖y‖₀ + T·k entries, every other gradient is zero (eq. 8). Kept in chunks of rows, so that growing
// rows never needs a second copy of everything.
class RowScores {
public:
    // row_weights: empty, or how much the loss of each row counts.
    RowScores(const LabelsView& y, Loss loss, std::span<const float> row_weights = {});

    std::int64_t n_rows() const { return n_rows_; }
    // The gradients of `rows` (ascending row ids) as the root node sees them, with entries in `store`.
    NodeGradients root_gradients(std::span<const std::int32_t> rows, GradientStore& store, int n_threads,
                                 Control& control) const;
    // Add to every row the leaf it fell into: leaf_of_row[row] numbers `leaves`.
    void add(std::span<const std::int32_t> leaf_of_row, std::span<const LeafView> leaves, int n_threads,
             Control& control);
    std::span<const float> row_weights() const { return row_weights_; }
    // Σ ℓ over all rows and labels.
    double loss(int n_threads, Control& control) const;
    std::int64_t n_entries(std::int64_t row) const;
    std::span<const RowEntry> row(std::int64_t row) const;

private:
    float weight(std::int64_t row) const { return row_weights_.empty() ? 1.0F : row_weights_[row]; }

    struct Chunk {
        std::vector<std::int64_t> begin{0};
        std::vector<RowEntry> entries;
    };
    static constexpr std::int64_t kChunkRows = 1024;

    std::int64_t n_rows_ = 0;
    std::int64_t n_labels_ = 0;
    Loss loss_;
    std::vector<float> row_weights_;
    std::vector<Chunk> chunks_;
};

}  // namespace longtail::gbdt
