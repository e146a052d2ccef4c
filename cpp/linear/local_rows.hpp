#pragma once

// The rows of one label's set, with numbers of the set's own for their words: weights and gradients over them are short
// and stay in the first-level cache. Has what RowDual asks of RowCopies.

#include <cstdint>
#include <span>
#include <vector>

#include "linear/word_lists.hpp"

namespace longtail::linear {

class LocalRows {
public:
    explicit LocalRows(std::int64_t n_features) : locals_(static_cast<std::size_t>(n_features), -1) {}

    void append(std::span<const WordEntry> row, float bias) {
        float square = bias * bias;
        const std::size_t n_before = entries_.size();
        entries_.resize(n_before + row.size());
        WordEntry* to = entries_.data() + n_before;
        for (const WordEntry& entry : row) {
            std::int32_t& local = locals_[entry.id];
            if (local < 0) {
                local = static_cast<std::int32_t>(features_.size());
                features_.push_back(entry.id);
            }
            *to++ = {local, entry.value};
            square += entry.value * entry.value;
        }
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
    std::int32_t number(std::int64_t feature) const { return locals_[feature]; }

    float square(std::int64_t i) const { return squares_[i]; }  // ‖x‖², with the bias
    void prefetch(std::int64_t i) const { __builtin_prefetch(entries_.data() + begins_[i]); }
    float dot(std::int64_t row, const float* weights) const {
        const WordEntry* at = entries_.data() + begins_[row];
        const WordEntry* const end = entries_.data() + begins_[row + 1];
        float even = 0.0F;
        float odd = 0.0F;
        for (; at + 2 <= end; at += 2) {
            even += at[0].value * weights[at[0].id];
            odd += at[1].value * weights[at[1].id];
        }
        if (at < end) even += at->value * weights[at->id];
        return even + odd;
    }
    template <class Real>
    void add_to(std::int64_t row, Real scale, Real* weights) const {
        const WordEntry* const end = entries_.data() + begins_[row + 1];
        for (const WordEntry* at = entries_.data() + begins_[row]; at < end; ++at)
            weights[at->id] += scale * static_cast<Real>(at->value);
    }

private:
    std::vector<std::int32_t> locals_;  // of each feature, or -1
    std::vector<std::int32_t> features_;
    std::vector<std::int64_t> begins_{0};
    std::vector<WordEntry> entries_;
    std::vector<float> squares_;
};

}  // namespace longtail::linear
