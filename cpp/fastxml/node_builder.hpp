#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/views.hpp"
#include "fastxml/l1_logistic.hpp"
#include "fastxml/node_columns.hpp"

namespace longtail::fastxml {

using FeaturesView = std::variant<CsrView, DenseView>;

// Gathers the columns of a node: only those of features that may get a weight.
//
// With a_i = delta_i C(delta_i), the derivative of the logistic loss along feature j lies within [-U_j, V_j], where U_j
// sums the positive and V_j the negative a_i x_ij: if both are at most one, the l1 penalty keeps w_j at zero whatever the
// other weights are. In small nodes that is most features. At w = 0 the derivative is (V_j - U_j) / 2, so the first
// gradient of the solver is a by-product.
class NodeBuilder {
public:
    NodeBuilder(const FeaturesView& x, float bias);

    // signed_costs: a_i, padded to a multiple of sixteen. any_sides: also keep features that could leave zero under
    // another choice of signs, for further updates of w at the same node. False when no feature can leave zero: then
    // w = 0 is the solution, and columns() must not be used.
    // pooled: the node's columns if they are in a ColumnPool, which saves the way over the rows; all features that may
    // leave zero must be among them.
    bool build(std::span<const std::int32_t> rows, std::span<const float> signed_costs, bool any_sides,
               const ColumnsView& pooled = {});

    const NodeColumns& columns() const { return columns_; }
    std::span<const ColumnStart> starts() const { return starts_; }
    // The id columns().feature_ids has for the bias.
    std::int32_t bias_id() const { return n_features_; }

private:
    // Sums over the node's rows of a_i x_ij and of |a_i x_ij|, by feature j.
    struct FeatureSum {
        float plain = 0.0F;
        float absolute = 0.0F;
    };
    void set_costs(std::span<const float> signed_costs, std::size_t n_rows, bool any_sides);
    void build_from_rows(const CsrView& x, std::span<const std::int32_t> rows, std::span<const float> signed_costs);
    void add_up(const CsrView& x, std::span<const std::int32_t> rows, std::span<const float> signed_costs);
    void choose_features();
    void collect_entries(const CsrView& x, std::span<const std::int32_t> rows);
    void fill_columns();
    void build_from_pool(const ColumnsView& pooled, std::span<const float> signed_costs);
    void lay_out();
    void set_bits(std::int32_t column, const std::int32_t* rows, std::int32_t count);
    static FeatureSum sum_column(const std::int32_t* rows, const float* values, std::int32_t count, const float* a);
    void build_dense(const DenseView& x, std::span<const std::int32_t> rows, std::span<const float> signed_costs);
    void append_bias();
    void make_plain_room();
    bool stays_zero(const FeatureSum& sum) const;
    void choose(const FeatureSum& sum, std::int32_t feature);

    // A feature that gets a column.
    struct Chosen {
        std::int32_t feature;
        std::int32_t count;  // entries
        ColumnStart start;
    };

    FeaturesView x_;
    std::int32_t n_features_;
    float bias_;
    float any_sides_factor_ = 0.0F;  // > 0: bound |a_i x_ij| sums by this instead of the two signed sums
    ColumnStart bias_start_;
    float steepest_ = 0.0F;  // the largest |derivative| at w = 0
    NodeColumns columns_;
    std::vector<ColumnStart> starts_;
    std::vector<Chosen> chosen_;
    std::vector<std::int32_t> columns_of_;  // by chosen feature

    std::vector<std::int64_t> begins_;  // in the pool, by chosen feature
    std::vector<std::uint8_t> flags_;   // by row, zero between columns

    // The way over the rows.
    std::vector<FeatureSum> sums_;       // by feature, zero between nodes
    std::vector<std::int32_t> touched_;  // features of the node, the first n_touched_
    std::size_t n_touched_ = 0;
    std::vector<std::int32_t> slots_;        // by feature: its place among the chosen ones, -1 for others
    std::vector<std::int64_t> entry_begin_;  // entries of chosen features, row by row
    std::vector<std::int32_t> entry_slots_;
    std::vector<float> entry_values_;
    std::vector<std::int64_t> next_;      // by slot: where its next entry goes
    std::vector<std::int32_t> own_rows_;  // of columns_
    std::vector<float> own_values_;
};

}  // namespace longtail::fastxml
