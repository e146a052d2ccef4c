#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "label_tree/tree.hpp"

namespace longtail::label_tree {

struct ForestView {
    ShapeView shape;
    std::span<const std::int32_t> roots;
    std::span<const std::int64_t> feature_indptr;
    std::span<const std::int32_t> feature_ids;
    std::span<const std::int32_t> row_begins;
    std::span<const std::int64_t> entry_begins;
    std::span<const std::uint16_t> edges;
    std::span<const float> weights;      // or
    std::span<const std::int8_t> codes;  // times the scale of their edge
    std::span<const float> scales;
    std::span<const float> biases;
    // One per node, set once its weights have been checked; null for arrays that are known to be good.
    std::atomic<std::uint8_t>* is_checked = nullptr;
};

// Throw std::invalid_argument unless the arrays form trees: lengths, borders, children after their parents, one parent
// each. Reads a few values per node and per child, so that a mapped model loads without reading its weights.
void check_trees(const ForestView& forest, std::int64_t n_features, std::int64_t n_labels);

// Throw std::invalid_argument unless the weights of a node can be read safely and are finite.
void check_weights(const ForestView& forest, std::int64_t node);

// The same when a node is read for the first time. A race is harmless: both threads find the same.
inline void check_once(const ForestView& forest, std::int64_t node) {
    if (forest.is_checked == nullptr || forest.is_checked[node].load(std::memory_order_relaxed) != 0) return;
    check_weights(forest, node);
    forest.is_checked[node].store(1, std::memory_order_relaxed);
}

}  // namespace longtail::label_tree
