#pragma once

#include <bit>
#include <cstdint>

#include "decisions/best_values.hpp"
#include "linear/best_labels.hpp"
#include "linear/lanes.hpp"

namespace longtail::linear {

// The labels of one row with the greatest values. It is offered scores as BestLabels is.
class BestValueLanes {
public:
    explicit BestValueLanes(const ValueTable& table) : best_(table) {}

    void clear() { best_.clear(); }

    void offer(const Lanes* scores, std::int64_t first_label, std::size_t top_k) {
        if (best_.empty()) begin_high(scores, first_label, top_k);
        for (int part = 0; part < kLabelBlocks; ++part) {
            const std::int64_t first = first_label + part * kLanes;
            for (std::uint32_t above = reaching(scores[part], best_.needed() + first); above != 0; above &= above - 1) {
                const int lane = std::countr_zero(above);
                best_.offer(scores[part][lane], static_cast<std::int32_t>(first) + lane, top_k);
            }
        }
    }

    void write(ValuedLabels& out, std::int64_t row, std::int64_t top_k) { best_.write(out, row, top_k); }

private:
    static std::uint32_t reaching(const Lanes& scores, const float* needed) {
        Lanes least;
        load(least, needed);
        return ~bits_greater(least, scores) & ((1U << kLanes) - 1U);
    }

    // Find a level that top_k of the first labels reach: the values of the others need not be computed.
    void begin_high(const Lanes* scores, std::int64_t first_label, std::size_t top_k) {
        const ValueTable& table = best_.table();
        std::size_t low = 0, high = table.n_levels();
        while (high - low > 1) {
            const std::size_t middle = (low + high) / 2;
            const float* const needed = table.scores_needed(middle) + first_label;
            int n_reaching = 0;
            for (int part = 0; part < kLabelBlocks; ++part)
                n_reaching += std::popcount(reaching(scores[part], needed + part * kLanes));
            (static_cast<std::size_t>(n_reaching) >= top_k ? low : high) = middle;
        }
        // What is needed may be a little low, so that a label may miss the level itself but not the one below.
        best_.begin_at(low > 0 ? low - 1 : 0);
    }

    BestValues best_;
};

}  // namespace longtail::linear
