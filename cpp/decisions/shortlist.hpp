#pragma once

// Rank by slope · probability from a short list of the labels with the best scores, and tell for which rows the list was
// too short.

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "decisions/candidates.hpp"
#include "decisions/curves.hpp"

namespace longtail {

// No label with a score of s or less has a value above the bound of the first score that is s or greater.
struct BoundsView {
    std::span<const float> scores;  // rising; none: the candidates are not sorted, and no row is open
    std::span<const float> bounds;  // one more: the last holds for greater scores
};

struct Shortlisted {
    Chosen chosen;
    std::vector<std::uint8_t> is_open;  // of each row: a label that is not a candidate may belong into the choice
};

// Throw std::invalid_argument unless there is one bound more than scores.
void check_bounds(const BoundsView& bounds);

// Candidates are in the order of falling scores if there are bounds. Ties keep the order of the candidates.
Shortlisted rank_calibrated(const CandidatesView& candidates, const CurvesView& curves, const BoundsView& bounds,
                            std::int64_t top_k, int n_threads, Control& control);

}  // namespace longtail
