#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/top_k.hpp"
#include "linear/lanes.hpp"

namespace longtail::linear {

constexpr float kNeverBest = -std::numeric_limits<float>::infinity();

// Labels are offered in blocks of so many times sixteen.
constexpr int kLabelBlocks = 4;

// The best labels of one row so far. Labels are offered in increasing order: so a tie with the worst of the best is lost,
// as the order of predictions asks.
class BestLabels {
public:
    void clear() {
        best_.clear();
        worst_ = kNeverBest;
    }

    void offer(const Lanes* scores, std::int64_t first_label, std::size_t top_k) {
        for (int part = 0; part < kLabelBlocks; ++part) offer(scores[part], first_label + part * kLanes, top_k);
    }

    void write(TopLabels& out, std::int64_t row, std::int64_t top_k) {
        const auto first = static_cast<std::size_t>(row * top_k), count = static_cast<std::size_t>(top_k);
        select_top_k(best_, std::span(out.label_ids).subspan(first, count),
                     std::span(out.scores).subspan(first, count));
    }

private:
    void offer(const Lanes& scores, std::int64_t first_label, std::size_t top_k) {
        std::uint32_t above = bits_greater(scores, Lanes{} + worst_);
        for (; above != 0; above &= above - 1) {
            const int lane = std::countr_zero(above);
            const float score = scores[lane];
            if (!(score > worst_)) continue;  // raised meanwhile
            best_.push_back({score, static_cast<std::int32_t>(first_label) + lane});
            std::push_heap(best_.begin(), best_.end(), ranks_before);  // the worst in front
            if (best_.size() > top_k) {
                std::pop_heap(best_.begin(), best_.end(), ranks_before);
                best_.pop_back();
            }
            if (best_.size() == top_k) worst_ = best_.front().score;
        }
    }

    std::vector<ScoredLabel> best_;
    float worst_ = kNeverBest;  // once there are top_k
};

}  // namespace longtail::linear
