#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longtail::gbdt {

// One tree in flat arrays. An inner node i sends x[split_features[i]] <= thresholds[i] to left_children[i] and the rest
// to left_children[i] + 1; both are larger than i. A leaf has split_features[i] = -1 and owns the entries
// leaf_begin[i] .. leaf_begin[i + 1] of leaf_label_ids (ascending) and leaf_values; inner nodes own none.
struct Tree {
    std::vector<std::int32_t> split_features;
    std::vector<float> thresholds;
    std::vector<std::int32_t> left_children;
    std::vector<float> gains;  // what the split took off the objective, 0 for leaves
    std::vector<std::int64_t> leaf_begin;
    std::vector<std::int32_t> leaf_label_ids;
    std::vector<float> leaf_values;
};

// The same as views, for trees that Python owns.
struct TreeView {
    std::span<const std::int32_t> split_features;
    std::span<const float> thresholds;
    std::span<const std::int32_t> left_children;
    std::span<const std::int64_t> leaf_begin;
    std::span<const std::int32_t> leaf_label_ids;
    std::span<const float> leaf_values;
};

// The leaf of a dense row.
inline std::int32_t find_leaf(std::span<const std::int32_t> split_features, std::span<const float> thresholds,
                              std::span<const std::int32_t> left_children, const float* row) {
    std::int32_t node = 0;
    while (split_features[node] >= 0)
        node = left_children[node] + (row[split_features[node]] <= thresholds[node] ? 0 : 1);
    return node;
}

}  // namespace longtail::gbdt
