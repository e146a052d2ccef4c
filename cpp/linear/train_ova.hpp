#pragma once

#include <cstdint>
#include <vector>

#include "base/control.hpp"
#include "linear/problem.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

// The mean row, with the bias feature behind (what OvaMoments::mean holds).
template <class Rows>
std::vector<float> mean_row(const Rows& rows, float bias);

// x_i · weights of every row; weights has n_features + 1 entries, the bias weight last.
template <class Rows>
std::vector<float> row_margins(const Rows& rows, std::span<const float> weights, float bias);

// Train every label of the range in this thread. One label's result depends on its own column only.
template <class Rows>
OvaResult train_ova(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                    const OvaConfig& config, Control& control);

}  // namespace longtail::linear
