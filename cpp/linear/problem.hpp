#pragma once

// One-vs-all training: what is minimised, from where, and what comes out.
//
// For label l with rows x_i (the constant bias feature appended) and signs y_i, minimise over w (msi-dismec, eq. 3)
//     L(w) = ½‖w‖² + Σ_i c_i φ(y_i w·x_i),   φ(m) = max(0, 1 - m)²  or  log(1 + exp(-m)),
// with c_i = C for negatives and C times the label's weight for positives, times the weight of the row if rows have
// weights: n, |P| and x̄ are then sums and means over weights. A label is finished when
//     ‖∇L(w)‖ ≤ ε₀ · max(1, min(|P|, |N|)) / n · ‖∇L(0)‖                                      (eq. 12 and 13).

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/views.hpp"
#include "linear/posting_lists.hpp"
#include "linear/row_blocks.hpp"

namespace longtail::linear {

enum class Loss : int { squared_hinge, logistic };
enum class StartKind : int { zero, bias, shared, mean_separating, own };
// When conjugate gradients stop: at a fixed share of the gradient, or as in the paper's code (see newton_lanes.cpp).
enum class CgRule : int { residual, quadratic };

struct OvaConfig {
    Loss loss{};
    double cost{};       // C
    double tolerance{};  // ε₀
    float bias{};        // value of the appended feature; 0 for none
    bool regularize_bias{};
    float prune_below{};
    bool working_sets{};  // false: Newton steps over all active rows only, as in the paper
    int max_iterations{};
    CgRule cg_rule{};
    double cg_tolerance{};
    bool train_empty{};   // train labels without positives too (the all-negative label of OvAP)
    bool keep_history{};  // per-iteration statistics
};

// The mean row x̄ (n_features + 1 values, the bias last) and x_i · x̄ of every row: the same for all labels.
struct OvaMoments {
    std::span<const float> mean;
    std::span<const float> mean_margins;
    std::span<const double> background;        // flattened, see background.hpp; empty: solved when it is needed
    PostingsView postings = {};                // of short rows, or WordListParts; empty: made when they are needed
    std::optional<CsrView> coarse = {};        // coarse_rows.hpp, for the early rounds of working sets
    std::optional<RowBlocksView> blocks = {};  // for the logistic loss; empty: passes go row by row

    bool has_postings() const { return !postings.sums.empty(); }
    bool has_word_lists() const { return !postings.places.empty() && postings.sums.empty(); }
};

// Where each label begins: w₀ = a·(sum of its positives) + b·shared + its own weights, where the kind fixes a and b.
struct OvaStart {
    StartKind kind{};
    double positive_margin{};  // s of eq. 21
    double negative_margin{};  // t of eq. 21
    double bias_weight{};      // StartKind::bias
    // StartKind::shared: the weights to begin with (n_features + 1 values, the bias last), and
    std::span<const float> shared;
    std::span<const float> shared_margins;  // x_i · shared of every row
    // own: label-major start weights and biases, one row per label of the range.
    CsrView own_weights;
    std::span<const float> own_biases;
    // Place in the range of the label whose result this label begins with, -1 for `shared`; empty for no tree.
    std::span<const std::int32_t> parents;
};

struct OvaLabels {
    LabelsView positives;                     // label-major: the row ids of each label of the range
    std::span<const float> positive_weights;  // factor on C for the positives of each label; empty means 1
    std::span<const float> row_weights = {};  // factor on C for each row, above 0; empty means 1

    double row_weight(std::int64_t row) const { return row_weights.empty() ? 1.0 : row_weights[row]; }
};

// One entry per label, in the order of the range.
struct OvaStatistics {
    std::vector<std::int32_t> iterations;
    std::vector<std::int32_t> cg_steps;
    std::vector<std::int32_t> converged;
    std::vector<float> seconds;
    std::vector<double> first_objective;
    std::vector<double> last_objective;
    std::vector<double> gradient_ratio;  // ‖∇L(w)‖ / ‖∇L(0)‖ at the end
    std::vector<double> distance;        // ‖w₀ − w‖, or NaN where it is not known
    // Histories of all labels behind one another; label l owns [history_indptr[l], history_indptr[l + 1]).
    std::vector<std::int64_t> history_indptr;
    std::vector<double> objectives;
    std::vector<std::int32_t> active_rows;
    std::vector<float> step_sizes;
    std::vector<float> step_seconds;
    std::vector<std::int32_t> step_cg_steps;
};

// Pruned weights, label-major, and the biases (already multiplied by the bias feature's value).
struct OvaResult {
    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> feature_ids;
    std::vector<float> weights;
    std::vector<float> biases;
    OvaStatistics statistics;
};

}  // namespace longtail::linear
