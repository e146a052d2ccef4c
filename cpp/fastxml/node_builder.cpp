#include "fastxml/node_builder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace longtail::fastxml {
namespace {

// A column is frequent when at least one row in this many has it: then sixteen rows per instruction, zeros included, are
// faster than a list. Plain columns of large nodes do not fit into the cache, so that they must be half full.
constexpr std::int64_t frequent_share(std::int64_t n_rows) {
    if (NodeColumns::kHasPacked) return 6;
    return n_rows <= 512 ? 6 : 2;
}

// Nodes with at most this many rows, three groups of sixteen, pack all columns: lists are not worth a branch there.
constexpr std::int64_t kAllPacked = NodeColumns::kHasPacked ? 48 : 0;

// Move the entries of a row whose feature has a slot to out_slots and out_values; both have room for the whole row and
// sixteen more. Returns how many.
std::int64_t pick_entries(const std::int32_t* features, const float* values, std::int64_t n, const std::int32_t* slots,
                          std::int32_t* out_slots, float* out_values) {
    std::int64_t n_out = 0;
    std::int64_t k = 0;
#if defined(__AVX512F__)
    for (; k + 16 <= n; k += 16) {
        const __m512i slot =
            _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xFFFF, _mm512_loadu_si512(features + k), slots, 4);
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

bool NodeBuilder::build(std::span<const std::int32_t> rows, std::span<const float> signed_costs, bool any_sides,
                        const ColumnsView& pooled) {
    columns_.n_rows = static_cast<std::int64_t>(rows.size());
    columns_.stride = NodeColumns::padded(columns_.n_rows);
    columns_.feature_ids.clear();
    columns_.ranges.clear();
    columns_.n_plain = columns_.n_packed = columns_.n_columns = 0;
    starts_.clear();
    chosen_.clear();
    set_costs(signed_costs, rows.size(), any_sides);
    if (!pooled.ranges.empty())
        build_from_pool(pooled, signed_costs);
    else if (const auto* csr = std::get_if<CsrView>(&x_))
        build_from_rows(*csr, rows, signed_costs);
    else
        build_dense(std::get<DenseView>(x_), rows, signed_costs);
    return steepest_ > 1.0F;
}

void NodeBuilder::set_costs(std::span<const float> signed_costs, std::size_t n_rows, bool any_sides) {
    double sum = 0.0;
    double absolute = 0.0;
    float smallest = std::fabs(signed_costs[0]);
    float largest = smallest;
    for (std::size_t i = 0; i < n_rows; ++i) {
        const float cost = std::fabs(signed_costs[i]);
        smallest = std::min(smallest, cost);
        largest = std::max(largest, cost);
        sum += signed_costs[i];
        absolute += cost;
    }
    any_sides_factor_ = any_sides ? largest / smallest : 0.0F;
    bias_start_.gradient = static_cast<float>(-0.5 * sum * bias_);
    bias_start_.reach = static_cast<float>(absolute * bias_);
    bias_start_.norm = static_cast<float>(std::sqrt(absolute) * bias_);
    steepest_ = std::fabs(bias_start_.gradient);
}

bool NodeBuilder::stays_zero(const FeatureSum& sum) const {
    if (any_sides_factor_ > 0.0F) return sum.absolute * any_sides_factor_ <= 1.0F;
    return sum.absolute + std::fabs(sum.plain) <= 2.0F;  // twice the larger one of U_j and V_j
}

void NodeBuilder::choose(const FeatureSum& sum, std::int32_t feature) {
    const float gradient = -0.5F * sum.plain;
    steepest_ = std::max(steepest_, std::fabs(gradient));
    chosen_.push_back({feature, 0, {gradient, sum.absolute}});
}

// Number the columns and make room for those that are not lists: zero everywhere but for the bias.
void NodeBuilder::lay_out() {
    const std::int64_t n = columns_.n_rows;
    const auto is_frequent = [n](const Chosen& c) { return n <= kAllPacked || c.count * frequent_share(n) >= n; };
    const auto append = [this](std::size_t c) {
        columns_of_[c] = columns_.n_columns++;
        columns_.feature_ids.push_back(chosen_[c].feature);
        starts_.push_back(chosen_[c].start);
    };
    columns_of_.resize(chosen_.size());
    if (NodeColumns::kHasPacked) append_bias();
    const std::int32_t first_frequent = columns_.n_columns;
    for (std::size_t c = 0; c < chosen_.size(); ++c)
        if (is_frequent(chosen_[c])) append(c);
    columns_.n_packed = NodeColumns::kHasPacked ? columns_.n_columns - first_frequent : 0;
    if (!NodeColumns::kHasPacked) append_bias();
    columns_.n_plain = columns_.n_columns - columns_.n_packed;
    for (std::size_t c = 0; c < chosen_.size(); ++c)
        if (!is_frequent(chosen_[c])) append(c);
    columns_.ranges.resize(static_cast<std::size_t>(columns_.n_columns - columns_.n_plain));

    const auto n_bits = static_cast<std::size_t>(columns_.n_packed * columns_.stride / NodeColumns::kLanes);
    if (columns_.bits.size() < n_bits) columns_.bits.resize(n_bits);
    make_plain_room();
}

// The bias is the last plain column.
void NodeBuilder::append_bias() {
    if (bias_ == 0.0F) return;
    ++columns_.n_columns;
    columns_.feature_ids.push_back(n_features_);
    starts_.push_back(bias_start_);
}

void NodeBuilder::make_plain_room() {
    const auto size = static_cast<std::size_t>(columns_.n_plain * columns_.stride);
    if (columns_.plain.size() < size) columns_.plain.resize(size);
    std::fill_n(columns_.plain.begin(), size, 0.0F);
    if (bias_ != 0.0F)
        std::fill_n(columns_.plain.data() + (columns_.n_plain - 1) * columns_.stride, columns_.n_rows, bias_);
}

// ---- from columns -----------------------------------------------------------------------------------------------

NodeBuilder::FeatureSum NodeBuilder::sum_column(const std::int32_t* rows, const float* values, std::int32_t count,
                                                const float* a) {
    FeatureSum sum;
    std::int32_t k = 0;
#if defined(__AVX512F__)
    if (count >= NodeColumns::kLanes) {
        __m512 plain_lanes = _mm512_setzero_ps();
        __m512 absolute_lanes = _mm512_setzero_ps();
        for (; k + NodeColumns::kLanes <= count; k += NodeColumns::kLanes) {
            kernels::prefetch_ahead(rows + k);
            kernels::prefetch_ahead(values + k);
            const __m512 ax = _mm512_mul_ps(_mm512_loadu_ps(values + k), kernels::gather(a, rows + k));
            plain_lanes = _mm512_add_ps(plain_lanes, ax);
            absolute_lanes = _mm512_add_ps(absolute_lanes, _mm512_abs_ps(ax));
        }
        sum = {kernels::add_lanes(plain_lanes), kernels::add_lanes(absolute_lanes)};
    }
#endif
    Four plain = {};
    Four absolute = {};
    for (; k + 4 <= count; k += 4) {
        const Four ax = load_four(values + k) * pick_four(a, rows + k);
        plain += ax;
        absolute += kernels::magnitude(ax);
    }
    FeatureSum rest;
    for (; k < count; ++k) {
        const float ax = a[rows[k]] * values[k];
        rest.plain += ax;
        rest.absolute += std::fabs(ax);
    }
    return {sum.plain + (add_lanes(plain) + rest.plain), sum.absolute + (add_lanes(absolute) + rest.absolute)};
}

void NodeBuilder::build_from_pool(const ColumnsView& pooled, std::span<const float> signed_costs) {
    begins_.clear();
    for (const ColumnRange& range : pooled.ranges) {
        const FeatureSum sum =
            sum_column(pooled.rows + range.begin, pooled.values + range.begin, range.count, signed_costs.data());
        if (stays_zero(sum)) continue;
        choose(sum, range.feature);
        chosen_.back().count = range.count;
        begins_.push_back(range.begin);
    }
    if (steepest_ <= 1.0F) return;
    lay_out();
    columns_.rows = pooled.rows;
    columns_.values = pooled.values;
    for (std::size_t c = 0; c < chosen_.size(); ++c) {
        const std::int32_t column = columns_of_[c];
        const std::int64_t begin = begins_[c];
        const std::int32_t count = chosen_[c].count;
        if (column < columns_.n_plain) {
            float* x = columns_.plain.data() + column * columns_.stride;
            for (std::int64_t k = begin; k < begin + count; ++k) x[pooled.rows[k]] = pooled.values[k];
            continue;
        }
        columns_.ranges[column - columns_.n_plain] = {begin, begin + count};
        if (column < columns_.n_plain + columns_.n_packed) set_bits(column, pooled.rows + begin, count);
    }
}

// Through bytes, which may be written in any order: setting bits of one word waits for the bit before.
void NodeBuilder::set_bits(std::int32_t column, const std::int32_t* rows, std::int32_t count) {
    constexpr std::int64_t kLanes = NodeColumns::kLanes;
    const std::int64_t stride = columns_.stride;
    if (flags_.size() < static_cast<std::size_t>(stride)) flags_.resize(static_cast<std::size_t>(stride), 0);
    std::uint8_t* flags = flags_.data();
    for (std::int32_t k = 0; k < count; ++k) flags[rows[k]] = 1;
    std::uint16_t* bits = columns_.bits.data() + (column - columns_.n_plain) * (stride / kLanes);
    for (std::int64_t g = 0; g < stride / kLanes; ++g) {
#if defined(__AVX512F__)
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(flags + g * kLanes));
        bits[g] = static_cast<std::uint16_t>(_mm_movemask_epi8(_mm_cmpgt_epi8(bytes, _mm_setzero_si128())));
#else
        bits[g] = 0;
        for (int k = 0; k < kLanes; ++k) bits[g] = static_cast<std::uint16_t>(bits[g] | flags[g * kLanes + k] << k);
#endif
    }
    std::fill_n(flags, stride, std::uint8_t{0});
}

// ---- from rows --------------------------------------------------------------------------------------------------

void NodeBuilder::build_from_rows(const CsrView& x, std::span<const std::int32_t> rows,
                                  std::span<const float> signed_costs) {
    add_up(x, rows, signed_costs);
    choose_features();
    if (steepest_ > 1.0F) {
        collect_entries(x, rows);
        lay_out();
        fill_columns();
    }
    for (const Chosen& c : chosen_) slots_[c.feature] = -1;
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
    for (std::size_t t = 0; t < n_touched_; ++t) {
        const std::int32_t feature = touched_[t];
        FeatureSum& sum = sums_[feature];
        if (!stays_zero(sum)) {
            slots_[feature] = static_cast<std::int32_t>(chosen_.size());
            choose(sum, feature);
        }
        sum = FeatureSum{};
    }
}

// Copy the entries of the chosen features, row by row, with slots for feature ids.
void NodeBuilder::collect_entries(const CsrView& x, std::span<const std::int32_t> rows) {
    entry_begin_.assign(1, 0);
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
        for (std::int64_t e = first; e < n_entries; ++e) ++chosen_[out_slots[e]].count;
        entry_begin_.push_back(n_entries);
    }
}

void NodeBuilder::fill_columns() {
    constexpr std::int64_t kLanes = NodeColumns::kLanes;
    const std::int64_t n_groups = columns_.stride / kLanes;
    const std::int32_t n_plain = columns_.n_plain;
    const std::int32_t first_list = n_plain + columns_.n_packed;
    next_.resize(chosen_.size());
    std::int64_t n_entries = 0;
    for (std::size_t c = 0; c < chosen_.size(); ++c) {
        next_[c] = n_entries;
        if (columns_of_[c] < n_plain) continue;
        columns_.ranges[columns_of_[c] - n_plain] = {n_entries, n_entries + chosen_[c].count};
        n_entries += chosen_[c].count;
    }
    const auto room = static_cast<std::size_t>(n_entries + kLanes);
    if (own_rows_.size() < room) own_rows_.resize(room);
    if (own_values_.size() < room) own_values_.resize(room);
    columns_.rows = own_rows_.data();
    columns_.values = own_values_.data();
    std::fill_n(columns_.bits.begin(), columns_.n_packed * n_groups, std::uint16_t{0});
    std::uint16_t* bits = columns_.bits.data();
    for (std::int64_t i = 0; i < columns_.n_rows; ++i) {
        const auto bit = static_cast<std::uint16_t>(1U << (i % kLanes));
        for (std::int64_t e = entry_begin_[i]; e < entry_begin_[i + 1]; ++e) {
            const std::int32_t slot = entry_slots_[e];
            const std::int32_t column = columns_of_[slot];
            if (column < n_plain) {
                columns_.plain[column * columns_.stride + i] = entry_values_[e];
                continue;
            }
            const std::int64_t place = next_[slot]++;
            own_values_[place] = entry_values_[e];
            if (column < first_list)
                bits[(column - n_plain) * n_groups + i / kLanes] |= bit;
            else
                own_rows_[place] = static_cast<std::int32_t>(i);
        }
    }
}

// ---- dense X ----------------------------------------------------------------------------------------------------

void NodeBuilder::build_dense(const DenseView& x, std::span<const std::int32_t> rows,
                              std::span<const float> signed_costs) {
    constexpr std::int64_t kTile = NodeColumns::kLanes;
    const std::int64_t n = columns_.n_rows;
    const std::int64_t stride = columns_.stride;
    for (std::int32_t j = 0; j < n_features_; ++j) columns_.feature_ids.push_back(j);
    starts_.resize(static_cast<std::size_t>(n_features_));
    columns_.n_columns = n_features_;
    append_bias();
    columns_.n_plain = columns_.n_columns;
    make_plain_room();
    // Sixteen rows at a time, so that each write fills a cache line.
    for (std::int64_t first = 0; first < n; first += kTile) {
        const float* sources[kTile];
        const std::int64_t n_tile = std::min(kTile, n - first);
        for (std::int64_t k = 0; k < kTile; ++k)
            sources[k] = x.values.data() + rows[std::min(first + k, n - 1)] * x.n_cols;
        for (std::int32_t j = 0; j < n_features_; ++j) {
            float* out = columns_.plain.data() + j * stride + first;
            for (std::int64_t k = 0; k < n_tile; ++k) out[k] = sources[k][j];
        }
    }
    const float* a = signed_costs.data();
    for (std::int32_t j = 0; j < n_features_; ++j) {
        const float* column = columns_.plain.data() + j * stride;
        const auto cost_times_value = [a, column](std::int64_t i) {
            return kernels::load_register(a + i) * kernels::load_register(column + i);
        };
        const auto magnitude = [](const Register& lanes) { return select(lanes < 0.0F, -lanes, lanes); };
        const float plain = kernels::sum_plain(stride, cost_times_value);
        const float absolute =
            kernels::sum_plain(stride, [&](std::int64_t i) { return magnitude(cost_times_value(i)); });
        const float square = kernels::sum_plain(stride, [&](std::int64_t i) {
            const Register value = kernels::load_register(column + i);
            return magnitude(kernels::load_register(a + i)) * value * value;
        });
        starts_[j] = {-0.5F * plain, absolute, std::sqrt(square)};
        steepest_ = std::max(steepest_, std::fabs(starts_[j].gradient));
    }
}

}  // namespace longtail::fastxml
