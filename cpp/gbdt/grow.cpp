#include "gbdt/grow.hpp"

#include <algorithm>

#include "base/parallel_for.hpp"

namespace longtail::gbdt {
namespace {

// A part of a node's search: a tile of its features, or one feature of the exact search.
struct Job {
    std::int64_t node = 0;
    std::int32_t part = 0;
};

constexpr std::size_t kCountedFeatures = 32;  // whose counts fit the first-level cache
constexpr std::size_t kCountedRows = 512;     // fewer rows are counted faster than counts are read and written

}  // namespace

TreeGrower::TreeGrower(const Columns& columns, std::int64_t n_rows, std::span<const float> row_weights,
                       std::span<const std::int32_t> sampled_rows, std::span<const std::int32_t> features,
                       NodeGradients root_gradients, GradientStores& stores, const BoostParams& params)
    : columns_(columns), row_weights_(row_weights), params_(params), stores_(&stores) {
    feature_places_.assign(columns.n_columns, -1);
    for (const std::int32_t feature : features) {
        if (!owns(feature)) continue;
        feature_places_[feature - columns.first_feature] = static_cast<std::int32_t>(features_.size());
        features_.push_back(feature - columns.first_feature);
    }
    grown_.leaf_of_row.resize(n_rows);
    OpenNode root;
    root.node_id = add_node();
    root.rows.assign(sampled_rows.begin(), sampled_rows.end());
    root.others.reserve(n_rows - static_cast<std::int64_t>(root.rows.size()));
    auto next = root.rows.begin();
    for (std::int32_t row = 0; row < n_rows; ++row) {
        if (next != root.rows.end() && *next == row)
            ++next;
        else
            root.others.push_back(row);
    }
    root.gradients = std::move(root_gradients);
    root.weight = weight_of(root.rows);
    if (may_split(static_cast<std::int64_t>(root.rows.size()), 0))
        level_.push_back(std::move(root));
    else
        close(root);
}

double TreeGrower::weight_of(std::span<const std::int32_t> rows) const {
    if (row_weights_.empty()) return static_cast<double>(rows.size());
    double sum = 0.0;
    for (const std::int32_t row : rows) sum += row_weights_[row];
    return sum;
}

bool TreeGrower::keeps_counts(const OpenNode& node, std::int32_t depth) const {
    return !params_.exact() && columns_.bins->is_dense && node.rows.size() >= kCountedRows &&
           may_split(static_cast<std::int64_t>(node.rows.size()), depth);
}

std::int32_t TreeGrower::add_node() {
    Tree& tree = grown_.tree;
    tree.split_features.push_back(-1);
    tree.thresholds.push_back(0.0F);
    tree.left_children.push_back(-1);
    tree.gains.push_back(0.0F);
    leaf_sums_.emplace_back();
    leaf_weights_.push_back(0.0);
    return static_cast<std::int32_t>(tree.split_features.size()) - 1;
}

// What a node gives up when it is cut, and the labels that the search looks at.
void TreeGrower::order_level(int n_threads, Control& control) {
    parallel_for(static_cast<std::int64_t>(level_.size()), n_threads, control, [&](std::int64_t i, int) {
        OpenNode& node = level_[i];
        std::vector<double> totals;  // of the labels that the search looks at, so that like is compared with like
        if (params_.exact()) {
            node.by_row = by_row(node.gradients, static_cast<std::int64_t>(node.rows.size()));
            for (const LabelGradients& label : node.gradients.labels) totals.push_back(label.total);
        } else {
            order_labels(node.gradients, n_searched_labels(params_), node.label_order, node.label_bounds);
            for (const std::int32_t label : node.label_order) totals.push_back(node.gradients.labels[label].total);
        }
        node.reduction = top_k_squares(totals, params_.leaf_top_k) / (node.weight + params_.l2);
    });
}

void TreeGrower::list_candidates(int n_threads, Control& control) {
    // Dense bins: thresholds of a few features at a time. Sparse bins: a row's entries are read once for all.
    const bool is_dense = columns_.bins->is_dense;
    const std::size_t block = is_dense ? kCountedFeatures : std::max<std::size_t>(features_.size(), 1);
    const std::size_t n_blocks = (features_.size() + block - 1) / block;
    for (OpenNode& node : level_)
        if (keeps_counts(node, depth_) && node.bin_counts.empty())
            node.bin_counts.assign(features_.size() * kMaxBins, -1);
    std::vector<Candidates> found(level_.size() * n_blocks);
    parallel_for(static_cast<std::int64_t>(found.size()), n_threads, control, [&](std::int64_t task, int) {
        OpenNode& node = level_[task / n_blocks];
        const std::size_t first = task % n_blocks * block;
        const auto features =
            std::span<const std::int32_t>(features_).subspan(first, std::min(block, features_.size() - first));
        if (!is_dense) {
            found[task] = find_sparse_candidates(*columns_.bins, node.rows, features, feature_places_, params_);
            if (!row_weights_.empty()) weigh_left(*columns_.bins, node.rows, row_weights_, found[task]);
            return;
        }
        std::vector<std::int32_t> own;
        if (node.bin_counts.empty()) own.assign(features.size() * kMaxBins, -1);
        const auto counts = own.empty()
                                ? std::span(node.bin_counts).subspan(first * kMaxBins, features.size() * kMaxBins)
                                : std::span(own);
        if (counts[0] < 0) count_bins(*columns_.bins, node.rows, features, counts);
        found[task] =
            find_candidates(*columns_.bins, counts, static_cast<std::int64_t>(node.rows.size()), features, params_);
        if (!row_weights_.empty()) weigh_left(*columns_.bins, node.rows, row_weights_, found[task]);
    });
    for (std::size_t task = 0; task < found.size(); ++task) level_[task / n_blocks].candidates.append(found[task]);
    for (OpenNode& node : level_) node.tiles = cut_tiles(node.candidates);
}

// The rows of the smaller child are counted; what the parent has besides belongs to the larger one.
void TreeGrower::divide_counts(std::span<const std::size_t> parents, std::span<OpenNode> children, int n_threads,
                               Control& control) {
    const std::size_t n_blocks = (features_.size() + kCountedFeatures - 1) / kCountedFeatures;
    const auto n_tasks = static_cast<std::int64_t>(parents.size() * n_blocks);
    const auto smaller_of = [&](std::size_t i) {
        return 2 * i + (children[2 * i].rows.size() <= children[2 * i + 1].rows.size() ? 0 : 1);
    };
    for (std::size_t i = 0; i < parents.size(); ++i) {
        OpenNode& smaller = children[smaller_of(i)];
        OpenNode& larger = children[smaller_of(i) ^ 1];
        if (!keeps_counts(larger, depth_ + 1)) continue;
        larger.bin_counts = std::move(level_[parents[i]].bin_counts);
        if (keeps_counts(smaller, depth_ + 1)) smaller.bin_counts.assign(larger.bin_counts.size(), -1);
    }
    parallel_for(n_tasks, n_threads, control, [&](std::int64_t task, int) {
        OpenNode& smaller = children[smaller_of(task / n_blocks)];
        OpenNode& larger = children[smaller_of(task / n_blocks) ^ 1];
        if (larger.bin_counts.empty()) return;
        const std::size_t first = task % n_blocks * kCountedFeatures;
        const std::size_t n_features = std::min(kCountedFeatures, features_.size() - first);
        std::vector<std::int32_t> own(smaller.bin_counts.empty() ? n_features * kMaxBins : 0);
        const auto counts = own.empty() ? std::span(smaller.bin_counts).subspan(first * kMaxBins, n_features * kMaxBins)
                                        : std::span(own);
        count_bins(*columns_.bins, smaller.rows, std::span<const std::int32_t>(features_).subspan(first, n_features),
                   counts);
        std::int32_t* left_over = larger.bin_counts.data() + first * kMaxBins;
        for (std::size_t i = 0; i < counts.size(); ++i) left_over[i] -= counts[i];
    });
}

std::vector<SplitChoice> TreeGrower::find_splits(int n_threads, Control& control) {
    order_level(n_threads, control);
    if (!params_.exact()) list_candidates(n_threads, control);
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < level_.size(); ++i) {
        const std::size_t n_parts = params_.exact() ? features_.size() : level_[i].tiles.size();
        for (std::size_t part = 0; part < n_parts; ++part)
            jobs.push_back({static_cast<std::int64_t>(i), static_cast<std::int32_t>(part)});
    }
    scratch_.resize(std::max<std::size_t>(scratch_.size(), std::max(n_threads, 1)));
    std::vector<SplitChoice> found(jobs.size());
    parallel_for(static_cast<std::int64_t>(jobs.size()), n_threads, control, [&](std::int64_t task, int worker) {
        const OpenNode& node = level_[jobs[task].node];
        const std::int32_t part = jobs[task].part;
        found[task] = params_.exact() ? search_exactly(columns_.x, node.view(row_weights_), node.by_row,
                                                       features_[part], params_, control)
                                      : search_tile(*columns_.bins, node.view(row_weights_), node.tiles[part], params_,
                                                    scratch_[worker], control);
    });
    std::vector<SplitChoice> choices(level_.size());
    for (std::size_t task = 0; task < jobs.size(); ++task) {
        if (found[task].feature < 0) continue;
        found[task].feature += columns_.first_feature;
        if (found[task].better_than(choices[jobs[task].node])) choices[jobs[task].node] = found[task];
    }
    return choices;
}

std::vector<std::size_t> TreeGrower::side_begins() const {
    std::vector<std::size_t> begins{0};
    for (const OpenNode& node : level_) begins.push_back(begins.back() + node.n_sides());
    return begins;
}

bool TreeGrower::goes_left(const SplitChoice& choice, std::int32_t row) const {
    const std::int32_t column = choice.feature - columns_.first_feature;
    if (params_.exact()) return columns_.x.row(row)[column] <= choice.threshold;
    const Bins& bins = *columns_.bins;
    if (bins.is_dense) return bins.dense_row(row)[column] <= choice.bin;
    const auto first = bins.feature_ids.begin() + bins.row_begin[row];
    const auto last = bins.feature_ids.begin() + bins.row_begin[row + 1];
    const auto found = std::lower_bound(first, last, column);
    const bool is_listed = found != last && *found == column;
    return (is_listed ? bins.bins[found - bins.feature_ids.begin()] : bins.zero_bins[column]) <= choice.bin;
}

std::vector<std::uint8_t> TreeGrower::find_sides(std::span<const SplitChoice> choices, int n_threads,
                                                 Control& control) const {
    const std::vector<std::size_t> begins = side_begins();
    std::vector<std::uint8_t> sides(begins.back(), 0);
    parallel_for(static_cast<std::int64_t>(level_.size()), n_threads, control, [&](std::int64_t i, int) {
        const OpenNode& node = level_[i];
        if (!gains(node, choices[i]) || !owns(choices[i].feature)) return;
        std::uint8_t* out = sides.data() + begins[i];
        for (const std::int32_t row : node.rows) *out++ = goes_left(choices[i], row) ? 1 : 0;
        for (const std::int32_t row : node.others) *out++ = goes_left(choices[i], row) ? 1 : 0;
    });
    return sides;
}

// Cut every node that gains by its best threshold; the others become leaves.
void TreeGrower::apply(std::span<const SplitChoice> choices, std::span<const std::uint8_t> sides, int n_threads,
                       Control& control) {
    const std::vector<std::size_t> begins = side_begins();
    std::vector<std::size_t> parents;
    std::vector<const OpenNode*> leaves;
    for (std::size_t i = 0; i < level_.size(); ++i) {
        if (gains(level_[i], choices[i]))
            parents.push_back(i);
        else
            leaves.push_back(&level_[i]);
    }
    std::vector<OpenNode> children(parents.size() * 2);
    std::vector<std::vector<std::int32_t>> child_rows(parents.size());
    std::vector<GradientSplit> splits(parents.size());
    for (std::size_t i = 0; i < parents.size(); ++i) {
        Tree& tree = grown_.tree;
        const SplitChoice& choice = choices[parents[i]];
        const std::int32_t parent_id = level_[parents[i]].node_id;
        children[2 * i].node_id = add_node();
        children[2 * i + 1].node_id = add_node();
        tree.split_features[parent_id] = choice.feature;
        tree.thresholds[parent_id] = choice.threshold;
        tree.left_children[parent_id] = children[2 * i].node_id;
        tree.gains[parent_id] = static_cast<float>(choice.reduction - level_[parents[i]].reduction);
    }
    parallel_for(static_cast<std::int64_t>(parents.size()), n_threads, control, [&](std::int64_t i, int) {
        const OpenNode& parent = level_[parents[i]];
        OpenNode& left = children[2 * i];
        OpenNode& right = children[2 * i + 1];
        const std::uint8_t* side = sides.data() + begins[parents[i]];
        child_rows[i].resize(parent.rows.size());
        for (std::size_t j = 0; j < parent.rows.size(); ++j) {
            const bool is_left = *side++ != 0;
            std::vector<std::int32_t>& rows = is_left ? left.rows : right.rows;
            const auto place = static_cast<std::int32_t>(rows.size());
            child_rows[i][j] = is_left ? place : ~place;
            rows.push_back(parent.rows[j]);
        }
        for (const std::int32_t row : parent.others) (*side++ != 0 ? left : right).others.push_back(row);
        left.weight = weight_of(left.rows);
        right.weight = weight_of(right.rows);
        splits[i].parent = &parent.gradients;
        splits[i].child_rows = child_rows[i];
        splits[i].needs_left = may_split(static_cast<std::int64_t>(left.rows.size()), depth_ + 1);
        splits[i].needs_right = may_split(static_cast<std::int64_t>(right.rows.size()), depth_ + 1);
    });
    divide_counts(parents, children, n_threads, control);
    split_gradients(splits, (*stores_)[(depth_ + 1) % 2], n_threads, control);

    std::vector<OpenNode> next;
    for (std::size_t i = 0; i < children.size(); ++i) {
        GradientSplit& from = splits[i / 2];
        children[i].gradients = std::move(i % 2 == 0 ? from.left : from.right);
        if (i % 2 == 0 ? from.needs_left : from.needs_right)
            next.push_back(std::move(children[i]));
        else
            leaves.push_back(&children[i]);
    }
    parallel_for(static_cast<std::int64_t>(leaves.size()), n_threads, control,
                 [&](std::int64_t i, int) { close(*leaves[i]); });
    level_ = std::move(next);
    ++depth_;
}

// Nodes own their rows, so that many may be closed at once.
void TreeGrower::close(const OpenNode& node) {
    leaf_sums_[node.node_id] = keep_top_k(node.gradients.labels, params_.leaf_top_k);
    leaf_weights_[node.node_id] = node.weight;
    for (const std::int32_t row : node.rows) grown_.leaf_of_row[row] = node.node_id;
    for (const std::int32_t row : node.others) grown_.leaf_of_row[row] = node.node_id;
}

GrownTree TreeGrower::finish() {
    lay_out_leaves();
    return std::move(grown_);
}

// h = p / (n + λ) (eq. 19), times the shrinkage.
void TreeGrower::lay_out_leaves() {
    Tree& tree = grown_.tree;
    tree.leaf_begin.push_back(0);
    for (std::size_t node = 0; node < leaf_sums_.size(); ++node) {
        const double scale = params_.shrinkage / (leaf_weights_[node] + params_.l2);
        const LabelSums& leaf = leaf_sums_[node];
        tree.leaf_label_ids.insert(tree.leaf_label_ids.end(), leaf.label_ids.begin(), leaf.label_ids.end());
        for (const double sum : leaf.sums) tree.leaf_values.push_back(static_cast<float>(sum * scale));
        tree.leaf_begin.push_back(static_cast<std::int64_t>(tree.leaf_label_ids.size()));
    }
}

}  // namespace longtail::gbdt
