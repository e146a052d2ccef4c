#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/views.hpp"
#include "tree/node_columns.hpp"

namespace longtail::tree {

using FeaturesView = std::variant<CsrView, DenseView>;

// Gathers the columns of a node from the rows of X, leaving out features that provably stay at zero.
//
// With a_i = delta_i C(delta_i), the derivative of the logistic loss along feature j lies within [-U_j, V_j], where U_j
// sums the positive and V_j the negative a_i x_ij: if both are at most one, the l1 penalty keeps w_j at zero whatever the
// other weights are. In small nodes that is most features. At w = 0 the derivative is (V_j - U_j) / 2, so that the solver
// gets its first gradient free of charge.
class NodeBuilder {
public:
    NodeBuilder(const FeaturesView& x, float bias);

    // signed_costs: a_i, padded to a multiple of sixteen. any_sides: also keep features that could leave zero under
    // another choice of signs, for further updates of w at the same node.
    void build(std::span<const std::int32_t> rows, std::span<const float> signed_costs, bool any_sides);

    const NodeColumns& columns() const { return columns_; }
    std::span<const float> start_gradients() const { return start_gradients_; }
    // The id columns().feature_ids has for the bias.
    std::int32_t bias_id() const { return n_features_; }

private:
    struct FeatureSum {
        float positive = 0.0F;
        float negative = 0.0F;
        std::int32_t count = 0;
        std::int32_t slot = -1;
    };
    void build_sparse(const CsrView& x, std::span<const std::int32_t> rows, std::span<const float> signed_costs);
    void build_dense(const DenseView& x, std::span<const std::int32_t> rows, std::span<const float> signed_costs);
    void add_bias(std::span<const float> signed_costs);
    bool stays_zero(float positive, float negative) const;

    FeaturesView x_;
    std::int32_t n_features_;
    float bias_;
    float any_sides_factor_ = 0.0F;  // > 0: bound |a_i x_ij| sums by this instead of the two signed sums
    NodeColumns columns_;
    std::vector<float> start_gradients_;
    std::vector<FeatureSum> sums_;
    std::vector<std::int32_t> touched_;
    std::vector<std::int64_t> cursors_;
};

}  // namespace longtail::tree
