#include "decisions/candidates.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

namespace longtail {

void check_candidates(const CandidatesView& candidates, std::int64_t n_labels) {
    if (candidates.label_ids.size() != candidates.values.size())
        throw std::invalid_argument("candidates: label_ids and values must have the same shape, got " +
                                    std::to_string(candidates.label_ids.size()) + " and " +
                                    std::to_string(candidates.values.size()) + " entries");
    for (const std::int32_t label_id : candidates.label_ids)
        if (label_id < -1 || label_id >= n_labels)
            throw std::invalid_argument("candidates: label ids must be in -1 .. " + std::to_string(n_labels - 1) +
                                        ", got " + std::to_string(label_id));
    for (const float value : candidates.values)
        if (!std::isfinite(value)) throw std::invalid_argument("candidates: values must be finite");
}

}  // namespace longtail
