#include "decisions/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace longtail {

void check_candidates(const CandidatesView& candidates, std::int64_t n_labels) {
    if (candidates.label_ids.size() != candidates.values.size())
        throw std::invalid_argument("candidates: label_ids and values must have the same shape, got " +
                                    std::to_string(candidates.label_ids.size()) + " and " +
                                    std::to_string(candidates.values.size()) + " entries");
    // Without a way out of the loops, so that the compiler can use vector instructions.
    std::int32_t least = 0, greatest = -1;
    for (const std::int32_t label_id : candidates.label_ids) {
        least = std::min(least, label_id);
        greatest = std::max(greatest, label_id);
    }
    if (least < -1 || greatest >= n_labels)
        throw std::invalid_argument("candidates: label ids must be in -1 .. " + std::to_string(n_labels - 1) +
                                    ", got " + std::to_string(least < -1 ? least : greatest));
    std::int32_t any_bad = 0;
    for (const float value : candidates.values)
        any_bad |= static_cast<std::int32_t>(!(std::fabs(value) <= std::numeric_limits<float>::max()));
    if (any_bad != 0) throw std::invalid_argument("candidates: values must be finite");
}

std::vector<std::uint8_t> find_hits(std::span<const std::int32_t> label_ids, std::int64_t n_candidates,
                                    const LabelsView& labels) {
    std::vector<std::uint8_t> is_hit(label_ids.size());
    for (std::int64_t row = 0; row < labels.n_rows; ++row) {
        const auto of_row = labels.row_labels(row);
        const std::int64_t first = row * n_candidates;
        for (std::int64_t i = first; i < first + n_candidates; ++i)
            is_hit[i] = static_cast<std::uint8_t>(std::binary_search(of_row.begin(), of_row.end(), label_ids[i]));
    }
    return is_hit;
}

}  // namespace longtail
