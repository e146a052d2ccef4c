#pragma once

#include <cstdint>

namespace longtail::gbdt {

enum class Loss : std::int32_t { kSquared = 0, kSquaredHinge = 1 };

// Symbols of the paper (Si et al., ICML 2017): k = leaf_top_k, λ = l2, h_max = max_depth, n_leaf = min_leaf_size,
// S̄ = threshold_step (a share of the node's rows; 1 tests every value).
struct BoostParams {
    Loss loss = Loss::kSquaredHinge;
    std::int32_t leaf_top_k = 20;   // 0 keeps every label: the vanilla booster
    std::int32_t split_labels = 0;  // labels the split search looks at in a node; 0 looks at all
    double l2 = 5.0;
    std::int32_t max_depth = 10;
    std::int64_t min_leaf_size = 100;
    double threshold_step = 0.05;
    double shrinkage = 1.0;
    double row_share = 1.0;
    double feature_share = 1.0;
    std::uint64_t seed = 0;

    bool exact() const { return threshold_step >= 1.0; }
};

}  // namespace longtail::gbdt
