#pragma once

// What becomes of the labels that a beam search reaches, for the rows of one block. All have log-probabilities; the
// exponential function is computed only for labels that may be among the best.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "base/lanes.hpp"
#include "base/top_k.hpp"
#include "decisions/best_values.hpp"

namespace longtail::label_tree {

// Not below exp(x), and at most 7 % above, for -87 <= x <= 0; for less it is that of -87. The bits of a float are nearly
// its logarithm: between powers of two they follow the chord, which lies above the curve.
inline float exp_bound(float x) {
    constexpr float kBitsPerUnit = 12102203.0F;  // 2^23 / log 2, rounded down
    constexpr float kBitsOfOne = 1065353216.0F;  // 127 · 2^23
    constexpr float kMoreThanRounding = 256.0F;
    const float bits = kBitsPerUnit * std::max(x, -87.0F) + (kBitsOfOne + kMoreThanRounding);
    return std::bit_cast<float>(static_cast<std::int32_t>(bits));
}

// The best labels by score of one tree, where every label comes once.
class BestScores {
public:
    BestScores(TopLabels& out, std::int64_t top_k) : out_(&out), top_k_(top_k) {}

    void begin(std::int64_t n_rows) {
        rows_.resize(n_rows);
        for (Row& row : rows_) {
            row.found.clear();
            row.bound = -std::numeric_limits<float>::infinity();
            row.limit = 2 * static_cast<std::size_t>(top_k_) + kSpare;
        }
    }

    void take(std::int32_t row, std::int32_t label, float log_probability) {
        Row& kept = rows_[row];
        if (log_probability < kept.bound) return;
        kept.found.push_back({log_probability, label});
        if (kept.found.size() >= kept.limit) drop_worst(kept);
    }

    void write(std::int64_t row, std::int64_t out_row) {
        auto& found = rows_[row].found;
        for (ScoredLabel& one : found) one.score = std::exp(one.score);
        select_top_k(found, std::span(out_->label_ids).subspan(out_row * top_k_, top_k_),
                     std::span(out_->scores).subspan(out_row * top_k_, top_k_));
    }

private:
    static constexpr std::size_t kSpare = 64;
    // Labels this far below the last of the best are not equal to it after the exponential function, which for less
    // than kLeast may be 0 for many.
    static constexpr float kApart = 1e-5F;
    static constexpr float kLeast = -80.0F;

    struct Row {
        std::vector<ScoredLabel> found;
        float bound;
        std::size_t limit;
    };

    void drop_worst(Row& row) {
        const auto last = row.found.begin() + static_cast<std::ptrdiff_t>(top_k_) - 1;
        std::nth_element(row.found.begin(), last, row.found.end(), ranks_before);
        if (last->score > kLeast) {
            row.bound = last->score - kApart;
            std::erase_if(row.found, [&](const ScoredLabel& one) { return one.score < row.bound; });
        }
        row.limit = std::max(row.limit, 2 * row.found.size());
    }

    TopLabels* out_;
    std::int64_t top_k_;
    std::vector<Row> rows_;
};

// The best labels of one tree by what they are worth at their scores.
class BestByValue {
public:
    BestByValue(ValuedLabels& out, const ValueTable& values, std::int64_t top_k)
        : out_(&out), values_(&values), top_k_(top_k) {}

    void begin(std::int64_t n_rows) {
        rows_.resize(n_rows, BestValues(*values_));
        for (BestValues& row : rows_) row.clear();
    }

    void take(std::int32_t row, std::int32_t label, float log_probability) {
        BestValues& best = rows_[row];
        if (exp_bound(log_probability) < best.needed()[label]) return;
        best.offer(std::exp(log_probability), label, static_cast<std::size_t>(top_k_));
    }

    // Do so for many labels of a row, whose log-probabilities are weight · above + logs. These are padded with -infinity
    // to a multiple of kLanes.
    void take_all(std::int32_t row, std::span<const std::int32_t> children, const std::vector<float>& logs,
                  float weight, float above) {
        const auto take_between = [&](float least, float most) {
            for (std::size_t first = 0; first < logs.size(); first += kLanes) {
                Lanes lanes;
                load(lanes, logs.data() + first);
                std::uint32_t bits = bits_greater(lanes, Lanes{} + least) & ~bits_greater(lanes, Lanes{} + most);
                for (; bits != 0; bits &= bits - 1) {
                    const std::size_t i = first + static_cast<std::size_t>(std::countr_zero(bits));
                    take(row, ~children[i], weight * above + logs[i]);
                }
            }
        };
        const auto least_log = [&] { return rows_[row].least_log_needed() - weight * above - kApart; };
        const float reached = reached_by_top_k(logs, least_log()) - kApart;
        take_between(reached, std::numeric_limits<float>::infinity());
        take_between(least_log(), reached);
    }

    void write(std::int64_t row, std::int64_t out_row) { rows_[row].write(*out_, out_row, top_k_); }

private:
    // More than what sums of log-probabilities are rounded by.
    static constexpr float kApart = 1e-4F;

    // A number that top_k of these reach, or a few more: the values of such labels show what others must be worth.
    // Just `least` if hardly more than top_k reach that.
    float reached_by_top_k(const std::vector<float>& logs, float least) const {
        Lanes greatest, lanes;
        load(greatest, logs.data());
        for (std::size_t first = kLanes; first < logs.size(); first += kLanes) {
            load(lanes, logs.data() + first);
            greatest = max_lanes(greatest, lanes);
        }
        if (std::popcount(bits_greater(greatest, Lanes{} + least)) <= top_k_) return least;
        float parts[kLanes];
        store(greatest, parts);
        std::nth_element(parts, parts + top_k_ - 1, parts + kLanes, std::greater<>());
        return parts[top_k_ - 1];
    }

    ValuedLabels* out_;
    const ValueTable* values_;
    std::int64_t top_k_;
    std::vector<BestValues> rows_;
};

// The labels of several trees: one entry per label, the mean over the trees; a tree that does not reach a label counts
// as zero. `Write` is called as write(labels, row of the output).
template <class Write>
class MeanOverTrees {
public:
    MeanOverTrees(std::size_t n_trees, const Write& write) : n_trees_(n_trees), write_(&write) {}

    void begin(std::int64_t n_rows) {
        found_.resize(n_rows);
        for (auto& row : found_) row.clear();
    }

    void take(std::int32_t row, std::int32_t label, float log_probability) {
        found_[row].push_back({std::exp(log_probability), label});
    }

    void write(std::int64_t row, std::int64_t out_row) {
        add_up(found_[row]);
        (*write_)(found_[row], out_row);
    }

private:
    // A small hash table stays in the cache, and one row does not pay for an array over all labels.
    void add_up(std::vector<ScoredLabel>& found) {
        const std::size_t n_slots = std::bit_ceil(2 * found.size() + 1);
        const int shift = 32 - std::countr_zero(n_slots);
        slots_.assign(n_slots, -1);
        std::int32_t n = 0;
        for (const ScoredLabel one : found) {
            std::size_t slot = (static_cast<std::uint32_t>(one.label_id) * 0x9E3779B1U) >> shift;
            while (slots_[slot] >= 0 && found[slots_[slot]].label_id != one.label_id) slot = (slot + 1) % n_slots;
            if (slots_[slot] >= 0) {
                found[slots_[slot]].score += one.score;
            } else {
                slots_[slot] = n;
                found[n++] = one;
            }
        }
        found.resize(n);
        for (ScoredLabel& one : found) one.score /= static_cast<float>(n_trees_);
    }

    std::size_t n_trees_;
    const Write* write_;
    std::vector<std::vector<ScoredLabel>> found_;
    std::vector<std::int32_t> slots_;  // places in the found labels of a row, or -1
};

}  // namespace longtail::label_tree
