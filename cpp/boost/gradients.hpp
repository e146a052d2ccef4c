#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"

namespace longtail::boost {

// The negative half-gradients r of a node's rows, label by label, with rows numbered inside the node:
//
//   label_ids[i] -> rows[begin[i] .. begin[i + 1])  ascending, values beside them
//
// Only labels with a non-zero entry in the node are listed, so work at a node costs its own entries.
struct NodeGradients {
    std::vector<std::int32_t> label_ids;  // ascending
    std::vector<std::int64_t> begin{0};
    std::vector<std::int32_t> rows;
    std::vector<float> values;
    std::vector<double> totals;      // p_q: sum of the label's values
    std::vector<double> magnitudes;  // sum of their absolute values

    std::int64_t n_labels() const { return static_cast<std::int64_t>(label_ids.size()); }
};

// What a leaf keeps: labels ascending, sums p_q beside them.
struct LabelSums {
    std::vector<std::int32_t> label_ids;
    std::vector<double> sums;
};

// The leaf_top_k labels with the largest |p_q| (eq. 18-19), ties to the lower id; every non-zero sum when it is 0.
LabelSums keep_top_k(std::span<const std::int32_t> label_ids, std::span<const double> totals, std::int32_t leaf_top_k);

// Σ p_q² over the kept labels: the reduction of eq. 20 before its division.
double top_k_squares(std::span<const double> totals, std::int32_t leaf_top_k);

// One node that is cut in two. `child_rows[row]` is the row's number in the left child, or ~number in the right one.
struct GradientSplit {
    const NodeGradients* parent = nullptr;
    std::span<const std::int32_t> child_rows;
    bool needs_left = true;  // false: the child is a leaf, its totals suffice
    bool needs_right = true;
    NodeGradients left, right;
};

// Fill left and right of every split; parallel over label ranges of all nodes together, so that a lone root uses
// every thread too.
void split_gradients(std::span<GradientSplit> splits, int n_threads, Control& control);

}  // namespace longtail::boost
