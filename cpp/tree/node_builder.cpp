#include "tree/node_builder.hpp"

#include <algorithm>
#include <cmath>

namespace longtail::tree {
namespace {

#ifndef DENSE_SHARE
#define DENSE_SHARE 8
#endif
// A column is stored as a plain vector when at least one row in this many has it: sixteen rows an instruction outrun a
// list of (row, value) well before half the rows.
constexpr std::int64_t kDenseShare = DENSE_SHARE;

}  // namespace

NodeBuilder::NodeBuilder(const FeaturesView& x, float bias) : x_(x), bias_(bias) {
    n_features_ = static_cast<std::int32_t>(std::visit([](const auto& view) { return view.n_cols; }, x));
    if (std::holds_alternative<CsrView>(x_)) sums_.resize(static_cast<std::size_t>(n_features_));
}

bool NodeBuilder::stays_zero(float positive, float negative) const {
    if (any_sides_factor_ > 0.0F) return (positive + negative) * any_sides_factor_ <= 1.0F;
    return std::max(positive, negative) <= 1.0F;
}

void NodeBuilder::build(std::span<const std::int32_t> rows, std::span<const float> signed_costs, bool any_sides) {
    any_sides_factor_ = 0.0F;
    if (any_sides) {
        float smallest = std::fabs(signed_costs[0]);
        float largest = smallest;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            smallest = std::min(smallest, std::fabs(signed_costs[i]));
            largest = std::max(largest, std::fabs(signed_costs[i]));
        }
        any_sides_factor_ = largest / smallest;
    }
    columns_.n_rows = static_cast<std::int64_t>(rows.size());
    columns_.stride = NodeColumns::padded(columns_.n_rows);
    columns_.feature_ids.clear();
    start_gradients_.clear();
    if (const auto* csr = std::get_if<CsrView>(&x_))
        build_sparse(*csr, rows, signed_costs);
    else
        build_dense(std::get<DenseView>(x_), rows, signed_costs);
}

void NodeBuilder::build_sparse(const CsrView& x, std::span<const std::int32_t> rows,
                               std::span<const float> signed_costs) {
    const auto n = static_cast<std::int64_t>(rows.size());
    // Pass 1: the signed sums and the count of every feature of the node.
    touched_.resize(static_cast<std::size_t>(n_features_) + 1);
    std::size_t n_touched = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const float a = signed_costs[i];
        const std::int64_t last = x.indptr[rows[i] + 1];
        for (std::int64_t k = x.indptr[rows[i]]; k < last; ++k) {
            FeatureSum& sum = sums_[x.indices[k]];
            touched_[n_touched] = x.indices[k];
            n_touched += sum.count == 0;
            const float ax = a * x.values[k];
            sum.positive += ax > 0.0F ? ax : 0.0F;
            sum.negative -= ax > 0.0F ? 0.0F : ax;
            ++sum.count;
        }
    }
    // Choose the columns: dense ones first, the bias among them.
    columns_.n_dense = 0;
    std::int64_t n_entries = 0;
    for (std::size_t t = 0; t < n_touched; ++t) {
        FeatureSum& sum = sums_[touched_[t]];
        sum.slot = -1;
        if (!stays_zero(sum.positive, sum.negative) && sum.count * kDenseShare >= n) {
            sum.slot = columns_.n_dense++;
            columns_.feature_ids.push_back(touched_[t]);
            start_gradients_.push_back(0.5F * (sum.negative - sum.positive));
        }
    }
    add_bias(signed_costs);
    columns_.begin.assign(1, 0);
    columns_.n_columns = columns_.n_dense;
    for (std::size_t t = 0; t < n_touched; ++t) {
        FeatureSum& sum = sums_[touched_[t]];
        if (!stays_zero(sum.positive, sum.negative) && sum.slot < 0) {
            sum.slot = columns_.n_columns++;
            columns_.feature_ids.push_back(touched_[t]);
            start_gradients_.push_back(0.5F * (sum.negative - sum.positive));
            n_entries += sum.count;
            columns_.begin.push_back(n_entries);
        }
    }
    columns_.rows.resize(static_cast<std::size_t>(n_entries));
    columns_.values.resize(static_cast<std::size_t>(n_entries));
    cursors_.assign(columns_.begin.begin(), columns_.begin.end());
    // Pass 2: fill them. The bias column is filled by add_bias.
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t last = x.indptr[rows[i] + 1];
        for (std::int64_t k = x.indptr[rows[i]]; k < last; ++k) {
            const std::int32_t slot = sums_[x.indices[k]].slot;
            if (slot < 0) continue;
            if (slot < columns_.n_dense) {
                columns_.dense[slot * columns_.stride + i] = x.values[k];
            } else {
                const std::int64_t at = cursors_[slot - columns_.n_dense]++;
                columns_.rows[at] = static_cast<std::int32_t>(i);
                columns_.values[at] = x.values[k];
            }
        }
    }
    for (std::size_t t = 0; t < n_touched; ++t) sums_[touched_[t]] = FeatureSum{};
}

// Append the bias as the last dense column and make room for the dense columns, all zero but the bias.
void NodeBuilder::add_bias(std::span<const float> signed_costs) {
    const bool has_bias = bias_ != 0.0F;
    columns_.n_dense += has_bias ? 1 : 0;
    columns_.dense.assign(static_cast<std::size_t>(columns_.n_dense * columns_.stride), 0.0F);
    if (!has_bias) return;
    float* bias_column = columns_.dense.data() + (columns_.n_dense - 1) * columns_.stride;
    double sum = 0.0;
    for (std::int64_t i = 0; i < columns_.n_rows; ++i) {
        bias_column[i] = bias_;
        sum += signed_costs[i];
    }
    columns_.feature_ids.push_back(n_features_);
    start_gradients_.push_back(static_cast<float>(-0.5 * sum * bias_));
}

void NodeBuilder::build_dense(const DenseView& x, std::span<const std::int32_t> rows,
                              std::span<const float> signed_costs) {
    constexpr std::int64_t kTile = NodeColumns::kLanes;
    const std::int64_t n = columns_.n_rows;
    const std::int64_t stride = columns_.stride;
    columns_.n_dense = n_features_;
    for (std::int32_t j = 0; j < n_features_; ++j) {
        columns_.feature_ids.push_back(j);
        start_gradients_.push_back(0.0F);
    }
    add_bias(signed_costs);
    columns_.n_columns = columns_.n_dense;
    columns_.begin.assign(1, 0);
    // Sixteen rows at a time, so that each write fills a cache line.
    for (std::int64_t first = 0; first < n; first += kTile) {
        const float* sources[kTile];
        const std::int64_t n_tile = std::min(kTile, n - first);
        for (std::int64_t k = 0; k < kTile; ++k)
            sources[k] = x.values.data() + rows[std::min(first + k, n - 1)] * x.n_cols;
        for (std::int32_t j = 0; j < n_features_; ++j) {
            float* out = columns_.dense.data() + j * stride + first;
            for (std::int64_t k = 0; k < n_tile; ++k) out[k] = sources[k][j];
        }
    }
    for (std::int32_t j = 0; j < n_features_; ++j) start_gradients_[j] = -0.5F * columns_.dot(j, signed_costs.data());
}

}  // namespace longtail::tree
