#pragma once

// How well a surface of log-odds (see surface.hpp) explains which labels were right, and in which direction it would do
// so better: what Newton's method needs to fit it.

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"

namespace longtail {

// Pairs of a row and a label.
struct PairsView {
    std::span<const float> scores;
    std::span<const double> log_counts;  // log(1 + training rows of the label)
    std::span<const std::uint8_t> hits;
    std::span<const float> weights;        // how many pairs each of them stands for; those with 0 are left out
    std::span<const std::uint8_t> is_odd;  // which of two halves a pair is in
};

// Throw std::invalid_argument unless the pairs fit together and the knots rise.
void check_pairs(const PairsView& pairs, std::span<const double> score_knots, std::span<const double> count_knots);

struct SurfaceLoss {
    double loss = 0.0;             // sum of the negative log-likelihoods
    std::vector<double> gradient;  // by node
    std::vector<double> hessian;   // by node and node
};

enum class Half : std::uint8_t { kEven = 0, kOdd = 1, kBoth = 2 };

// Pairs at their places on a grid, those of one cell side by side, so that sixteen of them are computed at once.
class SurfacePairs {
public:
    // The pairs and knots are checked ones, and copied.
    SurfacePairs(const PairsView& pairs, std::span<const double> score_knots, std::span<const double> count_knots);

    std::size_t n_nodes() const { return n_scores_ * n_counts_; }
    // Pairs and hits of a half, each as often as it counts.
    double n_pairs(Half half) const { return of_half(n_pairs_, half); }
    double n_hits(Half half) const { return of_half(n_hits_, half); }

    // `log_odds` holds one row of score nodes for each count knot.
    SurfaceLoss loss(std::span<const double> log_odds, Half half, Control& control) const;

private:
    static double of_half(const double* sums, Half half) {
        return half == Half::kBoth ? sums[0] + sums[1] : sums[static_cast<std::size_t>(half)];
    }

    std::size_t n_scores_;
    std::size_t n_counts_;
    double n_pairs_[2] = {0.0, 0.0};
    double n_hits_[2] = {0.0, 0.0};
    // The first pair of each cell, of even rows and then of odd ones. Cells begin at multiples of kLanes and are padded
    // with pairs of weight 0.
    std::vector<std::size_t> begins_;
    std::vector<float> score_share_;  // of the way to the next knot
    std::vector<float> count_share_;
    std::vector<float> hits_;
    std::vector<float> weights_;
};

}  // namespace longtail
