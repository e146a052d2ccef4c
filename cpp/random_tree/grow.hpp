#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"

namespace longtail::random_tree {

enum class Criterion : std::uint8_t { kGini, kNdcg };

struct Config {
    Criterion criterion{};
    std::int64_t n_tried{};        // features per node, drawn from those that its rows have
    std::int32_t n_thresholds{};   // per feature, at quantiles of the node's values
    std::int64_t max_leaf_size{};  // rows
    std::int64_t leaf_top_k{};     // labels that a leaf keeps
    std::uint64_t seed{};
};

// The arrays of gbdt::ForestView for one tree, breadth first; rows with value <= threshold go left.
struct Tree {
    std::vector<std::int32_t> split_features;
    std::vector<float> thresholds;
    std::vector<std::int32_t> left_children;
    std::vector<std::int64_t> leaf_begin{0};
    std::vector<std::int32_t> leaf_label_ids;
    std::vector<float> leaf_values;  // share of the leaf's rows that carry the label
    double mean_depth = 0.0;         // over the rows
};

// Grow one tree of MLRF (Agrawal et al., WWW 2013) on the given rows, which may repeat. A node tries thresholds on a
// few of its features. Gini: the split with the least Gini index of the label distributions of its sides, weighted by
// their numbers of labels, which is the greatest Σ c² / Σ c of label counts c. nDCG: each side ranks its labels by
// their sums of 1 / ideal DCG over its rows, and the sum of nDCG over all rows is greatest.
Tree grow(const CsrView& x, const LabelsView& y, std::span<const std::int64_t> row_ids, const Config& config,
          Control& control);

}  // namespace longtail::random_tree
