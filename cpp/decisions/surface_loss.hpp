#pragma once

// How well a surface of log-odds (see surface.hpp) explains which labels were right, and in which direction it would do
// so better: what Newton's method needs to fit it.

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"

namespace longtail {

// Pairs of a row and a label, each in a cell of the grid.
struct PairsView {
    std::span<const std::int32_t> cells;  // numbered along the scores first
    std::span<const double> score_share;  // of the way to the next knot; below 0 or above 1 outside the knots
    std::span<const double> count_share;
    std::span<const std::uint8_t> hits;
    std::span<const double> weights;  // how many pairs each of them stands for
};

struct SurfaceLoss {
    double loss = 0.0;             // sum of the negative log-likelihoods
    std::vector<double> gradient;  // by node
    std::vector<double> hessian;   // by node and node
};

// Throw std::invalid_argument unless the pairs lie in the cells of the grid.
void check_pairs(const PairsView& pairs, std::int64_t n_score_knots, std::int64_t n_count_knots);

// `log_odds` holds one row of score nodes for each count knot. Sums are made in the order of the pairs.
SurfaceLoss surface_loss(const PairsView& pairs, std::span<const double> log_odds, std::int64_t n_score_knots,
                         Control& control);

}  // namespace longtail
