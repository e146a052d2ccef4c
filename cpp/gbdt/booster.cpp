#include "gbdt/booster.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "base/parallel_for.hpp"
#include "base/random.hpp"

namespace longtail::gbdt {
namespace {

// A sorted sample of round(share * n) ids, at least one.
std::vector<std::int32_t> sample_ids(std::int64_t n, double share, Random random) {
    std::vector<std::int32_t> ids(n);
    std::iota(ids.begin(), ids.end(), 0);
    if (share >= 1.0) return ids;
    const auto n_taken = std::max<std::int64_t>(1, std::llround(share * static_cast<double>(n)));
    for (std::int64_t i = 0; i < n_taken; ++i)
        std::swap(ids[i], ids[i + random.below(static_cast<std::uint32_t>(n - i))]);
    ids.resize(n_taken);
    std::sort(ids.begin(), ids.end());
    return ids;
}

TreeView view_of(const Tree& tree) {
    return {tree.split_features, tree.thresholds,     tree.left_children,
            tree.leaf_begin,     tree.leaf_label_ids, tree.leaf_values};
}

}  // namespace

Booster::Booster(const DenseView& x, const LabelsView& y, const BoostParams& params, const ColumnBlock& block,
                 std::span<const float> row_weights)
    : is_dense_(true), dense_(x), params_(params), block_(block), scores_(y, params.loss, row_weights) {
    if (block_.n_features == 0) block_.n_features = static_cast<std::int32_t>(x.n_cols);
}

Booster::Booster(const CsrView& x, const LabelsView& y, const BoostParams& params, const ColumnBlock& block,
                 std::span<const float> row_weights)
    : is_dense_(false), sparse_(x), params_(params), block_(block), scores_(y, params.loss, row_weights) {
    if (params.exact()) throw std::invalid_argument("threshold_step 1 (exact) needs dense X");
    if (block_.n_features == 0) block_.n_features = static_cast<std::int32_t>(x.n_cols);
}

Tree Booster::grow(std::int64_t tree_id, int n_threads, Control& control) {
    begin_tree(tree_id, n_threads, control);
    while (is_growing()) {
        const std::vector<SplitChoice> choices = find_splits(n_threads, control);
        apply_splits(choices, find_sides(choices, n_threads, control), n_threads, control);
    }
    return finish_tree(n_threads, control);
}

void Booster::begin_tree(std::int64_t tree_id, int n_threads, Control& control) {
    // Made here and not at the start: scores of a validation set never grow a tree.
    if (!params_.exact() && bins_.n_rows == 0)
        bins_ = is_dense_ ? make_bins(dense_, n_threads, control) : make_bins(sparse_, n_threads, control);
    const auto stream = static_cast<std::uint64_t>(tree_id) * 2;
    const auto rows = sample_ids(scores_.n_rows(), params_.row_share, Random(params_.seed, stream));
    const auto features = sample_ids(block_.n_features, params_.feature_share, Random(params_.seed, stream + 1));
    const auto n_columns = static_cast<std::int32_t>(is_dense_ ? dense_.n_cols : sparse_.n_cols);
    grower_.emplace(Columns{&bins_, dense_, block_.first_feature, n_columns}, scores_.n_rows(), scores_.row_weights(),
                    rows, features, scores_.root_gradients(rows, stores_[0], n_threads, control), stores_, params_);
}

void Booster::check_growing(std::size_t n_choices) const {
    if (!grower_) throw std::invalid_argument("Booster: no tree has been begun; call begin_tree first");
    if (n_choices != grower_->n_open())
        throw std::invalid_argument("Booster: there must be one split for each of the " +
                                    std::to_string(grower_->n_open()) + " open nodes, got " +
                                    std::to_string(n_choices));
}

std::vector<SplitChoice> Booster::find_splits(int n_threads, Control& control) {
    if (!grower_) check_growing(0);
    return grower_->find_splits(n_threads, control);
}

std::vector<std::uint8_t> Booster::find_sides(std::span<const SplitChoice> choices, int n_threads,
                                              Control& control) const {
    check_growing(choices.size());
    return grower_->find_sides(choices, n_threads, control);
}

void Booster::apply_splits(std::span<const SplitChoice> choices, std::span<const std::uint8_t> sides, int n_threads,
                           Control& control) {
    check_growing(choices.size());
    if (sides.size() != grower_->n_sides())
        throw std::invalid_argument("Booster: there must be one side for each of the " +
                                    std::to_string(grower_->n_sides()) + " rows of open nodes, got " +
                                    std::to_string(sides.size()));
    grower_->apply(choices, sides, n_threads, control);
}

Tree Booster::finish_tree(int n_threads, Control& control) {
    check_growing(0);
    GrownTree grown = grower_->finish();
    grower_.reset();
    add_leaves(view_of(grown.tree), grown.leaf_of_row, n_threads, control);
    return std::move(grown.tree);
}

void Booster::add(const TreeView& tree, int n_threads, Control& control) {
    add_leaves(tree, find_leaves(tree, n_threads, control), n_threads, control);
}

std::vector<std::int32_t> Booster::find_leaves(const TreeView& tree, int n_threads, Control& control) const {
    if ((is_dense_ ? dense_.n_cols : sparse_.n_cols) != block_.n_features)
        throw std::invalid_argument("Booster: only a booster with all columns can find leaves");
    std::vector<std::int32_t> leaf_of_row(scores_.n_rows());
    constexpr std::int64_t kRows = 4096;
    parallel_for((scores_.n_rows() + kRows - 1) / kRows, n_threads, control, [&](std::int64_t task, int) {
        const std::int64_t last = std::min((task + 1) * kRows, scores_.n_rows());
        std::vector<float> scattered(is_dense_ ? 0 : sparse_.n_cols, 0.0F);
        for (std::int64_t row = task * kRows; row < last; ++row) {
            if (is_dense_) {
                leaf_of_row[row] =
                    find_leaf(tree.split_features, tree.thresholds, tree.left_children, dense_.row(row).data());
                continue;
            }
            for (std::int64_t i = sparse_.indptr[row]; i < sparse_.indptr[row + 1]; ++i)
                scattered[sparse_.indices[i]] = sparse_.values[i];
            leaf_of_row[row] = find_leaf(tree.split_features, tree.thresholds, tree.left_children, scattered.data());
            for (const std::int32_t feature : sparse_.row_indices(row)) scattered[feature] = 0.0F;
        }
    });
    return leaf_of_row;
}

void Booster::add_leaves(const TreeView& tree, std::span<const std::int32_t> leaf_of_row, int n_threads,
                         Control& control) {
    if (static_cast<std::int64_t>(leaf_of_row.size()) != scores_.n_rows())
        throw std::invalid_argument("Booster: there must be a leaf for each of the " +
                                    std::to_string(scores_.n_rows()) + " rows, got " +
                                    std::to_string(leaf_of_row.size()));
    std::vector<LeafView> leaves;
    leaves.reserve(tree.split_features.size());
    for (std::size_t node = 0; node < tree.split_features.size(); ++node) {
        const std::int64_t begin = tree.leaf_begin[node];
        const std::int64_t size = tree.leaf_begin[node + 1] - begin;
        leaves.push_back({tree.leaf_label_ids.subspan(begin, size), tree.leaf_values.subspan(begin, size)});
    }
    scores_.add(leaf_of_row, leaves, n_threads, control);
    control.add_done(1);
}

std::vector<std::int64_t> Booster::gradient_sizes() const {
    std::vector<std::int64_t> sizes(scores_.n_rows());
    for (std::int64_t row = 0; row < scores_.n_rows(); ++row) sizes[row] = scores_.n_entries(row);
    return sizes;
}

}  // namespace longtail::gbdt
