#include "fastxml/column_pool.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace longtail::fastxml {

FeatureColumns transpose(const CsrView& x) {
    FeatureColumns columns;
    columns.indptr.assign(static_cast<std::size_t>(x.n_cols) + 1, 0);
    columns.rows.resize(x.indices.size());
    columns.values.resize(x.indices.size() + static_cast<std::size_t>(NodeColumns::kLanes), 0.0F);
    for (const std::int32_t feature : x.indices) ++columns.indptr[feature + 1];
    for (std::int64_t j = 0; j < x.n_cols; ++j) columns.indptr[j + 1] += columns.indptr[j];
    std::vector<std::int64_t> next(columns.indptr.begin(), columns.indptr.end() - 1);
    for (std::int64_t row = 0; row < x.n_rows; ++row)
        for (std::int64_t k = x.indptr[row]; k < x.indptr[row + 1]; ++k) {
            const std::int64_t place = next[x.indices[k]]++;
            columns.rows[place] = static_cast<std::int32_t>(row);
            columns.values[place] = x.values[k];
        }
    return columns;
}

ColumnPool::ColumnPool(const CsrView& columns, float largest_cost) : columns_(columns), largest_cost_(largest_cost) {
    const auto room = static_cast<std::size_t>(columns.indptr.back() + NodeColumns::kLanes);
    for (Stack& stack : stacks_) {
        stack.rows = std::make_unique_for_overwrite<std::int32_t[]>(room);
        stack.values = std::make_unique_for_overwrite<float[]>(room);
    }
    for (std::int64_t j = 0; j < columns.n_rows; ++j)
        if (columns.row_size(j) > 0)
            ranges_.push_back(
                {columns.indptr[j], static_cast<std::int32_t>(columns.row_size(j)), static_cast<std::int32_t>(j)});
}

// Append each entry to the side of its row. left may write where entries were read: it never overtakes reading.
void ColumnPool::split_column(const std::int32_t* rows, const float* values, std::int64_t n, const std::int32_t* places,
                              Cursor& left, Cursor& right) {
    float left_magnitude = 0.0F;
    float right_magnitude = 0.0F;
    std::int64_t k = 0;
#if defined(__AVX512F__)
    __m512 left_sums = _mm512_setzero_ps();
    __m512 right_sums = _mm512_setzero_ps();
    for (; k + NodeColumns::kLanes <= n; k += NodeColumns::kLanes) {
        const __m512 value = _mm512_loadu_ps(values + k);
        const __m512i place =
            _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xFFFF, _mm512_loadu_si512(rows + k), places, 4);
        const __mmask16 is_right = _mm512_cmplt_epi32_mask(place, _mm512_setzero_si512());
        const auto is_left = static_cast<__mmask16>(~is_right);
        // Compress in registers and store whole vectors: compressing stores are slow on some processors.
        const __m512 left_value = _mm512_maskz_compress_ps(is_left, value);
        const __m512 right_value = _mm512_maskz_compress_ps(is_right, value);
        const __m512i right_place = _mm512_xor_si512(place, _mm512_set1_epi32(-1));
        _mm512_storeu_si512(left.rows + left.next, _mm512_maskz_compress_epi32(is_left, place));
        _mm512_storeu_ps(left.values + left.next, left_value);
        _mm512_storeu_si512(right.rows + right.next, _mm512_maskz_compress_epi32(is_right, right_place));
        _mm512_storeu_ps(right.values + right.next, right_value);
        left_sums = _mm512_add_ps(left_sums, _mm512_abs_ps(left_value));
        right_sums = _mm512_add_ps(right_sums, _mm512_abs_ps(right_value));
        const int n_right = std::popcount(static_cast<std::uint32_t>(is_right));
        right.next += n_right;
        left.next += NodeColumns::kLanes - n_right;
    }
    if (k > 0) {
        left_magnitude = kernels::add_lanes(left_sums);
        right_magnitude = kernels::add_lanes(right_sums);
    }
#endif
    for (; k < n; ++k) {
        const std::int32_t place = places[rows[k]];
        const float value = values[k];
        const bool is_right = place < 0;
        left.rows[left.next] = place;
        left.values[left.next] = value;
        right.rows[right.next] = ~place;
        right.values[right.next] = value;
        left.next += !is_right;
        right.next += is_right;
        left_magnitude += is_right ? 0.0F : std::fabs(value);
        right_magnitude += is_right ? std::fabs(value) : 0.0F;
    }
    left.magnitude = left_magnitude;
    right.magnitude = right_magnitude;
}

// Keep what was written of a column if it may matter on its side.
void ColumnPool::finish_column(Cursor& side, std::int64_t first, bool is_wanted, std::int32_t feature,
                               std::vector<ColumnRange>& ranges) const {
    if (is_wanted && largest_cost_ * side.magnitude > 1.0F)
        ranges.push_back({first, static_cast<std::int32_t>(side.next - first), feature});
    else
        side.next = first;
}

void ColumnPool::split(const Node& node, std::span<const std::int32_t> places, bool wants_left, bool wants_right,
                       Node& left, Node& right) {
    left_ranges_.clear();
    right_ranges_.clear();
    const ColumnsView from = view(node);
    const int left_stack = node.stack == kNoStack ? 0 : node.stack;
    Stack& left_on = stacks_[left_stack];
    Stack& right_on = stacks_[1 - left_stack];
    Cursor left_cursor{left_on.rows.get(), left_on.values.get(), node.begin};
    Cursor right_cursor{right_on.rows.get(), right_on.values.get(), right_on.top};
    const std::int64_t right_begin = right_on.top;
    for (const ColumnRange& range : from.ranges) {
        const std::int64_t first_left = left_cursor.next;
        const std::int64_t first_right = right_cursor.next;
        split_column(from.rows + range.begin, from.values + range.begin, range.count, places.data(), left_cursor,
                     right_cursor);
        finish_column(left_cursor, first_left, wants_left, range.feature, left_ranges_);
        finish_column(right_cursor, first_right, wants_right, range.feature, right_ranges_);
    }
    left_on.top = left_cursor.next;
    right_on.top = right_cursor.next;
    ranges_.resize(node.first);
    right = {ranges_.size(), ranges_.size() + right_ranges_.size(), 1 - left_stack, right_begin};
    ranges_.insert(ranges_.end(), right_ranges_.begin(), right_ranges_.end());
    left = {ranges_.size(), ranges_.size() + left_ranges_.size(), left_stack, node.begin};
    ranges_.insert(ranges_.end(), left_ranges_.begin(), left_ranges_.end());
}

}  // namespace longtail::fastxml
