#include "fastxml/grow_tree.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/random.hpp"
#include "base/top_k.hpp"
#include "fastxml/column_pool.hpp"

namespace longtail::fastxml {
namespace {

constexpr std::size_t kPrecisionAt = 5;

// Nodes with fewer rows take their columns from the rows: most columns would have an entry or two.
constexpr std::int64_t kSmallestPooled = 128;

// Balanced costs pass this only where a side has less than a quarter of the rows.
constexpr float kUsualBalance = 4.0F;

struct PendingNode {
    std::int32_t parent;  // of a right child, to be told the id; -1 for a left child or the root
    std::int32_t depth;
    std::int64_t first_row;
    std::int64_t last_row;
    ColumnPool::Node columns;
};

class Grower {
public:
    Grower(const FeaturesView& x, const CsrView& columns, const LabelsView& y, std::span<const float> label_weights,
           std::span<const float> row_weights, const TreeConfig& config, Control& control)
        : y_(y),
          label_weights_(label_weights),
          row_weights_(row_weights),
          config_(config),
          control_(control),
          coins_(config.seed, 2 * config.stream),
          solver_random_(config.seed, 2 * config.stream + 1),
          ranked_(y.n_labels, config.ranking),
          builder_(x, config.bias),
          label_counts_(static_cast<std::size_t>(y.n_labels), 0) {
        float usual = config.balanced_costs ? kUsualBalance : 1.0F;
        if (!row_weights.empty()) {
            usual *= *std::max_element(row_weights.begin(), row_weights.end());
            mean_weight_ =
                std::accumulate(row_weights.begin(), row_weights.end(), 0.0) / static_cast<double>(row_weights.size());
            for (const float weight : row_weights)
                relative_weights_.push_back(static_cast<float>(weight / mean_weight_));
            label_sums_.assign(label_counts_.size(), 0.0);
        }
        const auto* csr = std::get_if<CsrView>(&x);
        if (csr == nullptr || csr->n_rows < kSmallestPooled) return;
        if (columns.indptr.empty()) own_columns_ = transpose(*csr);
        pool_.emplace(columns.indptr.empty() ? own_columns_.view() : columns,
                      usual * std::max(config.right_cost, config.left_cost));
    }

    Tree grow();

private:
    bool split(std::span<std::int32_t> rows, const ColumnPool::Node& columns, bool is_root);
    void set_signed_costs(std::span<const std::int32_t> rows, double right_cost, double left_cost);
    double weight(std::int32_t row) const { return row_weights_.empty() ? 1.0 : row_weights_[row]; }
    void write_split();
    void write_leaf(std::span<const std::int32_t> rows);
    std::int64_t partition(std::span<std::int32_t> rows);

    LabelsView y_;
    std::span<const float> label_weights_;
    std::span<const float> row_weights_;
    std::vector<float> relative_weights_;  // of rows, to their mean: sums of fixed-point numbers need a known scale
    double mean_weight_ = 1.0;
    TreeConfig config_;
    Control& control_;
    Random coins_;          // the random start of every split
    Random solver_random_;  // the order of coordinates
    RankedSides ranked_;
    NodeBuilder builder_;
    FeatureColumns own_columns_;  // when the caller has none
    std::optional<ColumnPool> pool_;
    L1Logistic solver_;
    Tree tree_;

    std::vector<std::uint8_t> sides_;
    AlignedVector<float> signed_costs_;
    std::vector<std::int32_t> moved_rows_;
    std::vector<std::int32_t> places_;  // of rows in the children: number in the left one, ~number in the right one
    std::vector<std::int32_t> order_;
    std::vector<std::int64_t> label_counts_;
    std::vector<double> label_sums_;  // of row weights, if there are any
    std::vector<std::int32_t> seen_labels_;
    std::vector<ScoredLabel> leaf_scores_;
    double hits_ = 0.0;
    double depth_sum_ = 0.0;
    std::int64_t n_leaves_ = 0;
    std::int64_t n_leaf_labels_ = 0;
};

Tree Grower::grow() {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(y_.n_rows));
    std::iota(rows.begin(), rows.end(), 0);
    // Depth first: the rows of a subtree stay in the cache while it grows.
    std::vector<PendingNode> pending{{-1, 0, 0, y_.n_rows, pool_ ? pool_->root() : ColumnPool::Node{}}};
    while (!pending.empty()) {
        control_.throw_if_stopped();
        const PendingNode node = pending.back();
        pending.pop_back();
        const auto id = static_cast<std::int32_t>(tree_.right_child.size());
        tree_.right_child.push_back(0);
        if (node.parent >= 0) tree_.right_child[node.parent] = id;
        const std::span<std::int32_t> node_rows(rows.data() + node.first_row,
                                                static_cast<std::size_t>(node.last_row - node.first_row));
        std::int64_t n_left = 0;
        const bool is_split = static_cast<std::int64_t>(node_rows.size()) > config_.max_leaf_size &&
                              split(node_rows, node.columns, id == 0) && (n_left = partition(node_rows)) > 0;
        if (is_split) {
            const std::int64_t middle = node.first_row + n_left;
            ColumnPool::Node left;
            ColumnPool::Node right;
            if (!node.columns.is_empty())
                pool_->split(node.columns, places_, n_left >= kSmallestPooled,
                             node.last_row - middle >= kSmallestPooled, left, right);
            pending.push_back({id, node.depth + 1, middle, node.last_row, right});
            pending.push_back({-1, node.depth + 1, node.first_row, middle, left});
            write_split();
        } else {
            if (!node.columns.is_empty()) pool_->drop(node.columns);
            write_leaf(node_rows);
            depth_sum_ += static_cast<double>(node.depth) * static_cast<double>(node_rows.size());
        }
        tree_.split_indptr.push_back(static_cast<std::int64_t>(tree_.split_features.size()));
        tree_.leaf_indptr.push_back(static_cast<std::int64_t>(tree_.leaf_labels.size()));
    }
    const double n_rows = std::max<double>(1.0, static_cast<double>(y_.n_rows));
    tree_.mean_depth = depth_sum_ / n_rows;
    tree_.mean_leaf_labels =
        static_cast<double>(n_leaf_labels_) / static_cast<double>(std::max<std::int64_t>(1, n_leaves_));
    tree_.train_precision = hits_ / (n_rows * kPrecisionAt);
    return std::move(tree_);
}

void Grower::set_signed_costs(std::span<const std::int32_t> rows, double right_cost, double left_cost) {
    signed_costs_.assign(static_cast<std::size_t>(NodeColumns::padded(static_cast<std::int64_t>(sides_.size()))), 0.0F);
    for (std::size_t i = 0; i < sides_.size(); ++i)
        signed_costs_[i] = static_cast<float>(weight(rows[i]) * (sides_[i] != 0 ? right_cost : -left_cost));
}

// SPLIT-NODE of algorithm 2: leaves w and w.x_i in solver_. False when the node
// is to be a leaf: its rows have the same labels, or all belong on one side, or nothing tells the sides apart.
bool Grower::split(std::span<std::int32_t> rows, const ColumnPool::Node& columns, bool is_root) {
    sides_.resize(rows.size());
    for (auto& side : sides_) side = coins_.coin() ? 1 : 0;
    ranked_.load(rows, y_, label_weights_, relative_weights_);
    if (ranked_.is_pure()) return false;
    if (config_.random_ties) ranked_.shuffle_labels(coins_);
    // While w is zero, the separator has no say: unequal costs alone would send every row to the cheaper side.
    std::int32_t n_rounds = ranked_.alternate(sides_, {});
    double n = 0.0;
    double n_right = 0.0;
    double heaviest = 0.0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        n += weight(rows[i]);
        n_right += sides_[i] != 0 ? weight(rows[i]) : 0.0;
        heaviest = std::max(heaviest, weight(rows[i]));
    }
    if (n_right == 0.0 || n_right == n) return false;
    // The costs stay as they are for later updates of w, so that the objective of eq. 5 keeps its meaning.
    const double right_cost = config_.right_cost * (config_.balanced_costs ? n / n_right : 1.0);
    const double left_cost = config_.left_cost * (config_.balanced_costs ? n / (n - n_right) : 1.0);
    const bool is_pooled = !columns.is_empty() && heaviest * std::max(right_cost, left_cost) <= pool_->largest_cost();
    const ColumnsView pooled = is_pooled ? pool_->view(columns) : ColumnsView{};

    for (std::int32_t update = 0; update < config_.n_updates; ++update) {
        set_signed_costs(rows, right_cost, left_cost);
        if (update == 0 && !builder_.build(rows, signed_costs_, config_.n_updates > 1, pooled)) return false;
        solver_.solve(builder_.columns(), signed_costs_,
                      update == 0 ? builder_.starts() : std::span<const ColumnStart>{}, config_.solver, solver_random_);
        if (is_root) {
            tree_.root_objectives.push_back(solver_.objective(signed_costs_) - mean_weight_ * ranked_.gain(sides_));
            tree_.root_rounds.push_back(n_rounds);
        }
        if (update + 1 < config_.n_updates) {
            const std::vector<std::uint8_t> before = sides_;
            n_rounds += ranked_.alternate(
                sides_, {static_cast<float>(right_cost), static_cast<float>(left_cost), solver_.scores});
            if (before == sides_) break;
        }
    }
    return true;
}

// Rows with w.x >= 0 move behind the others, both in their old order. Returns the number on the left; 0 when a side is
// empty.
std::int64_t Grower::partition(std::span<std::int32_t> rows) {
    moved_rows_.clear();
    places_.resize(rows.size());
    std::size_t n_left = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (solver_.scores[i] >= 0.0F) {
            places_[i] = ~static_cast<std::int32_t>(moved_rows_.size());
            moved_rows_.push_back(rows[i]);
        } else {
            places_[i] = static_cast<std::int32_t>(n_left);
            rows[n_left++] = rows[i];
        }
    }
    std::copy(moved_rows_.begin(), moved_rows_.end(), rows.begin() + static_cast<std::ptrdiff_t>(n_left));
    return moved_rows_.empty() ? 0 : static_cast<std::int64_t>(n_left);
}

void Grower::write_split() {
    const NodeColumns& columns = builder_.columns();
    order_.clear();
    float bias = 0.0F;
    for (std::int32_t j = 0; j < columns.n_columns; ++j) {
        if (solver_.weights[j] == 0.0F) continue;
        if (columns.feature_ids[j] == builder_.bias_id())
            bias = solver_.weights[j] * config_.bias;
        else
            order_.push_back(j);
    }
    std::sort(order_.begin(), order_.end(),
              [&](std::int32_t a, std::int32_t b) { return columns.feature_ids[a] < columns.feature_ids[b]; });
    for (const std::int32_t j : order_) {
        tree_.split_features.push_back(columns.feature_ids[j]);
        tree_.split_weights.push_back(solver_.weights[j]);
    }
    tree_.biases.push_back(bias);
}

// PROCESS-LEAF of algorithm 1: the labels' shares of the leaf's rows, the largest ones only.
void Grower::write_leaf(std::span<const std::int32_t> rows) {
    tree_.biases.push_back(0.0F);
    seen_labels_.clear();
    double total = 0.0;
    for (const std::int32_t row : rows) {
        total += weight(row);
        for (const std::int32_t label_id : y_.row_labels(row)) {
            if (label_counts_[label_id]++ == 0) seen_labels_.push_back(label_id);
            if (!label_sums_.empty()) label_sums_[label_id] += weight(row);
        }
    }
    leaf_scores_.clear();
    for (const std::int32_t label_id : seen_labels_) {
        const float factor = label_weights_.empty() ? 1.0F : label_weights_[label_id];
        const float share = label_sums_.empty() ? static_cast<float>(label_counts_[label_id])
                                                : static_cast<float>(label_sums_[label_id]);
        leaf_scores_.push_back({factor * share / static_cast<float>(total), label_id});
    }
    ++n_leaves_;
    n_leaf_labels_ += static_cast<std::int64_t>(seen_labels_.size());
    const std::size_t kept = std::min(leaf_scores_.size(), static_cast<std::size_t>(config_.leaf_labels));
    std::partial_sort(leaf_scores_.begin(), leaf_scores_.begin() + static_cast<std::ptrdiff_t>(kept),
                      leaf_scores_.end(), ranks_before);
    leaf_scores_.resize(kept);
    for (std::size_t r = 0; r < std::min(kept, kPrecisionAt); ++r)
        hits_ += static_cast<double>(label_counts_[leaf_scores_[r].label_id]);
    std::sort(leaf_scores_.begin(), leaf_scores_.end(),
              [](const ScoredLabel& a, const ScoredLabel& b) { return a.label_id < b.label_id; });
    for (const ScoredLabel& scored : leaf_scores_) {
        tree_.leaf_labels.push_back(scored.label_id);
        tree_.leaf_values.push_back(scored.score);
    }
    for (const std::int32_t label_id : seen_labels_) {
        label_counts_[label_id] = 0;
        if (!label_sums_.empty()) label_sums_[label_id] = 0.0;
    }
}

}  // namespace

Tree grow_tree(const FeaturesView& x, const LabelsView& y, std::span<const float> label_weights,
               std::span<const float> row_weights, const TreeConfig& config, Control& control, const CsrView& columns) {
    return Grower(x, columns, y, label_weights, row_weights, config, control).grow();
}

}  // namespace longtail::fastxml
