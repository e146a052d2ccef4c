#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/top_k.hpp"
#include "decisions/candidates.hpp"
#include "decisions/value_table.hpp"

namespace longtail {

// The labels of one row with the greatest values so far; of equal values the greater score, then the lower label.
class BestValues {
public:
    explicit BestValues(const ValueTable& table) : table_(&table) { clear(); }

    const ValueTable& table() const { return *table_; }
    bool empty() const { return best_.empty(); }
    // By label: the score that it needs to be looked at.
    const float* needed() const { return needed_; }
    // The least logarithm of a score with which any label is looked at.
    float least_log_needed() const { return table_->least_log_needed(level_); }

    void clear() {
        best_.clear();
        begin_at(0);
    }

    // Look only at labels that reach a level; top_k of those to be offered must.
    void begin_at(std::size_t level) {
        level_ = level;
        needed_ = table_->scores_needed(level);
    }

    void offer(float score, std::int32_t label_id, std::size_t top_k) {
        if (score < needed_[label_id]) return;
        if (!std::isfinite(score)) throw std::invalid_argument("prediction: scores must be finite");
        add({table_->value_at(label_id, score), score, label_id}, top_k);
    }

    void write(ValuedLabels& out, std::int64_t row, std::int64_t top_k) {
        if (static_cast<std::size_t>(top_k) > kFew) std::sort(best_.begin(), best_.end(), comes_before);
        const std::int64_t first = row * top_k;
        for (std::int64_t i = 0; i < top_k; ++i) {
            const bool is_label = i < static_cast<std::int64_t>(best_.size());
            out.label_ids[first + i] = is_label ? best_[i].label_id : -1;
            out.scores[first + i] = is_label ? best_[i].score : 0.0F;
            out.values[first + i] = is_label ? best_[i].value : 0.0F;
        }
    }

private:
    static constexpr std::size_t kFew = 32;

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

    void add(const Entry& entry, std::size_t top_k) {
        if (top_k <= kFew) {
            if (!insert(entry, top_k)) return;
        } else {
            if (!push(entry, top_k)) return;
        }
        if (best_.size() < top_k) return;
        begin_at(table_->level_of((top_k <= kFew ? best_.back() : best_.front()).value, level_));
    }

    // A few entries are kept in order, the worst at the end: quicker than a heap.
    bool insert(const Entry& entry, std::size_t top_k) {
        if (best_.size() == top_k) {
            if (!comes_before(entry, best_.back())) return false;
        } else {
            if (best_.empty()) best_.reserve(top_k);
            best_.push_back(entry);
        }
        std::size_t at = best_.size() - 1;
        for (; at > 0 && comes_before(entry, best_[at - 1]); --at) best_[at] = best_[at - 1];
        best_[at] = entry;
        return true;
    }

    // More are a heap, the worst in front.
    bool push(const Entry& entry, std::size_t top_k) {
        if (best_.size() == top_k) {
            if (!comes_before(entry, best_.front())) return false;
            std::pop_heap(best_.begin(), best_.end(), comes_before);
            best_.back() = entry;
        } else {
            best_.push_back(entry);
        }
        std::push_heap(best_.begin(), best_.end(), comes_before);
        return true;
    }

    const ValueTable* table_;
    std::vector<Entry> best_;
    std::size_t level_ = 0;
    const float* needed_ = nullptr;  // to reach the level of the worst
};

// Write the labels of a row with the greatest values. Labels are distinct, in any order.
inline void write_best_values(const ValueTable& table, const std::vector<ScoredLabel>& labels, ValuedLabels& out,
                              std::int64_t row, std::int64_t top_k) {
    BestValues best(table);
    for (const ScoredLabel& label : labels) best.offer(label.score, label.label_id, static_cast<std::size_t>(top_k));
    best.write(out, row, top_k);
}

// Rank candidates by their values at their scores; label -1 is padding.
inline ValuedLabels rank_by_value(const ValueTable& table, const CandidatesView& candidates, std::int64_t top_k) {
    ValuedLabels out;
    out.label_ids.resize(candidates.n_rows * top_k);
    out.scores.resize(out.label_ids.size());
    out.values.resize(out.label_ids.size());
    BestValues best(table);
    for (std::int64_t row = 0; row < candidates.n_rows; ++row) {
        const auto label_ids = candidates.row_labels(row);
        const auto scores = candidates.row_values(row);
        best.clear();
        for (std::int64_t i = 0; i < candidates.n_candidates; ++i)
            if (label_ids[i] >= 0) best.offer(scores[i], label_ids[i], static_cast<std::size_t>(top_k));
        best.write(out, row, top_k);
    }
    return out;
}

// Throw std::invalid_argument unless there is a value for each label of a model.
inline void check_values(const ValueTable& table, std::int64_t n_labels) {
    if (table.n_labels() != n_labels)
        throw std::invalid_argument("prediction: values must be of " + std::to_string(n_labels) + " labels, got " +
                                    std::to_string(table.n_labels()));
}

}  // namespace longtail
