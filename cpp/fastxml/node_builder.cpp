#include "fastxml/node_builder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace longtail::fastxml {
namespace {

// A column is stored as a plain vector when at least one row in this many has it: sixteen rows an instruction outrun a
// list of (row, value) well before half the rows.
constexpr std::int64_t kDenseShare = 8;

// Move the entries of a row whose feature has a slot to out_slots and out_values; both have room for the whole row and
// sixteen more. Returns how many.
std::int64_t pick_entries(const std::int32_t* features, const float* values, std::int64_t n, const std::int32_t* slots,
                          std::int32_t* out_slots, float* out_values) {
    std::int64_t n_out = 0;
    std::int64_t k = 0;
#if defined(__AVX512F__)
    for (; k + 16 <= n; k += 16) {
        const __m512i slot = _mm512_mask_i32gather_epi32(
            _mm512_setzero_si512(), 0xFFFF, _mm512_loadu_si512(features + k), slots, 4);
        const __mmask16 has_slot = _mm512_cmpge_epi32_mask(slot, _mm512_setzero_si512());
        // Compress in registers and store whole vectors: compressing stores are slow on some processors.
        _mm512_storeu_si512(out_slots + n_out, _mm512_maskz_compress_epi32(has_slot, slot));
        _mm512_storeu_ps(out_values + n_out, _mm512_maskz_compress_ps(has_slot, _mm512_loadu_ps(values + k)));
        n_out += std::popcount(static_cast<std::uint32_t>(has_slot));
    }
#endif
    for (; k < n; ++k) {
        const std::int32_t slot = slots[features[k]];
        out_slots[n_out] = slot;
        out_values[n_out] = values[k];
        n_out += slot >= 0 ? 1 : 0;
    }
    return n_out;
}

}  // namespace

NodeBuilder::NodeBuilder(const FeaturesView& x, float bias) : x_(x), bias_(bias) {
    n_features_ = static_cast<std::int32_t>(std::visit([](const auto& view) { return view.n_cols; }, x));
    if (std::holds_alternative<CsrView>(x_)) {
        sums_.resize(static_cast<std::size_t>(n_features_));
        slots_.assign(static_cast<std::size_t>(n_features_), -1);
        touched_.resize(static_cast<std::size_t>(n_features_) + 1);
    }
}

NodeBuilder::FeatureSum NodeBuilder::sum_column(const NodeColumns::Entry* entries, std::int32_t count, const float* a) {
    FeatureSum even;
    FeatureSum odd;
    std::int32_t k = 0;
    for (; k + 2 <= count; k += 2) {
        const float first = a[entries[k].row] * entries[k].value;
        const float second = a[entries[k + 1].row] * entries[k + 1].value;
        even.plain += first;
        even.absolute += std::fabs(first);
        odd.plain += second;
        odd.absolute += std::fabs(second);
    }
    if (k < count) {
        const float last = a[entries[k].row] * entries[k].value;
        even.plain += last;
        even.absolute += std::fabs(last);
    }
    return {even.plain + odd.plain, even.absolute + odd.absolute};
}

bool NodeBuilder::stays_zero(const FeatureSum& sum) const {
    if (any_sides_factor_ > 0.0F) return sum.absolute * any_sides_factor_ <= 1.0F;
    return sum.absolute + std::fabs(sum.plain) <= 2.0F;  // twice the larger one of U_j and V_j
}

bool NodeBuilder::build(std::span<const std::int32_t> rows, std::span<const float> signed_costs, bool any_sides,
                        const ColumnsView& pooled) {
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
    columns_.begin.clear();
    columns_.end.clear();
    start_gradients_.clear();
    set_bias_gradient(signed_costs);
    if (!pooled.ranges.empty())
        build_pooled(pooled, signed_costs);
    else if (const auto* csr = std::get_if<CsrView>(&x_))
        build_sparse(*csr, rows, signed_costs);
    else
        build_dense(std::get<DenseView>(x_), rows, signed_costs);
    return steepest_ > 1.0F;
}

void NodeBuilder::set_bias_gradient(std::span<const float> signed_costs) {
    double sum = 0.0;
    for (const float a : signed_costs) sum += a;
    bias_gradient_ = static_cast<float>(-0.5 * sum * bias_);
    steepest_ = std::fabs(bias_gradient_);
}

void NodeBuilder::build_sparse(const CsrView& x, std::span<const std::int32_t> rows,
                               std::span<const float> signed_costs) {
    add_up(x, rows, signed_costs);
    choose_features();
    if (steepest_ > 1.0F) {
        collect_entries(x, rows);
        fill_columns();
    }
    for (const std::int32_t feature : chosen_) slots_[feature] = -1;
}

// The sums of every feature of the node; it is touched_ unless its sums are zero.
void NodeBuilder::add_up(const CsrView& x, std::span<const std::int32_t> rows, std::span<const float> signed_costs) {
    const std::int32_t* indices = x.indices.data();
    const float* values = x.values.data();
    FeatureSum* sums = sums_.data();
    std::int64_t n_entries = 0;
    for (const std::int32_t row : rows) n_entries += x.row_size(row);
    // A large node touches most features: looking at all of them once is cheaper than noting which ones.
    const bool notes_touched = n_entries < n_features_ / 4;
    std::size_t n_touched = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const float a = signed_costs[i];
        const std::int64_t last = x.indptr[rows[i] + 1];
        if (notes_touched) {
            for (std::int64_t k = x.indptr[rows[i]]; k < last; ++k) {
                const float ax = a * values[k];
                FeatureSum& sum = sums[indices[k]];
                touched_[n_touched] = indices[k];
                n_touched += sum.absolute == 0.0F;
                sum.plain += ax;
                sum.absolute += std::fabs(ax);
            }
        } else {
            for (std::int64_t k = x.indptr[rows[i]]; k < last; ++k) {
                const float ax = a * values[k];
                FeatureSum& sum = sums[indices[k]];
                sum.plain += ax;
                sum.absolute += std::fabs(ax);
            }
        }
    }
    if (!notes_touched) {
        for (std::int32_t j = 0; j < n_features_; ++j) {
            touched_[n_touched] = j;
            n_touched += sums_[j].absolute != 0.0F;
        }
    }
    n_touched_ = n_touched;
}

// Give a slot to every feature that may leave zero, and forget the sums.
void NodeBuilder::choose_features() {
    chosen_.clear();
    chosen_gradients_.clear();
    for (std::size_t t = 0; t < n_touched_; ++t) {
        const std::int32_t feature = touched_[t];
        FeatureSum& sum = sums_[feature];
        const float gradient = -0.5F * sum.plain;
        if (!stays_zero(sum)) {
            steepest_ = std::max(steepest_, std::fabs(gradient));
            slots_[feature] = static_cast<std::int32_t>(chosen_.size());
            chosen_.push_back(feature);
            chosen_gradients_.push_back(gradient);
        }
        sum = FeatureSum{};
    }
}

// Copy the entries of the chosen features, row by row, with slots for feature ids.
void NodeBuilder::collect_entries(const CsrView& x, std::span<const std::int32_t> rows) {
    entry_begin_.assign(1, 0);
    counts_.assign(chosen_.size(), 0);
    std::int64_t n_entries = 0;
    for (const std::int32_t row : rows) {
        const std::int64_t last = x.indptr[row + 1];
        const auto room = static_cast<std::size_t>(n_entries + x.row_size(row) + NodeColumns::kLanes);
        if (entry_slots_.size() < room) {
            entry_slots_.resize(2 * room);
            entry_values_.resize(2 * room);
        }
        const std::int64_t first = n_entries;
        std::int32_t* out_slots = entry_slots_.data();
        n_entries += pick_entries(x.indices.data() + x.indptr[row], x.values.data() + x.indptr[row],
                                  last - x.indptr[row], slots_.data(), out_slots + first, entry_values_.data() + first);
        for (std::int64_t e = first; e < n_entries; ++e) ++counts_[out_slots[e]];
        entry_begin_.push_back(n_entries);
    }
}

void NodeBuilder::fill_columns() {
    const std::int64_t n = columns_.n_rows;
    const bool has_bias = bias_ != 0.0F;
    columns_.n_dense = 0;
    columns_of_.resize(chosen_.size());
    for (std::size_t slot = 0; slot < chosen_.size(); ++slot) {
        if (counts_[slot] * kDenseShare < n) continue;
        columns_of_[slot] = columns_.n_dense++;
        columns_.feature_ids.push_back(chosen_[slot]);
        start_gradients_.push_back(chosen_gradients_[slot]);
    }
    make_dense_room(has_bias);
    columns_.n_columns = columns_.n_dense;
    std::int64_t n_sparse = 0;
    for (std::size_t slot = 0; slot < chosen_.size(); ++slot) {
        if (counts_[slot] * kDenseShare >= n) continue;
        columns_of_[slot] = columns_.n_columns++;
        columns_.feature_ids.push_back(chosen_[slot]);
        start_gradients_.push_back(chosen_gradients_[slot]);
        const std::int64_t count = counts_[slot];
        counts_[slot] = n_sparse;  // from here on the next free place
        columns_.begin.push_back(n_sparse);
        n_sparse += count;
        columns_.end.push_back(n_sparse);
    }
    entries_.resize(std::max(entries_.size(), static_cast<std::size_t>(n_sparse)));
    columns_.entries = entries_.data();
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t e = entry_begin_[i]; e < entry_begin_[i + 1]; ++e) {
            const std::int32_t slot = entry_slots_[e];
            const std::int32_t column = columns_of_[slot];
            if (column < columns_.n_dense) {
                columns_.dense[column * columns_.stride + i] = entry_values_[e];
            } else {
                entries_[counts_[slot]++] = {static_cast<std::int32_t>(i), entry_values_[e]};
            }
        }
    }
}

// As build_sparse, from columns instead of rows.
void NodeBuilder::build_pooled(const ColumnsView& pooled, std::span<const float> signed_costs) {
    const float* a = signed_costs.data();
    chosen_.clear();
    chosen_gradients_.clear();
    for (std::size_t r = 0; r < pooled.ranges.size(); ++r) {
        const ColumnRange& range = pooled.ranges[r];
        const FeatureSum sum = sum_column(pooled.entries + range.begin, range.count, a);
        if (stays_zero(sum)) continue;
        const float gradient = -0.5F * sum.plain;
        steepest_ = std::max(steepest_, std::fabs(gradient));
        chosen_.push_back(static_cast<std::int32_t>(r));
        chosen_gradients_.push_back(gradient);
    }
    if (steepest_ <= 1.0F) return;
    const std::int64_t n = columns_.n_rows;
    columns_.entries = pooled.entries;
    columns_.n_dense = 0;
    const auto is_dense = [n](const ColumnRange& range) { return range.count * kDenseShare >= n; };
    for (std::size_t c = 0; c < chosen_.size(); ++c) {
        if (!is_dense(pooled.ranges[chosen_[c]])) continue;
        ++columns_.n_dense;
        columns_.feature_ids.push_back(pooled.ranges[chosen_[c]].feature);
        start_gradients_.push_back(chosen_gradients_[c]);
    }
    make_dense_room(bias_ != 0.0F);
    float* dense = columns_.dense.data();
    columns_.n_columns = columns_.n_dense;
    for (std::size_t c = 0; c < chosen_.size(); ++c) {
        const ColumnRange& range = pooled.ranges[chosen_[c]];
        if (is_dense(range)) {
            const NodeColumns::Entry* entries = pooled.entries + range.begin;
            for (std::int32_t k = 0; k < range.count; ++k) dense[entries[k].row] = entries[k].value;
            dense += columns_.stride;
        } else {
            start_gradients_.push_back(chosen_gradients_[c]);
            append_pooled_column(range);
        }
    }
}

void NodeBuilder::append_pooled_column(const ColumnRange& range) {
    columns_.feature_ids.push_back(range.feature);
    columns_.begin.push_back(range.begin);
    columns_.end.push_back(range.begin + range.count);
    ++columns_.n_columns;
}

// Append the bias, if there is one, as the last dense column and make room for all of them, zero but for the bias.
void NodeBuilder::make_dense_room(bool has_bias) {
    columns_.n_dense += has_bias ? 1 : 0;
    const auto size = static_cast<std::size_t>(columns_.n_dense * columns_.stride);
    if (columns_.dense.size() < size) columns_.dense.resize(size);
    std::fill_n(columns_.dense.begin(), size, 0.0F);
    if (!has_bias) return;
    float* bias_column = columns_.dense.data() + (columns_.n_dense - 1) * columns_.stride;
    std::fill_n(bias_column, columns_.n_rows, bias_);
    columns_.feature_ids.push_back(n_features_);
    start_gradients_.push_back(bias_gradient_);
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
    make_dense_room(bias_ != 0.0F);
    columns_.n_columns = columns_.n_dense;
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
    for (std::int32_t j = 0; j < n_features_; ++j) {
        start_gradients_[j] = -0.5F * columns_.dot(j, signed_costs.data());
        steepest_ = std::max(steepest_, std::fabs(start_gradients_[j]));
    }
}

}  // namespace longtail::fastxml
