#include "gbdt/forest.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/aligned.hpp"
#include "base/parallel_for.hpp"
#include "base/top_k.hpp"
#include "gbdt/lanes.hpp"
#include "gbdt/tree.hpp"

namespace longtail::gbdt {
namespace {

constexpr std::int64_t kBlockRows = 64;  // a tree stays in the first-level cache while a block of rows walks it
constexpr int kWalkers = 16;             // rows that walk a tree side by side, so that none waits for another's loads

// The best labels so far, the weakest on top of the heap (appendix B).
class BestLabels {
public:
    void begin_row(std::size_t top_k) {
        top_k_ = top_k;
        heap_.clear();
    }
    bool is_full() const { return heap_.size() == top_k_; }
    float weakest() const { return heap_.front().score; }
    void offer(const ScoredLabel& label) {
        if (!is_full()) {
            heap_.push_back(label);
            std::push_heap(heap_.begin(), heap_.end(), ranks_before);
        } else if (ranks_before(label, heap_.front())) {
            std::pop_heap(heap_.begin(), heap_.end(), ranks_before);
            heap_.back() = label;
            std::push_heap(heap_.begin(), heap_.end(), ranks_before);
        }
    }
    void write(std::span<std::int32_t> label_ids, std::span<float> scores) { select_top_k(heap_, label_ids, scores); }

private:
    std::size_t top_k_ = 0;
    std::vector<ScoredLabel> heap_;
};

// Sparse sums over the labels of one row after another, without clearing n_labels numbers in between.
class SparseSums {
public:
    explicit SparseSums(std::int64_t n_labels) : cells_(n_labels) {}

    void begin_row() {
        touched_.clear();
        if (++row_ == 0) {  // the stamp ran over after 2^32 rows
            std::fill(cells_.begin(), cells_.end(), Cell{});
            row_ = 1;
        }
    }
    void add(std::int32_t label_id, float value) {
        Cell& cell = cells_[label_id];
        if (cell.row == row_) {
            cell.sum += value;
            return;
        }
        cell = {row_, value};
        touched_.push_back(label_id);
    }
    void offer_to(BestLabels& best) const {
        for (const std::int32_t label_id : touched_) best.offer({cells_[label_id].sum, label_id});
    }

private:
    struct Cell {
        std::uint32_t row = 0;
        float sum = 0.0F;
    };
    std::vector<Cell> cells_;
    std::vector<std::int32_t> touched_;
    std::uint32_t row_ = 0;
};

// The same with one number per label, cleared for every row: faster where leaves add more often than there are labels.
// Labels that no leaf lists keep -0, which no sum of leaf values is: x - x is +0.
class DenseSums {
public:
    explicit DenseSums(std::int64_t n_labels) : sums_((n_labels + kLanes - 1) / kLanes * kLanes) {}

    void begin_row() { std::fill(sums_.begin(), sums_.end(), -0.0F); }
    void add(std::int32_t label_id, float value) { sums_[label_id] += value; }
    void offer_to(BestLabels& best) const {
        for (std::size_t first = 0; first < sums_.size(); first += kLanes) {
            const float* sums = sums_.data() + first;
            // Ids ascend, so a later label with the same score never comes in.
            if (best.is_full() && !any_greater(Lanes::load(sums), Lanes::all(best.weakest()))) continue;
            for (int lane = 0; lane < kLanes; ++lane)
                if (sums[lane] != 0.0F || !std::signbit(sums[lane]))
                    best.offer({sums[lane], static_cast<std::int32_t>(first) + lane});
        }
    }

private:
    AlignedVector<float> sums_;
};

// The rows [first, last) as dense vectors: views of a dense X, one scattered scratch row at a time of a sparse one.
template <class Visit>
void for_dense_rows(const DenseView& x, std::int64_t first, std::int64_t last, std::vector<float>&, Visit visit) {
    for (std::int64_t row = first; row < last; ++row) visit(row, x.row(row).data());
}
template <class Visit>
void for_dense_rows(const CsrView& x, std::int64_t first, std::int64_t last, std::vector<float>& scattered,
                    Visit visit) {
    scattered.resize(x.n_cols, 0.0F);
    for (std::int64_t row = first; row < last; ++row) {
        const auto features = x.row_indices(row);
        const auto values = x.row_values(row);
        for (std::size_t i = 0; i < features.size(); ++i) scattered[features[i]] = values[i];
        visit(row, scattered.data());
        for (const std::int32_t feature : features) scattered[feature] = 0.0F;
    }
}

std::int64_t leaf_in_tree(const ForestView& forest, std::int64_t tree, const float* row) {
    const std::int64_t first = forest.tree_begin[tree];
    return first + find_leaf(forest.split_features.subspan(first), forest.thresholds.subspan(first),
                             forest.left_children.subspan(first), row);
}

// The leaves of kWalkers rows, `n_cols` numbers apart, in one tree.
void walk_together(const ForestView& forest, std::int64_t tree, const float* rows, std::int64_t n_cols,
                   std::int64_t n_trees, std::int64_t* leaves) {
    const std::int64_t first = forest.tree_begin[tree];
    const std::int32_t* __restrict split_features = forest.split_features.data() + first;
    const float* __restrict thresholds = forest.thresholds.data() + first;
    const std::int32_t* __restrict left_children = forest.left_children.data() + first;
    std::int32_t nodes[kWalkers] = {};
    for (bool is_walking = true; is_walking;) {
        is_walking = false;
        for (int i = 0; i < kWalkers; ++i) {
            const std::int32_t node = nodes[i];
            const std::int32_t feature = split_features[node];
            const bool is_inner = feature >= 0;
            const float value = rows[i * n_cols + (is_inner ? feature : 0)];
            const std::int32_t child = left_children[node] + (value <= thresholds[node] ? 0 : 1);
            nodes[i] = is_inner ? child : node;
            is_walking |= is_inner;
        }
    }
    for (int i = 0; i < kWalkers; ++i) leaves[i * n_trees] = first + nodes[i];
}

// leaves[(row - first) * n_trees + tree]. Dense rows go tree by tree, scattered ones row by row.
void find_block(const DenseView& x, const ForestView& forest, std::int64_t first, std::int64_t last,
                std::vector<float>&, std::int64_t* leaves) {
    const std::int64_t n_trees = forest.n_trees();
    for (std::int64_t tree = 0; tree < n_trees; ++tree) {
        std::int64_t row = first;
        if (x.n_cols > 0)
            for (; row + kWalkers <= last; row += kWalkers)
                walk_together(forest, tree, x.row(row).data(), x.n_cols, n_trees,
                              leaves + (row - first) * n_trees + tree);
        for (; row < last; ++row)
            leaves[(row - first) * n_trees + tree] = leaf_in_tree(forest, tree, x.row(row).data());
    }
}
void find_block(const CsrView& x, const ForestView& forest, std::int64_t first, std::int64_t last,
                std::vector<float>& scattered, std::int64_t* leaves) {
    for_dense_rows(x, first, last, scattered, [&](std::int64_t row, const float* values) {
        for (std::int64_t tree = 0; tree < forest.n_trees(); ++tree)
            leaves[(row - first) * forest.n_trees() + tree] = leaf_in_tree(forest, tree, values);
    });
}

// Leaves of a forest lie far apart: ask for them a few trees ahead.
constexpr std::int64_t kAhead = 6;
void prefetch_leaf(const ForestView& forest, std::int64_t leaf) {
#if defined(__GNUC__)
    const std::int64_t begin = forest.leaf_begin[leaf];
    const char* ids = reinterpret_cast<const char*>(forest.leaf_label_ids.data() + begin);
    const char* values = reinterpret_cast<const char*>(forest.leaf_values.data() + begin);
    for (int line = 0; line < 2; ++line) {
        __builtin_prefetch(ids + 64 * line);
        __builtin_prefetch(values + 64 * line);
    }
#else
    (void)forest, (void)leaf;
#endif
}

template <class Sums, class View>
TopLabels predict_with(const View& x, const ForestView& forest, std::int64_t top_k, int n_threads, Control& control) {
    TopLabels out;
    out.label_ids.resize(x.n_rows * top_k);
    out.scores.resize(x.n_rows * top_k);
    struct Scratch {
        explicit Scratch(std::int64_t n_labels) : sums(n_labels) {}
        Sums sums;
        std::vector<float> scattered;
        std::vector<std::int64_t> leaves;
        BestLabels best;
    };
    std::vector<std::unique_ptr<Scratch>> scratches(std::max(n_threads, 1));
    parallel_for((x.n_rows + kBlockRows - 1) / kBlockRows, n_threads, control, [&](std::int64_t block, int worker) {
        if (!scratches[worker]) scratches[worker] = std::make_unique<Scratch>(forest.n_labels);
        Scratch& scratch = *scratches[worker];
        const std::int64_t first = block * kBlockRows;
        const std::int64_t last = std::min(first + kBlockRows, x.n_rows);
        scratch.leaves.resize((last - first) * forest.n_trees());
        find_block(x, forest, first, last, scratch.scattered, scratch.leaves.data());
        for (std::int64_t row = first; row < last; ++row) {
            scratch.sums.begin_row();
            const std::int64_t* leaves = scratch.leaves.data() + (row - first) * forest.n_trees();
            for (std::int64_t tree = 0; tree < forest.n_trees(); ++tree) {
                if (tree + kAhead < forest.n_trees()) prefetch_leaf(forest, leaves[tree + kAhead]);
                const std::int64_t leaf = leaves[tree];
                for (std::int64_t i = forest.leaf_begin[leaf]; i < forest.leaf_begin[leaf + 1]; ++i)
                    scratch.sums.add(forest.leaf_label_ids[i], forest.leaf_values[i]);
            }
            scratch.best.begin_row(static_cast<std::size_t>(top_k));
            scratch.sums.offer_to(scratch.best);
            scratch.best.write(std::span(out.label_ids).subspan(row * top_k, top_k),
                               std::span(out.scores).subspan(row * top_k, top_k));
        }
    });
    return out;
}

// What the leaves of one row list together, about.
std::int64_t n_additions(const ForestView& forest) {
    std::int64_t n_leaves = 0;
    for (const std::int32_t feature : forest.split_features) n_leaves += feature < 0 ? 1 : 0;
    const auto n_entries = static_cast<std::int64_t>(forest.leaf_label_ids.size());
    return n_entries / std::max<std::int64_t>(n_leaves, 1) * forest.n_trees();
}

template <class View>
TopLabels predict(const View& x, const ForestView& forest, std::int64_t top_k, int n_threads, Control& control) {
    // Clearing and scanning sixteen labels costs about as much as adding two of them by their stamps.
    if (forest.n_labels <= 8 * n_additions(forest))
        return predict_with<DenseSums>(x, forest, top_k, n_threads, control);
    return predict_with<SparseSums>(x, forest, top_k, n_threads, control);
}

template <class View>
std::vector<std::int64_t> find_all(const View& x, const ForestView& forest, int n_threads, Control& control) {
    std::vector<std::int64_t> leaves(x.n_rows * forest.n_trees());
    std::vector<std::vector<float>> scattered(std::max(n_threads, 1));
    parallel_for((x.n_rows + kBlockRows - 1) / kBlockRows, n_threads, control, [&](std::int64_t block, int worker) {
        const std::int64_t first = block * kBlockRows;
        find_block(x, forest, first, std::min(first + kBlockRows, x.n_rows), scattered[worker],
                   leaves.data() + first * forest.n_trees());
    });
    return leaves;
}

}  // namespace

TopLabels predict_top_k(const DenseView& x, const ForestView& forest, std::int64_t top_k, int n_threads,
                        Control& control) {
    return predict(x, forest, top_k, n_threads, control);
}
TopLabels predict_top_k(const CsrView& x, const ForestView& forest, std::int64_t top_k, int n_threads,
                        Control& control) {
    return predict(x, forest, top_k, n_threads, control);
}
std::vector<std::int64_t> find_leaves(const DenseView& x, const ForestView& forest, int n_threads, Control& control) {
    return find_all(x, forest, n_threads, control);
}
std::vector<std::int64_t> find_leaves(const CsrView& x, const ForestView& forest, int n_threads, Control& control) {
    return find_all(x, forest, n_threads, control);
}

}  // namespace longtail::gbdt
