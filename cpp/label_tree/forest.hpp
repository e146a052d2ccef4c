#pragma once

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
};

// Throw std::invalid_argument unless prediction can walk the arrays safely: lengths, borders, index ranges, children
// after their parents, one parent each.
void check_forest(const ForestView& forest, std::int64_t n_features, std::int64_t n_labels);

}  // namespace longtail::label_tree
