#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "decisions/value_table.hpp"
#include "linear/best_labels.hpp"
#include "linear/lanes.hpp"

namespace longtail::linear {

// The labels of one row with the greatest values so far; of equal values the greater score, then the lower label. It is
// offered scores as BestLabels is.
class BestValues {
public:
    explicit BestValues(const ValueTable& table) : table_(&table) { clear(); }

    void clear() {
        best_.clear();
        level_ = 0;
        needed_ = table_->scores_needed(0);
    }

    void offer(const Lanes* scores, std::int64_t first_label, std::size_t top_k) {
        if (best_.empty()) begin_high(scores, first_label, top_k);
        for (int part = 0; part < kLabelBlocks; ++part) offer(scores[part], first_label + part * kLanes, top_k);
    }

    void write(ValuedLabels& out, std::int64_t row, std::int64_t top_k) {
        std::sort(best_.begin(), best_.end(), comes_before);
        const std::int64_t first = row * top_k;
        for (std::int64_t i = 0; i < top_k; ++i) {
            const bool is_label = i < static_cast<std::int64_t>(best_.size());
            out.label_ids[first + i] = is_label ? best_[i].label_id : -1;
            out.scores[first + i] = is_label ? best_[i].score : 0.0F;
            out.values[first + i] = is_label ? best_[i].value : 0.0F;
        }
    }

private:
    struct Entry {
        float value;
        float score;
        std::int32_t label_id;
    };

    static bool comes_before(const Entry& a, const Entry& b) {
        if (a.value != b.value) return a.value > b.value;
        if (a.score != b.score) return a.score > b.score;
        return a.label_id < b.label_id;
    }

    void offer(const Lanes& scores, std::int64_t first_label, std::size_t top_k) {
        for (std::uint32_t above = reaching(scores, needed_ + first_label); above != 0; above &= above - 1) {
            const int lane = std::countr_zero(above);
            const float score = scores[lane];
            const auto label_id = static_cast<std::int32_t>(first_label) + lane;
            if (score < needed_[label_id]) continue;  // raised meanwhile
            if (!std::isfinite(score)) throw std::invalid_argument("predict_ova: scores must be finite");
            add({table_->value_at(label_id, score), score, label_id}, top_k);
        }
    }

    static std::uint32_t reaching(const Lanes& scores, const float* needed) {
        Lanes least;
        load(least, needed);
        return ~bits_greater(least, scores) & ((1U << kLanes) - 1U);
    }

    // Find a level that top_k of the first labels reach: the values of the others need not be computed.
    void begin_high(const Lanes* scores, std::int64_t first_label, std::size_t top_k) {
        std::size_t low = 0, high = table_->n_levels();
        while (high - low > 1) {
            const std::size_t middle = (low + high) / 2;
            const float* const needed = table_->scores_needed(middle) + first_label;
            int n_reaching = 0;
            for (int part = 0; part < kLabelBlocks; ++part)
                n_reaching += std::popcount(reaching(scores[part], needed + part * kLanes));
            (static_cast<std::size_t>(n_reaching) >= top_k ? low : high) = middle;
        }
        // What is needed may be a little low, so that a label may miss the level itself but not the one below.
        level_ = low > 0 ? low - 1 : 0;
        needed_ = table_->scores_needed(level_);
    }

    void add(const Entry& entry, std::size_t top_k) {
        if (best_.size() == top_k) {
            if (!comes_before(entry, best_.front())) return;
            std::pop_heap(best_.begin(), best_.end(), comes_before);
            best_.back() = entry;
        } else {
            best_.push_back(entry);
        }
        std::push_heap(best_.begin(), best_.end(), comes_before);  // the worst in front
        if (best_.size() < top_k) return;
        level_ = table_->level_of(best_.front().value, level_);
        needed_ = table_->scores_needed(level_);
    }

    const ValueTable* table_;
    std::vector<Entry> best_;
    std::size_t level_ = 0;
    const float* needed_ = nullptr;  // by each label, to reach the level of the worst
};

}  // namespace longtail::linear
