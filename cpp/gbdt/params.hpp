#pragma once

#include <cstdint>

namespace longtail::gbdt {

enum class Loss : std::int32_t { kSquared = 0, kSquaredHinge = 1 };

// Symbols of the paper (Si et al., ICML 2017): k = leaf_top_k, λ = l2, h_max = max_depth, n_leaf = min_leaf_size,
// S̄ = threshold_step (a share of the node's rows; 1 tests every value).
struct BoostParams {
    Loss loss{};
    std::int32_t leaf_top_k{};    // 0 keeps every label: the vanilla booster
    std::int32_t split_labels{};  // labels the split search looks at in a node; 0 looks at all
    double l2{};
    std::int32_t max_depth{};
    std::int64_t min_leaf_size{};
    double threshold_step{};
    double shrinkage{};
    double row_share{};
    double feature_share{};
    std::uint64_t seed{};

    bool exact() const { return threshold_step >= 1.0; }
};

}  // namespace longtail::gbdt
