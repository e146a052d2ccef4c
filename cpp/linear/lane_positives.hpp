#pragma once

// The positives of the labels in lanes, for a walk over all rows in order.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace longtail::linear {

class LanePositives {
public:
    // `Lane` has is_busy and positives.
    template <class Lane>
    void assign(const std::vector<Lane>& lanes, std::int64_t n_rows) {
        pairs_.clear();
        for (std::size_t at = 0; at < lanes.size(); ++at)
            if (lanes[at].is_busy)
                for (const std::int32_t row : lanes[at].positives)
                    pairs_.emplace_back(row, static_cast<std::int32_t>(at));
        std::sort(pairs_.begin(), pairs_.end());
        pairs_.emplace_back(static_cast<std::int32_t>(n_rows), 0);  // a row no cursor passes
    }

    // Whether a row is a positive of some lane. A walk begins with cursor 0 and takes the lanes of each such row.
    bool has(std::int64_t row, std::size_t cursor) const { return pairs_[cursor].first == row; }

    // Its lanes, as bits.
    std::uint32_t take(std::int64_t row, std::size_t& cursor) const {
        std::uint32_t bits = 0;
        for (; pairs_[cursor].first == row; ++cursor) bits |= 1U << pairs_[cursor].second;
        return bits;
    }

private:
    std::vector<std::pair<std::int32_t, std::int32_t>> pairs_;  // (row, lane), sorted
};

}  // namespace longtail::linear
