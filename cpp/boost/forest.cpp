#include "boost/forest.hpp"

#include <algorithm>
#include <memory>

#include "base/parallel_for.hpp"
#include "base/top_k.hpp"
#include "boost/tree.hpp"

namespace longtail::boost {
namespace {

constexpr std::int64_t kBlockRows = 64;  // a tree stays in the first-level cache while a block of rows walks it

// Sparse sums over the labels of one row after another, without clearing n_labels numbers in between.
class LabelSummer {
public:
    explicit LabelSummer(std::int64_t n_labels) : cells_(n_labels) {}

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
    std::span<const std::int32_t> touched() const { return touched_; }
    float sum(std::int32_t label_id) const { return cells_[label_id].sum; }

private:
    struct Cell {
        std::uint32_t row = 0;
        float sum = 0.0F;
    };
    std::vector<Cell> cells_;
    std::vector<std::int32_t> touched_;
    std::uint32_t row_ = 0;
};

void select_best(const LabelSummer& sums, std::span<std::int32_t> label_ids, std::span<float> scores,
                 std::vector<ScoredLabel>& heap) {
    const std::size_t top_k = label_ids.size();
    heap.clear();
    for (const std::int32_t label_id : sums.touched()) {
        const ScoredLabel label{sums.sum(label_id), label_id};
        if (heap.size() < top_k) {
            heap.push_back(label);
            std::push_heap(heap.begin(), heap.end(), ranks_before);
        } else if (ranks_before(label, heap.front())) {
            std::pop_heap(heap.begin(), heap.end(), ranks_before);
            heap.back() = label;
            std::push_heap(heap.begin(), heap.end(), ranks_before);
        }
    }
    select_top_k(heap, label_ids, scores);
}

// The rows [first, last) as dense vectors: views of a dense X, one scattered scratch row at a time of a sparse one.
template <class Visit>
void for_dense_rows(const DenseView& x, std::int64_t first, std::int64_t last, std::vector<float>&, Visit visit) {
    for (std::int64_t row = first; row < last; ++row) visit(row, x.row(row).data());
}
template <class Visit>
void for_dense_rows(const CsrView& x, std::int64_t first, std::int64_t last, std::vector<float>& scattered, Visit visit) {
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

// leaves[(row - first) * n_trees + tree]. Dense rows go tree by tree, scattered ones row by row.
void find_block(const DenseView& x, const ForestView& forest, std::int64_t first, std::int64_t last, std::vector<float>&,
                std::int64_t* leaves) {
    for (std::int64_t tree = 0; tree < forest.n_trees(); ++tree)
        for (std::int64_t row = first; row < last; ++row)
            leaves[(row - first) * forest.n_trees() + tree] = leaf_in_tree(forest, tree, x.row(row).data());
}
void find_block(const CsrView& x, const ForestView& forest, std::int64_t first, std::int64_t last,
                std::vector<float>& scattered, std::int64_t* leaves) {
    for_dense_rows(x, first, last, scattered, [&](std::int64_t row, const float* values) {
        for (std::int64_t tree = 0; tree < forest.n_trees(); ++tree)
            leaves[(row - first) * forest.n_trees() + tree] = leaf_in_tree(forest, tree, values);
    });
}

template <class View>
TopLabels predict(const View& x, const ForestView& forest, std::int64_t top_k, int n_threads, Control& control) {
    TopLabels out;
    out.label_ids.resize(x.n_rows * top_k);
    out.scores.resize(x.n_rows * top_k);
    struct Scratch {
        explicit Scratch(std::int64_t n_labels) : sums(n_labels) {}
        LabelSummer sums;
        std::vector<float> scattered;
        std::vector<std::int64_t> leaves;
        std::vector<ScoredLabel> heap;
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
            for (std::int64_t tree = 0; tree < forest.n_trees(); ++tree) {
                const std::int64_t leaf = scratch.leaves[(row - first) * forest.n_trees() + tree];
                for (std::int64_t i = forest.leaf_begin[leaf]; i < forest.leaf_begin[leaf + 1]; ++i)
                    scratch.sums.add(forest.leaf_label_ids[i], forest.leaf_values[i]);
            }
            select_best(scratch.sums, std::span(out.label_ids).subspan(row * top_k, top_k),
                        std::span(out.scores).subspan(row * top_k, top_k), scratch.heap);
        }
    });
    return out;
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

TopLabels predict_top_k(const DenseView& x, const ForestView& forest, std::int64_t top_k, int n_threads, Control& control) {
    return predict(x, forest, top_k, n_threads, control);
}
TopLabels predict_top_k(const CsrView& x, const ForestView& forest, std::int64_t top_k, int n_threads, Control& control) {
    return predict(x, forest, top_k, n_threads, control);
}
std::vector<std::int64_t> find_leaves(const DenseView& x, const ForestView& forest, int n_threads, Control& control) {
    return find_all(x, forest, n_threads, control);
}
std::vector<std::int64_t> find_leaves(const CsrView& x, const ForestView& forest, int n_threads, Control& control) {
    return find_all(x, forest, n_threads, control);
}

}  // namespace longtail::boost
