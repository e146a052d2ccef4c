#include "fastxml/column_pool.hpp"

#include <array>
#include <bit>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace longtail::fastxml {
namespace {

#if defined(__AVX2__) && !defined(__AVX512F__)
constexpr std::int64_t kEight = 8;

// For every set of lanes, as bits: their numbers in ascending order. What follows them does not matter.
constexpr auto kChosenLanes = [] {
    std::array<std::array<std::uint8_t, kEight>, 256> table{};
    for (std::size_t set = 0; set < table.size(); ++set)
        for (std::uint8_t lane = 0, at = 0; lane < kEight; ++lane)
            if ((set >> lane & 1) != 0) table[set][at++] = lane;
    return table;
}();

__m256i chosen_lanes(unsigned set) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(kChosenLanes[set].data())));
}
__m256i compress(__m256i words, __m256i lanes) { return _mm256_permutevar8x32_epi32(words, lanes); }
void store(void* target, __m256i words) { _mm256_storeu_si256(static_cast<__m256i*>(target), words); }

float add_register(__m256 lanes) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
#endif

// |value| where the mask is all ones, zero where it is zero: a branch on the side of a row would be mispredicted.
float masked_magnitude(float value, std::int32_t mask) {
    return std::bit_cast<float>(std::bit_cast<std::int32_t>(value) & mask & 0x7FFFFFFF);
}

}  // namespace

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
        stack.rows.resize(room);
        stack.values.resize(room);
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
        kernels::prefetch_ahead(rows + k);
        kernels::prefetch_ahead(values + k);
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
#elif defined(__AVX2__)
    const __m256 sign = _mm256_set1_ps(-0.0F);
    __m256 left_sums = _mm256_setzero_ps();
    __m256 right_sums = _mm256_setzero_ps();
    for (; k + kEight <= n; k += kEight) {
        const __m256 value = _mm256_loadu_ps(values + k);
        const __m256i place =
            _mm256_i32gather_epi32(places, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + k)), 4);
        const __m256 is_right = _mm256_castsi256_ps(_mm256_srai_epi32(place, 31));
        const auto right_set = static_cast<unsigned>(_mm256_movemask_ps(is_right));
        const __m256i left_lanes = chosen_lanes(~right_set & 0xFF);
        const __m256i right_lanes = chosen_lanes(right_set);
        const __m256i right_place = _mm256_xor_si256(place, _mm256_set1_epi32(-1));
        store(left.rows + left.next, compress(place, left_lanes));
        store(left.values + left.next, compress(_mm256_castps_si256(value), left_lanes));
        store(right.rows + right.next, compress(right_place, right_lanes));
        store(right.values + right.next, compress(_mm256_castps_si256(value), right_lanes));
        const __m256 magnitude = _mm256_andnot_ps(sign, value);
        left_sums = _mm256_add_ps(left_sums, _mm256_andnot_ps(is_right, magnitude));
        right_sums = _mm256_add_ps(right_sums, _mm256_and_ps(is_right, magnitude));
        const int n_right = std::popcount(right_set);
        right.next += n_right;
        left.next += kEight - n_right;
    }
    left_magnitude = add_register(left_sums);
    right_magnitude = add_register(right_sums);
#endif
    for (; k < n; ++k) {
        const std::int32_t place = places[rows[k]];
        const float value = values[k];
        const std::int32_t right_mask = place >> 31;
        left.rows[left.next] = place;
        left.values[left.next] = value;
        right.rows[right.next] = ~place;
        right.values[right.next] = value;
        left.next += 1 + right_mask;
        right.next -= right_mask;
        left_magnitude += masked_magnitude(value, ~right_mask);
        right_magnitude += masked_magnitude(value, right_mask);
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
    Cursor left_cursor{left_on.rows.data(), left_on.values.data(), node.begin};
    Cursor right_cursor{right_on.rows.data(), right_on.values.data(), right_on.top};
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
