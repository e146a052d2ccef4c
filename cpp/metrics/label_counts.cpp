#include "metrics/label_counts.hpp"

#include <algorithm>

namespace longtail {

void add_label_counts(const RankedView& ranked, const LabelsView& labels, const LabelCounts& counts) {
    for (const std::int32_t label_id : labels.indices) ++counts.n_rows[label_id];
    for (std::int64_t row = 0; row < ranked.n_rows; ++row) {
        const auto row_labels = labels.row_labels(row);
        const auto label_ids = ranked.row(row);
        for (std::int64_t rank = 0; rank < ranked.n_ranks && label_ids[rank] >= 0; ++rank) {
            const std::int64_t at = counts.part_of_rank[rank] * labels.n_labels + label_ids[rank];
            ++counts.n_given[at];
            counts.n_hits[at] += std::ranges::binary_search(row_labels, label_ids[rank]);
        }
    }
}

}  // namespace longtail
