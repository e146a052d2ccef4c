#pragma once

// What a label is worth at a score: slope · probability. Both the slope and the curve from scores to probabilities
// depend on how many training rows a label has: labels with equally many share them.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace longtail {

struct CurvesView {
    std::span<const std::int32_t> curve_of_label;
    std::span<const double> score_knots;  // rising, at least two
    std::span<const double> log_odds;     // of each curve at the knots; linear between and beyond them, never falling
    std::span<const float> slopes;        // one per curve

    // `left` is the knot at or before the score, but never the last one; the first one for scores before it.
    float value_at(std::int32_t curve, std::size_t left, double score) const {
        const double first = score_knots[left], next = score_knots[left + 1];
        const double* z = log_odds.data() + static_cast<std::size_t>(curve) * score_knots.size() + left;
        const double at_score = z[0] + (score - first) / (next - first) * (z[1] - z[0]);
        return slopes[curve] * static_cast<float>(1.0 / (1.0 + std::exp(-at_score)));
    }
};

// Throw std::invalid_argument unless the parts fit together and every label has a curve.
void check_curves(const CurvesView& curves);

}  // namespace longtail
