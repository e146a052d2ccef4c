#pragma once

// The rows of one label's set, with numbers of the set's own for their words: weights and gradients over them are short
// and stay in the first-level cache. Has what RowDual asks of RowCopies.

#include <cstdint>
#include <vector>

#include "linear/rows.hpp"

namespace longtail::linear {

class LocalRows {
public:
    explicit LocalRows(std::int64_t n_features) : locals_(static_cast<std::size_t>(n_features), -1) {}

    void append(const SparseRows& rows, std::int32_t row, float bias) {
        float square = bias * bias;
        rows.for_each(row, [&](std::int32_t feature, float value) {
            std::int32_t& local = locals_[feature];
            if (local < 0) {
                local = static_cast<std::int32_t>(features_.size());
                features_.push_back(feature);
            }
            entries_.push_back({local, value});
            square += value * value;
        });
        begins_.push_back(static_cast<std::int64_t>(entries_.size()));
        squares_.push_back(square);
    }

    void clear() {
        for (const std::int32_t feature : features_) locals_[feature] = -1;
        features_.clear();
        begins_.assign(1, 0);
        entries_.clear();
        squares_.clear();
    }

    const std::vector<std::int32_t>& features() const { return features_; }  // by number

    float square(std::int64_t i) const { return squares_[i]; }  // ‖x‖², with the bias
    void prefetch(std::int64_t i) const { __builtin_prefetch(entries_.data() + begins_[i]); }
    float dot(std::int64_t row, const float* weights) const {
        const Entry* at = entries_.data() + begins_[row];
        const Entry* const end = entries_.data() + begins_[row + 1];
        float even = 0.0F;
        float odd = 0.0F;
        for (; at + 2 <= end; at += 2) {
            even += at[0].value * weights[at[0].word];
            odd += at[1].value * weights[at[1].word];
        }
        if (at < end) even += at->value * weights[at->word];
        return even + odd;
    }
    template <class Real>
    void add_to(std::int64_t row, Real scale, Real* weights) const {
        const Entry* const end = entries_.data() + begins_[row + 1];
        for (const Entry* at = entries_.data() + begins_[row]; at < end; ++at)
            weights[at->word] += scale * static_cast<Real>(at->value);
    }

private:
    struct Entry {
        std::int32_t word;
        float value;
    };
    std::vector<std::int32_t> locals_;  // of each feature, or -1
    std::vector<std::int32_t> features_;
    std::vector<std::int64_t> begins_{0};
    std::vector<Entry> entries_;
    std::vector<float> squares_;
};

}  // namespace longtail::linear
