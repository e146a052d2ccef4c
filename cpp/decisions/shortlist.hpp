#pragma once

// Rank by slope · probability, the probability being that of a surface over scores, from a short list of the labels
// with the best scores; and tell for which rows the list was too short. No label with a score of s or less can have a
// value above the bound at s, because the surface rises with the score.

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "decisions/candidates.hpp"
#include "decisions/surface.hpp"

namespace longtail {

struct BoundsView {
    std::span<const float> scores;  // rising; none: the candidates are not sorted, and no row is open
    std::span<const float> bounds;  // one more: the last holds for greater scores
};

struct Shortlisted {
    Chosen chosen;
    std::vector<std::uint8_t> is_open;  // of each row: a label that is not a candidate may belong into the choice
};

// Candidates are in the order of falling scores if there are bounds. Ties keep the order of the candidates.
Shortlisted rank_calibrated(const CandidatesView& candidates, std::span<const std::int64_t> label_counts,
                            const SurfaceView& surface, std::span<const float> slopes, const BoundsView& bounds,
                            std::int64_t top_k, int n_threads, Control& control);

}  // namespace longtail
