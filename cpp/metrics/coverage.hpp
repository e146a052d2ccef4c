#pragma once

#include <cstdint>
#include <span>

#include "base/views.hpp"
#include "metrics/ranked.hpp"

namespace longtail {

// Over all batches so far, per label: whether it occurs in the label matrix, the best rank at which it was predicted,
// and the best at which it was predicted correctly. The arrays belong to the caller, who sets ranks to kNeverRanked
// before the first batch.
struct Coverage {
    static constexpr std::int32_t kNeverRanked = INT32_MAX;
    std::span<std::uint8_t> occurs;
    std::span<std::int32_t> first_ranks;
    std::span<std::int32_t> first_hit_ranks;
};

// Add a batch that count_hits has accepted: it has checked the label ids.
void add_coverage(const RankedView& ranked, const LabelsView& labels, const Coverage& coverage);

}  // namespace longtail
