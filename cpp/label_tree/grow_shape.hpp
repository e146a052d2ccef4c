#pragma once

#include <cstdint>
#include <span>

#include "base/control.hpp"
#include "base/views.hpp"
#include "label_tree/tree.hpp"

namespace longtail::label_tree {

enum class Clustering {
    balanced,  // spherical 2-means with equal halves, repeated (Parabel, XR-Linear)
    k_means,   // spherical k-means without balance: wide and shallow (Bonsai)
};

// Both clusterings stop after this many iterations, or when one adds less than this to the mean cosine.
constexpr std::int32_t kMaxIterations = 20;
constexpr double kLeastGain = 1e-4;

struct ShapeConfig {
    Clustering clustering{};
    std::int32_t fan_out{};    // most children of an inner node that are not labels
    std::int32_t max_leaf{};   // most labels below one node
    std::int32_t max_depth{};  // k_means: levels of clusters; 0 means no limit
};

// Cluster the given labels by their unit vectors, from the root down. Needs at least one label.
Shape grow_shape(const CsrView& vectors, std::span<const std::int32_t> label_ids, const ShapeConfig& config,
                 std::uint64_t seed, int n_threads, Control& control);

}  // namespace longtail::label_tree
