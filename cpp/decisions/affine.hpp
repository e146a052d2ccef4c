#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "decisions/candidates.hpp"

namespace longtail {

// Rank the candidates of each row by slope · value + offset, with a slope and an offset per label; no offsets means 0.
// Every decision that looks at one row at a time has this form. Ties keep the order of the candidates.
Chosen rank_affine(const CandidatesView& candidates, std::span<const float> slopes, std::span<const float> offsets,
                   std::int64_t top_k, int n_threads, Control& control);

// How often each label is chosen by such a ranking, and the sum of its values where it is.
struct ChosenSums {
    std::vector<double> n_given;
    std::vector<double> values;
};
ChosenSums sum_affine(const CandidatesView& candidates, std::span<const float> slopes, std::span<const float> offsets,
                      std::int64_t top_k, Control& control);

}  // namespace longtail
