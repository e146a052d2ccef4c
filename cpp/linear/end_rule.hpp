#pragma once

// Where labels end that are trained on a set of rows. The published rule bounds the norm of the gradient. With the best bias,
// what is left of it lies where the curvature is low and stands for more of the objective, so they go on for longer.

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace longtail::linear {

// By how much a label's tolerance is multiplied. Objectives grow with the positives, and the gap to the minimum with the
// square of the gradient, whose tolerance grows with the positives too: labels with many of them would end less exactly.
inline double exactness_for(std::size_t n_positives) {
    constexpr double kFewPositives = 16.0;
    return std::sqrt(kFewPositives / std::max(kFewPositives, static_cast<double>(n_positives)));
}

// The greatest norm to end at, whatever the tolerance: ½‖∇L‖², which is far above the gap to the minimum, is then this
// share of L.
inline double most_end_norm(double objective) {
    constexpr double kMostGap = 5e-4;
    return std::sqrt(2.0 * kMostGap * objective);
}

}  // namespace longtail::linear
