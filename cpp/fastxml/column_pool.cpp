#include "fastxml/column_pool.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace longtail::fastxml {

ColumnPool::ColumnPool(const CsrView& x, float largest_cost)
    : largest_cost_(largest_cost), bounds_(static_cast<std::size_t>(x.n_cols), 0.0F) {
    const std::size_t room = x.indices.size() + static_cast<std::size_t>(NodeColumns::kLanes);
    for (Stack& stack : stacks_) {
        stack.rows = std::make_unique_for_overwrite<std::int32_t[]>(room);
        stack.values = std::make_unique_for_overwrite<float[]>(room);
    }
    std::vector<std::int64_t> next(static_cast<std::size_t>(x.n_cols) + 1, 0);
    for (const std::int32_t feature : x.indices) ++next[feature + 1];
    for (std::size_t j = 0; j < bounds_.size(); ++j) {
        if (next[j + 1] > 0)
            ranges_.push_back({next[j], static_cast<std::int32_t>(next[j + 1]), static_cast<std::int32_t>(j)});
        next[j + 1] += next[j];
    }
    Stack& stack = stacks_[0];
    stack.top = static_cast<std::int64_t>(x.indices.size());
    for (std::int64_t row = 0; row < x.n_rows; ++row)
        for (std::int64_t k = x.indptr[row]; k < x.indptr[row + 1]; ++k) {
            const std::int64_t place = next[x.indices[k]]++;
            stack.rows[place] = static_cast<std::int32_t>(row);
            stack.values[place] = x.values[k];
        }
    for (const ColumnRange& range : ranges_) {
        float largest = 0.0F;
        for (std::int64_t k = range.begin; k < range.begin + range.count; ++k)
            largest = std::max(largest, std::fabs(stack.values[k]));
        bounds_[range.feature] = largest_cost * largest;
    }
}

// Append each entry to the side of its row. left may write where entries were read: it never overtakes reading.
void ColumnPool::split_column(const std::int32_t* rows, const float* values, std::int64_t n, const std::int32_t* places,
                              Cursor& left, Cursor& right) {
    std::int64_t k = 0;
#if defined(__AVX512F__)
    for (; k + NodeColumns::kLanes <= n; k += NodeColumns::kLanes) {
        const __m512 value = _mm512_loadu_ps(values + k);
        const __m512i place = _mm512_mask_i32gather_epi32(
            _mm512_setzero_si512(), 0xFFFF, _mm512_loadu_si512(rows + k), places, 4);
        const __mmask16 is_right = _mm512_cmplt_epi32_mask(place, _mm512_setzero_si512());
        const auto is_left = static_cast<__mmask16>(~is_right);
        // Compress in registers and store whole vectors: compressing stores are slow on some processors.
        _mm512_storeu_si512(left.rows + left.next, _mm512_maskz_compress_epi32(is_left, place));
        _mm512_storeu_ps(left.values + left.next, _mm512_maskz_compress_ps(is_left, value));
        const __m512i right_place = _mm512_xor_si512(place, _mm512_set1_epi32(-1));
        _mm512_storeu_si512(right.rows + right.next, _mm512_maskz_compress_epi32(is_right, right_place));
        _mm512_storeu_ps(right.values + right.next, _mm512_maskz_compress_ps(is_right, value));
        const int n_right = std::popcount(static_cast<std::uint32_t>(is_right));
        right.next += n_right;
        left.next += NodeColumns::kLanes - n_right;
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
    }
}

void ColumnPool::split(const Node& node, std::span<const ColumnRange> kept, std::span<const std::int32_t> places,
                       bool wants_left, bool wants_right, Node& left, Node& right) {
    left = right = Node{};
    left_ranges_.clear();
    right_ranges_.clear();
    Stack& own = stacks_[node.stack];
    Stack& other = stacks_[1 - node.stack];
    Cursor left_cursor{own.rows.get(), own.values.get(), node.begin};
    Cursor right_cursor{other.rows.get(), other.values.get(), other.top};
    const std::int64_t right_begin = other.top;
    for (const ColumnRange& range : kept) {
        const std::int64_t first_left = left_cursor.next;
        const std::int64_t first_right = right_cursor.next;
        split_column(own.rows.get() + range.begin, own.values.get() + range.begin, range.count, places.data(), left_cursor,
                     right_cursor);
        const std::int64_t n_left = left_cursor.next - first_left;
        const std::int64_t n_right = right_cursor.next - first_right;
        if (wants_left && may_matter(range.feature, n_left))
            left_ranges_.push_back({first_left, static_cast<std::int32_t>(n_left), range.feature});
        else
            left_cursor.next = first_left;
        if (wants_right && may_matter(range.feature, n_right))
            right_ranges_.push_back({first_right, static_cast<std::int32_t>(n_right), range.feature});
        else
            right_cursor.next = first_right;
    }
    own.top = left_cursor.next;
    other.top = right_cursor.next;
    ranges_.resize(node.first);
    right = {ranges_.size(), ranges_.size() + right_ranges_.size(), 1 - node.stack, right_begin};
    ranges_.insert(ranges_.end(), right_ranges_.begin(), right_ranges_.end());
    left = {ranges_.size(), ranges_.size() + left_ranges_.size(), node.stack, node.begin};
    ranges_.insert(ranges_.end(), left_ranges_.begin(), left_ranges_.end());
}

}  // namespace longtail::fastxml
