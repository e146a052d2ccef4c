#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/top_k.hpp"
#include "base/views.hpp"

namespace longtail::gbdt {

// Many trees (see Tree) one after another: tree t owns the nodes tree_begin[t] .. tree_begin[t + 1]; left_children
// count from the tree's first node, leaf_begin runs over all nodes.
struct ForestView {
    std::int64_t n_labels = 0;
    std::span<const std::int64_t> tree_begin;
    std::span<const std::int32_t> split_features;
    std::span<const float> thresholds;
    std::span<const std::int32_t> left_children;
    std::span<const std::int64_t> leaf_begin;
    std::span<const std::int32_t> leaf_label_ids;
    std::span<const float> leaf_values;

    std::int64_t n_trees() const { return static_cast<std::int64_t>(tree_begin.size()) - 1; }
};

// The top_k labels of every row among those some leaf lists for it: the T sparse leaves are added up, then a heap of
// top_k entries passes once over the sums (appendix B; the paper updates its heap while adding, which is right for
// positive values only).
TopLabels predict_top_k(const DenseView& x, const ForestView& forest, std::int64_t top_k, int n_threads,
                        Control& control);
TopLabels predict_top_k(const CsrView& x, const ForestView& forest, std::int64_t top_k, int n_threads,
                        Control& control);

// The node id, counted over the whole forest, of the leaf each row reaches in each tree: n_rows x n_trees.
std::vector<std::int64_t> find_leaves(const DenseView& x, const ForestView& forest, int n_threads, Control& control);
std::vector<std::int64_t> find_leaves(const CsrView& x, const ForestView& forest, int n_threads, Control& control);

}  // namespace longtail::gbdt
