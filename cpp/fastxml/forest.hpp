#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/top_k.hpp"
#include "decisions/value_table.hpp"
#include "fastxml/node_builder.hpp"
#include "fastxml/tail.hpp"

namespace longtail::fastxml {

// Trees one after the other in the same flat arrays (see Tree); node ids count through all trees.
struct ForestView {
    std::span<const std::int32_t> tree_roots;
    std::span<const std::int32_t> right_child;  // zero marks a leaf; the left child is the next node
    std::span<const float> biases;
    std::span<const std::int64_t> split_indptr;
    std::span<const std::int32_t> split_features;
    std::span<const float> split_weights;
    std::span<const std::int64_t> leaf_indptr;
    std::span<const std::int32_t> leaf_labels;
    std::span<const float> leaf_values;
};

// Throw std::invalid_argument unless every walk through the forest stays inside it and ends.
void check_forest(const ForestView& forest, std::int64_t n_features, std::int64_t n_labels);

struct PredictConfig {
    std::int64_t n_labels{};
    std::int32_t top_k{};
    // One more than the largest feature of splits and centres: a row is scattered over these, not over all features
    // that a file claims to have.
    std::int32_t n_features_used{};
    int n_threads{};
};

// Rank labels by their mean share over the leaves that a row reaches in the trees named by `tree_ids` (algorithm 3).
// With `tail` (may be null) the best labels are re-ranked by trees and centres together (PfastreXML, eq. 8).
TopLabels predict_forest(const FeaturesView& x, const ForestView& forest, std::span<const std::int32_t> tree_ids,
                         const TailView* tail, const PredictConfig& config, Control& control);

// Rank the same labels by what they are worth at their scores.
ValuedLabels predict_forest_by_value(const FeaturesView& x, const ForestView& forest,
                                     std::span<const std::int32_t> tree_ids, const ValueTable& values,
                                     const PredictConfig& config, Control& control);

}  // namespace longtail::fastxml
