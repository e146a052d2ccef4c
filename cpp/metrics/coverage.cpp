#include "metrics/coverage.hpp"

#include <algorithm>

namespace longtail {

void add_coverage(const RankedView& ranked, const LabelsView& labels, const Coverage& coverage) {
    for (const std::int32_t label_id : labels.indices) coverage.occurs[label_id] = 1;
    for (std::int64_t row = 0; row < ranked.n_rows; ++row) {
        const auto row_labels = labels.row_labels(row);
        const auto label_ids = ranked.row(row);
        for (std::int32_t rank = 0; rank < ranked.n_ranks && label_ids[rank] >= 0; ++rank) {
            const std::int32_t label_id = label_ids[rank];
            coverage.first_ranks[label_id] = std::min(coverage.first_ranks[label_id], rank);
            if (rank < coverage.first_hit_ranks[label_id] && std::ranges::binary_search(row_labels, label_id))
                coverage.first_hit_ranks[label_id] = rank;
        }
    }
}

}  // namespace longtail
