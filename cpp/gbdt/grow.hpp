#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"
#include "gbdt/bins.hpp"
#include "gbdt/candidates.hpp"
#include "gbdt/exact_search.hpp"
#include "gbdt/gradients.hpp"
#include "gbdt/params.hpp"
#include "gbdt/split_search.hpp"
#include "gbdt/tree.hpp"

namespace longtail::gbdt {

struct GrownTree {
    Tree tree;
    std::vector<std::int32_t> leaf_of_row;  // node id of every row
};

// The columns of X that one grower sees: all of them, or a block whose first column is feature `first_feature`.
struct Columns {
    const Bins* bins = nullptr;
    DenseView x;  // read by the exact search only
    std::int32_t first_feature = 0;
    std::int32_t n_columns = 0;
};

// Gradients of a level and of the next one; they take turns as the tree grows.
using GradientStores = std::array<GradientStore, 2>;

// Grows one tree level by level. Each level is three steps:
//
//   find_splits   the best threshold of every open node among this grower's columns
//   find_sides    for nodes cut at one of this grower's columns: which rows go left
//   apply         cut the open nodes, find the gradients of their children
//
// Growers that own different columns of the same rows stay in step when the best of their splits (`better_than`) and the
// union of their sides are given to each; the tree is the same for any cutting into blocks, to the last bit, because
// what a threshold gains never depends on what is searched beside it.
class TreeGrower {
public:
    // The tree learns from `sampled_rows` (ascending); the others only find their leaves. `features` are the ids to try,
    // ascending, counted over all blocks; those of other blocks are left out. `root` lies in the first of the stores.
    // `row_weights`, by row id or empty, are those that the gradients have been multiplied by.
    TreeGrower(const Columns& columns, std::int64_t n_rows, std::span<const float> row_weights,
               std::span<const std::int32_t> sampled_rows, std::span<const std::int32_t> features, NodeGradients root,
               GradientStores& stores, const BoostParams& params);

    bool is_done() const { return level_.empty(); }
    std::size_t n_open() const { return level_.size(); }
    std::size_t n_sides() const { return side_begins().back(); }
    // One a node, feature -1 where no column has an allowed threshold.
    std::vector<SplitChoice> find_splits(int n_threads, Control& control);
    // One byte per row, 1 for left, node after node; in a node first the rows it learns from, then the others. Nodes that
    // are not cut at a column of this grower have zeros.
    std::vector<std::uint8_t> find_sides(std::span<const SplitChoice> choices, int n_threads, Control& control) const;
    void apply(std::span<const SplitChoice> choices, std::span<const std::uint8_t> sides, int n_threads,
               Control& control);
    // When is_done().
    GrownTree finish();

private:
    // A node that may still be split.
    struct OpenNode {
        std::int32_t node_id = 0;
        std::vector<std::int32_t> rows;    // row ids, ascending
        std::vector<std::int32_t> others;  // rows outside the sample
        NodeGradients gradients;
        std::vector<std::int32_t> bin_counts;  // kMaxBins a feature to try; empty, or -1 where not counted yet
        Candidates candidates;
        std::vector<Tile> tiles;
        std::vector<std::int32_t> label_order;
        std::vector<float> label_bounds;
        RowGradients by_row;  // exact search only
        double weight = 0.0;  // n + λ of eq. 19 and 20 without the λ
        double reduction = 0.0;

        NodeView view(std::span<const float> row_weights) const {
            return {rows, weight, row_weights, &gradients, &candidates, label_order, label_bounds};
        }
        std::size_t n_sides() const { return rows.size() + others.size(); }
    };

    bool may_split(std::int64_t n_rows, std::int32_t depth) const {
        return depth < params_.max_depth && n_rows >= 2 * params_.min_leaf_size && n_rows >= 2;
    }
    bool gains(const OpenNode& node, const SplitChoice& choice) const {
        return choice.feature >= 0 && choice.reduction > node.reduction;
    }
    bool owns(std::int32_t feature) const {
        return feature >= columns_.first_feature && feature < columns_.first_feature + columns_.n_columns;
    }
    double weight_of(std::span<const std::int32_t> rows) const;
    std::vector<std::size_t> side_begins() const;
    bool goes_left(const SplitChoice& choice, std::int32_t row) const;
    std::int32_t add_node();
    void order_level(int n_threads, Control& control);
    bool keeps_counts(const OpenNode& node, std::int32_t depth) const;
    void list_candidates(int n_threads, Control& control);
    void divide_counts(std::span<const std::size_t> parents, std::span<OpenNode> children, int n_threads,
                       Control& control);
    void close(const OpenNode& node);
    void lay_out_leaves();

    Columns columns_;
    std::vector<std::int32_t> features_;  // columns to try
    std::vector<std::int32_t> feature_places_;
    std::span<const float> row_weights_;
    BoostParams params_;
    GradientStores* stores_;
    std::vector<OpenNode> level_;
    std::int32_t depth_ = 0;
    std::vector<SearchScratch> scratch_;
    GrownTree grown_;
    std::vector<LabelSums> leaf_sums_;
    std::vector<double> leaf_weights_;
};

}  // namespace longtail::gbdt
