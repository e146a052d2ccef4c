#pragma once

#include <cstdint>
#include <span>

#include "base/views.hpp"
#include "metrics/ranked.hpp"

namespace longtail {

// Per label, over all batches so far: rows that have it; rows that are given it, and rows where both hold, by the part
// of the ranks where it is given. The arrays belong to the caller.
struct LabelCounts {
    std::span<const std::int32_t> part_of_rank;
    std::span<std::int64_t> n_rows;
    std::span<std::int64_t> n_given;  // parts × labels
    std::span<std::int64_t> n_hits;   // parts × labels
};

// Add a batch that count_hits has accepted: it has checked the label ids. Each rank has a part.
void add_label_counts(const RankedView& ranked, const LabelsView& labels, const LabelCounts& counts);

}  // namespace longtail
