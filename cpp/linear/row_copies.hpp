#pragma once

// Rows of X side by side in memory: working sets are scattered over X, and a solver that visits their rows again and
// again waits for memory most of the time. Only for sparse rows; `Feature` holds the number of any feature, and of one
// more: zeros there fill each row up to a multiple of kStep entries, so that no loop over a row has an end of another kind.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/aligned.hpp"
#include "linear/coarse_rows.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

template <class Feature>
class RowCopies {
public:
    // `norms` has ‖x‖ of every row of X.
    template <class Rows>
    void copy(const Rows& rows, const std::vector<std::int32_t>& row_ids, const std::vector<float>& norms, float bias) {
        squares_.clear();
        for (const std::int32_t row : row_ids) squares_.push_back(norms[row] * norms[row] + bias * bias);
        copy(rows, row_ids);
    }
    // The same without squares.
    template <class Rows>
    void copy(const Rows& rows, const std::vector<std::int32_t>& row_ids) {
        begins_.assign(1, 0);
        for (const std::int32_t row : row_ids)
            begins_.push_back(begins_.back() + (rows.size(row) + kStep - 1) / kStep * kStep);
        const auto n_entries = static_cast<std::size_t>(begins_.back());
        if (n_entries > values_.size()) {
            features_.resize(n_entries);
            values_.resize(n_entries);
        }
        const auto no_feature = static_cast<Feature>(rows.n_features());
        walk_rows(rows, row_ids.data(), std::ssize(row_ids), [&](std::int64_t i) {
            const std::int64_t end = begins_[i] + rows.size(row_ids[i]);
            rows.copy_to(row_ids[i], features_.data() + begins_[i], values_.data() + begins_[i]);
            std::fill(features_.data() + end, features_.data() + begins_[i + 1], no_feature);
            std::fill(values_.data() + end, values_.data() + begins_[i + 1], 0.0F);
        });
    }

    float square(std::int64_t i) const { return squares_[i]; }  // ‖x‖², with the bias

    void prefetch(std::int64_t i) const {
        prefetch_range(features_.data() + begins_[i], features_.data() + begins_[i + 1]);
        prefetch_range(values_.data() + begins_[i], values_.data() + begins_[i + 1]);
    }

    // row · weights
    float dot(std::int64_t row, const float* weights) const {
        const std::int64_t begin = begins_[row];
        return sparse_dot(features_.data() + begin, values_.data() + begin, begins_[row + 1] - begin, weights);
    }

    // weights += scale * row
    void add_to(std::int64_t row, float scale, float* weights) const {
        const std::int64_t begin = begins_[row];
        sparse_add(features_.data() + begin, values_.data() + begin, begins_[row + 1] - begin, scale, weights);
    }

private:
    static constexpr std::int64_t kStep = 8;
    std::vector<std::int64_t> begins_{0};
    RawVector<Feature> features_;
    RawVector<float> values_;
    std::vector<float> squares_;
};

// Copies of coarse rows that stand for copies of the whole ones.
template <class Feature>
class CoarseCopies {
public:
    // `parts` has those of every row of X; `copies` are those of the whole rows.
    void copy(const SparseRows& coarse, const std::vector<std::int32_t>& row_ids, const std::vector<CoarsePart>& parts,
              const RowCopies<Feature>& copies, float bias) {
        copies_.copy(coarse, row_ids);
        rows_.clear();
        for (std::size_t i = 0; i < row_ids.size(); ++i) {
            const CoarsePart& part = parts[row_ids[i]];
            const float square = part.square + part.common * part.common + bias * bias;
            const float whole = copies.square(static_cast<std::int64_t>(i));
            rows_.push_back({part.common, std::max(0.0F, whole - square), std::max(whole, square)});
        }
    }

    float common(std::int64_t i) const { return rows_[i].common; }
    float rest(std::int64_t i) const { return rows_[i].rest; }  // what the square would lack
    float square(std::int64_t i) const { return rows_[i].square; }
    void prefetch(std::int64_t i) const { copies_.prefetch(i); }
    float dot(std::int64_t row, const float* weights) const { return copies_.dot(row, weights); }
    void add_to(std::int64_t row, float scale, float* weights) const { copies_.add_to(row, scale, weights); }

private:
    struct Row {
        float common;
        float rest;
        float square;
    };
    RowCopies<Feature> copies_;
    std::vector<Row> rows_;
};

}  // namespace longtail::linear
