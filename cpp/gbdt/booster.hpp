#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"
#include "gbdt/bins.hpp"
#include "gbdt/grow.hpp"
#include "gbdt/params.hpp"
#include "gbdt/row_scores.hpp"
#include "gbdt/tree.hpp"

namespace longtail::gbdt {

// Where the columns that a booster is given lie among all features.
struct ColumnBlock {
    std::int32_t first_feature = 0;
    std::int32_t n_features = 0;  // of all blocks together; 0: there is one block only
};

// The boosting run over one training set: bins and scores live here, trees come out one by one. Views must stay valid.
//
// A booster may be given a block of the columns only (and all rows and labels). Boosters of all blocks then grow a tree
// together, level by level, see TreeGrower; whoever calls them carries splits and sides from one to the other.
class Booster {
public:
    // row_weights: empty, or how much each row counts.
    Booster(const DenseView& x, const LabelsView& y, const BoostParams& params, const ColumnBlock& block = {},
            std::span<const float> row_weights = {});
    Booster(const CsrView& x, const LabelsView& y, const BoostParams& params, const ColumnBlock& block = {},
            std::span<const float> row_weights = {});
    Booster(const Booster&) = delete;  // a growing tree points to the bins
    Booster& operator=(const Booster&) = delete;

    // Grow tree number `tree_id` on the current gradients and add it to the scores.
    Tree grow(std::int64_t tree_id, int n_threads, Control& control);

    // The same step by step: begin_tree; while is_growing: find_splits, find_sides, apply_splits; finish_tree.
    void begin_tree(std::int64_t tree_id, int n_threads, Control& control);
    bool is_growing() const { return grower_.has_value() && !grower_->is_done(); }
    std::int64_t n_sides() const { return grower_ ? static_cast<std::int64_t>(grower_->n_sides()) : 0; }
    std::vector<SplitChoice> find_splits(int n_threads, Control& control);
    std::vector<std::uint8_t> find_sides(std::span<const SplitChoice> choices, int n_threads, Control& control) const;
    void apply_splits(std::span<const SplitChoice> choices, std::span<const std::uint8_t> sides, int n_threads,
                      Control& control);
    Tree finish_tree(int n_threads, Control& control);

    // Add a tree that was grown earlier (a resumed run) or on other rows (a validation set). All three ways to add a
    // tree count one unit of progress.
    void add(const TreeView& tree, int n_threads, Control& control);
    // The same when the rows' leaves are known: a booster of a block cannot find them.
    void add_leaves(const TreeView& tree, std::span<const std::int32_t> leaf_of_row, int n_threads, Control& control);
    std::vector<std::int32_t> find_leaves(const TreeView& tree, int n_threads, Control& control) const;

    double loss(int n_threads, Control& control) const { return scores_.loss(n_threads, control); }
    std::vector<std::int64_t> gradient_sizes() const;

private:
    void check_growing(std::size_t n_choices) const;

    bool is_dense_;
    DenseView dense_;
    CsrView sparse_;
    BoostParams params_;
    ColumnBlock block_;
    Bins bins_;
    RowScores scores_;
    GradientStores stores_;
    std::optional<TreeGrower> grower_;
};

}  // namespace longtail::gbdt
