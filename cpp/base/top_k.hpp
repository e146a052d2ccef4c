#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace longtail {

struct ScoredLabel {
    float score;
    std::int32_t label_id;
};

// The result of every prediction, row-major: n_rows × top_k, padded with label -1 and score 0.
struct TopLabels {
    std::vector<std::int32_t> label_ids;
    std::vector<float> scores;
};

// A result that is ranked by values, which depend on label and score.
struct ValuedLabels : TopLabels {
    std::vector<float> values;
};

// The one order of predictions: higher score first, ties by lower label id. NaN comes last: where sums overflow, sorting
// must still end, and what it returns can then be refused.
inline bool ranks_before(const ScoredLabel& a, const ScoredLabel& b) {
    if (a.score > b.score) return true;
    if (a.score < b.score) return false;
    const bool b_is_nan = std::isnan(b.score);
    if (std::isnan(a.score) != b_is_nan) return b_is_nan;
    return a.label_id < b.label_id;
}

// Move the top_k best candidates, in order, into one row of a TopK result; pad with label -1 and score 0.
inline void select_top_k(std::vector<ScoredLabel>& candidates, std::span<std::int32_t> label_ids,
                         std::span<float> scores) {
    const std::size_t n_found = std::min(label_ids.size(), candidates.size());
    if (n_found < candidates.size())
        std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(n_found),
                         candidates.end(), ranks_before);
    std::sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(n_found), ranks_before);
    for (std::size_t i = 0; i < label_ids.size(); ++i) {
        label_ids[i] = i < n_found ? candidates[i].label_id : -1;
        scores[i] = i < n_found ? candidates[i].score : 0.0F;
    }
}

}  // namespace longtail
