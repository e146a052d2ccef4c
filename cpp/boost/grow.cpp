#include "boost/grow.hpp"

#include <algorithm>

#include "base/parallel_for.hpp"
#include "boost/candidates.hpp"
#include "boost/exact_search.hpp"
#include "boost/split_search.hpp"

namespace longtail::boost {
namespace {

// A node that may still be split.
struct OpenNode {
    std::int32_t node_id = 0;
    std::vector<std::int32_t> places;  // into the tree's rows, ascending
    std::vector<std::int32_t> rows;    // row ids at these places
    NodeGradients gradients;
    Candidates candidates;
    std::vector<Tile> tiles;
    std::vector<std::int32_t> label_order;
    std::vector<float> label_bounds;
    RowGradients by_row;  // exact search only
    double reduction = 0.0;
    SplitChoice choice;

    NodeView view() const { return {rows, &gradients, &candidates, label_order, label_bounds}; }
};

struct Job {
    std::int64_t node = 0;
    std::int32_t part = 0;
};

class TreeGrower {
public:
    TreeGrower(const Bins& bins, const DenseView& x, std::span<const std::int32_t> rows,
               std::span<const std::int32_t> features, const BoostParams& params, int n_threads, Control& control)
        : bins_(bins), x_(x), rows_(rows), features_(features), params_(params), n_threads_(n_threads), control_(control) {
        feature_places_.assign(params.exact() ? x.n_cols : bins.n_features, -1);
        for (std::size_t i = 0; i < features.size(); ++i) feature_places_[features[i]] = static_cast<std::int32_t>(i);
        grown_.leaf_of_row.resize(rows.size());
        scratch_.resize(std::max(n_threads, 1));
    }

    GrownTree run(NodeGradients root_gradients) {
        OpenNode root;
        root.node_id = add_node();
        root.places.resize(rows_.size());
        for (std::size_t i = 0; i < rows_.size(); ++i) root.places[i] = static_cast<std::int32_t>(i);
        root.rows.assign(rows_.begin(), rows_.end());
        root.gradients = std::move(root_gradients);
        std::vector<OpenNode> level;
        if (may_split(static_cast<std::int64_t>(rows_.size()), 0))
            level.push_back(std::move(root));
        else
            close(root.node_id, root.places, root.gradients);
        for (std::int32_t depth = 0; !level.empty(); ++depth) {
            prepare(level);
            search(level);
            level = split(level, depth);
        }
        lay_out_leaves();
        return std::move(grown_);
    }

private:
    bool may_split(std::int64_t n_rows, std::int32_t depth) const {
        return depth < params_.max_depth && n_rows >= 2 * params_.min_leaf_size && n_rows >= 2;
    }

    std::int32_t add_node() {
        Tree& tree = grown_.tree;
        tree.split_features.push_back(-1);
        tree.thresholds.push_back(0.0F);
        tree.left_children.push_back(-1);
        tree.gains.push_back(0.0F);
        leaf_sums_.emplace_back();
        leaf_sizes_.push_back(0);
        return static_cast<std::int32_t>(tree.split_features.size()) - 1;
    }

    void prepare(std::vector<OpenNode>& level) {
        parallel_for(static_cast<std::int64_t>(level.size()), n_threads_, control_, [&](std::int64_t i, int) {
            OpenNode& node = level[i];
            std::vector<double> totals;  // of the labels that the search looks at, so that like is compared with like
            if (params_.exact()) {
                node.by_row = by_row(node.gradients, static_cast<std::int64_t>(node.rows.size()));
                totals = node.gradients.totals;
            } else {
                order_labels(node.gradients, n_searched_labels(params_), node.label_order, node.label_bounds);
                for (const std::int32_t label : node.label_order) totals.push_back(node.gradients.totals[label]);
            }
            node.reduction =
                top_k_squares(totals, params_.leaf_top_k) / (static_cast<double>(node.rows.size()) + params_.l2);
        });
        if (params_.exact()) return;
        // Dense bins: thresholds of a few features at a time. Sparse bins: a row's entries are read once for all.
        const std::size_t block = bins_.is_dense ? 32 : std::max<std::size_t>(features_.size(), 1);
        const std::size_t n_blocks = (features_.size() + block - 1) / block;
        std::vector<Candidates> found(level.size() * n_blocks);
        parallel_for(static_cast<std::int64_t>(found.size()), n_threads_, control_, [&](std::int64_t task, int) {
            const std::size_t first = task % n_blocks * block;
            const auto features = features_.subspan(first, std::min(block, features_.size() - first));
            found[task] = find_candidates(bins_, level[task / n_blocks].rows, features, feature_places_, params_);
        });
        for (std::size_t task = 0; task < found.size(); ++task) level[task / n_blocks].candidates.append(found[task]);
        for (OpenNode& node : level) node.tiles = cut_tiles(node.candidates);
    }

    void search(std::vector<OpenNode>& level) {
        std::vector<Job> jobs;
        for (std::size_t i = 0; i < level.size(); ++i) {
            const std::size_t n_parts = params_.exact() ? features_.size() : level[i].tiles.size();
            for (std::size_t part = 0; part < n_parts; ++part)
                jobs.push_back({static_cast<std::int64_t>(i), static_cast<std::int32_t>(part)});
        }
        std::vector<SplitChoice> choices(jobs.size());
        parallel_for(static_cast<std::int64_t>(jobs.size()), n_threads_, control_, [&](std::int64_t task, int worker) {
            const OpenNode& node = level[jobs[task].node];
            const NodeView view = node.view();
            choices[task] = params_.exact()
                                ? search_exactly(x_, view, node.by_row, features_[jobs[task].part], params_, control_)
                                : search_tile(bins_, view, node.tiles[jobs[task].part], params_, scratch_[worker], control_);
        });
        for (std::size_t task = 0; task < jobs.size(); ++task)
            if (choices[task].feature >= 0 && choices[task].better_than(level[jobs[task].node].choice))
                level[jobs[task].node].choice = choices[task];
    }

    bool goes_left(const OpenNode& node, std::int32_t row) const {
        const SplitChoice& choice = node.choice;
        if (params_.exact()) return x_.values[row * x_.n_cols + choice.feature] <= choice.threshold;
        if (bins_.is_dense) return bins_.dense_row(row)[choice.feature] <= choice.bin;
        const auto first = bins_.feature_ids.begin() + bins_.row_begin[row];
        const auto last = bins_.feature_ids.begin() + bins_.row_begin[row + 1];
        const auto found = std::lower_bound(first, last, choice.feature);
        const bool is_listed = found != last && *found == choice.feature;
        return (is_listed ? bins_.bins[found - bins_.feature_ids.begin()] : bins_.zero_bins[choice.feature]) <= choice.bin;
    }

    // Cut every node that gains by its best threshold; the others become leaves.
    std::vector<OpenNode> split(std::vector<OpenNode>& level, std::int32_t depth) {
        std::vector<OpenNode*> parents;
        for (OpenNode& node : level) {
            if (node.choice.feature >= 0 && node.choice.reduction > node.reduction)
                parents.push_back(&node);
            else
                close(node.node_id, node.places, node.gradients);
        }
        std::vector<OpenNode> children(parents.size() * 2);
        std::vector<std::vector<std::int32_t>> child_rows(parents.size());
        std::vector<GradientSplit> splits(parents.size());
        for (std::size_t i = 0; i < parents.size(); ++i) {
            Tree& tree = grown_.tree;
            const std::int32_t parent_id = parents[i]->node_id;
            children[2 * i].node_id = add_node();
            children[2 * i + 1].node_id = add_node();
            tree.split_features[parent_id] = parents[i]->choice.feature;
            tree.thresholds[parent_id] = parents[i]->choice.threshold;
            tree.left_children[parent_id] = children[2 * i].node_id;
            tree.gains[parent_id] =
                static_cast<float>(parents[i]->choice.reduction - parents[i]->reduction);
        }
        parallel_for(static_cast<std::int64_t>(parents.size()), n_threads_, control_, [&](std::int64_t i, int) {
            const OpenNode& parent = *parents[i];
            OpenNode& left = children[2 * i];
            OpenNode& right = children[2 * i + 1];
            child_rows[i].resize(parent.rows.size());
            for (std::size_t j = 0; j < parent.rows.size(); ++j) {
                const bool is_left = goes_left(parent, parent.rows[j]);
                OpenNode& child = is_left ? left : right;
                const auto place = static_cast<std::int32_t>(child.rows.size());
                child_rows[i][j] = is_left ? place : ~place;
                child.rows.push_back(parent.rows[j]);
                child.places.push_back(parent.places[j]);
            }
            splits[i].parent = &parent.gradients;
            splits[i].child_rows = child_rows[i];
            splits[i].needs_left = may_split(static_cast<std::int64_t>(left.rows.size()), depth + 1);
            splits[i].needs_right = may_split(static_cast<std::int64_t>(right.rows.size()), depth + 1);
        });
        split_gradients(splits, n_threads_, control_);

        std::vector<OpenNode> next;
        for (std::size_t i = 0; i < children.size(); ++i) {
            GradientSplit& from = splits[i / 2];
            children[i].gradients = std::move(i % 2 == 0 ? from.left : from.right);
            if (i % 2 == 0 ? from.needs_left : from.needs_right)
                next.push_back(std::move(children[i]));
            else
                close(children[i].node_id, children[i].places, children[i].gradients);
        }
        return next;
    }

    void close(std::int32_t node_id, std::span<const std::int32_t> places, const NodeGradients& gradients) {
        leaf_sums_[node_id] = keep_top_k(gradients.label_ids, gradients.totals, params_.leaf_top_k);
        leaf_sizes_[node_id] = static_cast<std::int64_t>(places.size());
        for (const std::int32_t place : places) grown_.leaf_of_row[place] = node_id;
    }

    // h = p / (n + λ) (eq. 19), times the shrinkage.
    void lay_out_leaves() {
        Tree& tree = grown_.tree;
        tree.leaf_begin.push_back(0);
        for (std::size_t node = 0; node < leaf_sums_.size(); ++node) {
            const double scale = params_.shrinkage / (static_cast<double>(leaf_sizes_[node]) + params_.l2);
            const LabelSums& leaf = leaf_sums_[node];
            tree.leaf_label_ids.insert(tree.leaf_label_ids.end(), leaf.label_ids.begin(), leaf.label_ids.end());
            for (const double sum : leaf.sums) tree.leaf_values.push_back(static_cast<float>(sum * scale));
            tree.leaf_begin.push_back(static_cast<std::int64_t>(tree.leaf_label_ids.size()));
        }
    }

    const Bins& bins_;
    const DenseView& x_;
    std::span<const std::int32_t> rows_;
    std::span<const std::int32_t> features_;
    const BoostParams& params_;
    int n_threads_;
    Control& control_;
    std::vector<std::int32_t> feature_places_;
    std::vector<SearchScratch> scratch_;
    GrownTree grown_;
    std::vector<LabelSums> leaf_sums_;
    std::vector<std::int64_t> leaf_sizes_;
};

}  // namespace

GrownTree grow_tree(const Bins& bins, const DenseView& x, std::span<const std::int32_t> rows,
                    std::span<const std::int32_t> features, NodeGradients root, const BoostParams& params, int n_threads,
                    Control& control) {
    return TreeGrower(bins, x, rows, features, params, n_threads, control).run(std::move(root));
}

}  // namespace longtail::boost
