#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"
#include "fastxml/l1_logistic.hpp"
#include "fastxml/node_builder.hpp"
#include "fastxml/ranked_sides.hpp"

namespace longtail::fastxml {

struct TreeConfig {
    std::int32_t max_leaf_size{};
    std::int32_t leaf_labels{};  // labels kept per leaf
    std::int32_t n_updates{};    // times w is optimised at a node
    float bias{};
    float right_cost{};  // C_delta(+1)
    float left_cost{};   // C_delta(-1)
    bool random_ties{};  // order labels of equal weight at random, independently in each node; else by first appearance
    bool balanced_costs{};  // divide each side's cost by its share of the node's rows
    RankConfig ranking;
    L1Config solver;
    std::uint64_t seed{};
    std::uint64_t stream{};  // the tree's number
};

// A tree as flat arrays, in preorder: node 0 is the root, the left child of a split is the next node, right_child[node]
// is its right child, and zero there marks a leaf. So children are greater than their parent. A row goes right when
// w.x + bias >= 0.
struct Tree {
    std::vector<std::int32_t> right_child;
    std::vector<float> biases;
    std::vector<std::int64_t> split_indptr{0};  // sparse weights of each node, empty for leaves
    std::vector<std::int32_t> split_features;
    std::vector<float> split_weights;
    std::vector<std::int64_t> leaf_indptr{0};  // sparse label distribution of each node, empty for splits
    std::vector<std::int32_t> leaf_labels;
    std::vector<float> leaf_values;

    std::vector<double> root_objectives;  // eq. 5 at the root after each update of w
    std::vector<double> root_rounds;      // rounds of rankings and sides at the root until then
    double mean_depth = 0.0;              // H: splits on the way of a training row
    double mean_leaf_labels = 0.0;        // distinct labels per leaf, before the cut to leaf_labels
    double train_precision = 0.0;         // precision@5 of this tree alone on the training rows
};

// Grow one tree (FastXML, algorithm 1). label_weights is empty or 1/p per label (PfastXML); row_weights is empty or says
// how much each row counts, in both halves of a split and in leaves. columns: the view of transpose(x), which saves doing
// it again for every tree; only for sparse x.
Tree grow_tree(const FeaturesView& x, const LabelsView& y, std::span<const float> label_weights,
               std::span<const float> row_weights, const TreeConfig& config, Control& control,
               const CsrView& columns = {});

}  // namespace longtail::fastxml
