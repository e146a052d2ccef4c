#pragma once

// From scores to probabilities. The log-odds that a label is right are a surface over two axes: the label's score and
// the logarithm of its number of training rows. The surface is given at the nodes of a grid and is bilinear between
// them; beyond the ends of the score axis it goes on as a line, beyond the ends of the other axis it stays level.

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "decisions/candidates.hpp"

namespace longtail {

struct SurfaceView {
    std::span<const double> score_knots;  // rising, at least two
    std::span<const double> count_knots;  // of log(1 + rows), rising, at least two
    std::span<const double> log_odds;     // one row of score nodes for each count knot
};

void check_surface(const SurfaceView& surface);

// The last knot at or below x, of which another one stands to the right.
inline std::size_t left_knot(std::span<const double> knots, double x) {
    std::size_t left = 0;  // a dozen comparisons without a branch are quicker than a search
    for (std::size_t i = 1; i + 1 < knots.size(); ++i) left += static_cast<std::size_t>(x >= knots[i]);
    return left;
}

double log_odds_at(const SurfaceView& surface, double score, double log_count);

// Map each score to a probability; 0 for padding. `label_counts` holds the training rows of each label.
std::vector<float> calibrated_proba(const CandidatesView& candidates, std::span<const std::int64_t> label_counts,
                                    const SurfaceView& surface, int n_threads, Control& control);

}  // namespace longtail
