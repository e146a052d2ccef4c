#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/control.hpp"

namespace longtail::gbdt {

// Memory for the gradients of one level of a tree. It is not set to zero, and it stays for the next tree: touching new
// pages costs more than the work on them.
class GradientStore {
public:
    // What was stored is lost when this grows.
    void reserve(std::int64_t n_entries);
    std::int32_t* rows() { return rows_.get(); }
    float* values() { return values_.get(); }

private:
    std::int64_t capacity_ = 0;
    std::unique_ptr<std::int32_t[]> rows_;
    std::unique_ptr<float[]> values_;
};

// One label of a node: its entries begin at `begin` in the store of the node's level.
struct LabelGradients {
    std::int32_t label_id = 0;
    std::int32_t n_entries = 0;
    std::int64_t begin = 0;
    double total = 0.0;      // p_q: sum of the label's values
    double magnitude = 0.0;  // sum of their absolute values

    std::int64_t end() const { return begin + n_entries; }
};

// The negative half-gradients r of a node's rows, label by label, with rows numbered inside the node (ascending).
// Only labels with a non-zero entry in the node are listed, so work at a node costs its own entries.
struct NodeGradients {
    std::vector<LabelGradients> labels;  // label ids ascending
    std::int64_t n_entries = 0;
    const std::int32_t* rows = nullptr;
    const float* values = nullptr;

    std::int64_t n_labels() const { return static_cast<std::int64_t>(labels.size()); }
};

// What a leaf keeps: labels ascending, sums p_q beside them.
struct LabelSums {
    std::vector<std::int32_t> label_ids;
    std::vector<double> sums;
};

// The leaf_top_k labels with the largest |p_q| (eq. 18-19), ties to the lower id; every non-zero sum when it is 0.
LabelSums keep_top_k(std::span<const LabelGradients> labels, std::int32_t leaf_top_k);

// Σ p_q² over the kept labels: the reduction of eq. 20 before its division.
double top_k_squares(std::span<const double> totals, std::int32_t leaf_top_k);

// One node that is cut in two. `child_rows[row]` is the row's number in the left child, or ~number in the right one.
struct GradientSplit {
    const NodeGradients* parent = nullptr;
    std::span<const std::int32_t> child_rows;
    bool needs_left = true;  // false: the child is a leaf, its totals suffice
    bool needs_right = true;
    NodeGradients left, right;
};

// Fill left and right of every split, with entries in `store`, which must not be the parents'. Parallel over label
// ranges of all nodes together, so that a lone root uses every thread too.
void split_gradients(std::span<GradientSplit> splits, GradientStore& store, int n_threads, Control& control);

}  // namespace longtail::gbdt
