#pragma once

// Rank by slope · probability from a short list of the labels with the best scores, and tell for which rows the list was
// too short. Both the slope and the curve from scores to probabilities depend on how many training rows a label has:
// labels with equally many share them.

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "decisions/candidates.hpp"

namespace longtail {

struct CurvesView {
    std::span<const std::int32_t> curve_of_label;
    std::span<const double> score_knots;  // rising, at least two
    std::span<const double> log_odds;     // of each curve at the knots; linear between and beyond them, never falling
    std::span<const float> slopes;        // one per curve
};

// No label with a score of s or less has a value above the bound of the first score that is s or greater.
struct BoundsView {
    std::span<const float> scores;  // rising; none: the candidates are not sorted, and no row is open
    std::span<const float> bounds;  // one more: the last holds for greater scores
};

struct Shortlisted {
    Chosen chosen;
    std::vector<std::uint8_t> is_open;  // of each row: a label that is not a candidate may belong into the choice
};

// Throw std::invalid_argument unless the parts fit together and every candidate has a curve. Candidates are checked ones.
void check_curves(const CandidatesView& candidates, const CurvesView& curves, const BoundsView& bounds);

// Candidates are in the order of falling scores if there are bounds. Ties keep the order of the candidates.
Shortlisted rank_calibrated(const CandidatesView& candidates, const CurvesView& curves, const BoundsView& bounds,
                            std::int64_t top_k, int n_threads, Control& control);

}  // namespace longtail
