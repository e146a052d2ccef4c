#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "fastxml/column_kernels.hpp"

namespace longtail::fastxml {

// The features of one node, by column, over the node's rows numbered 0 .. n_rows-1. Columns come in this order:
//
//   plain    one float per row, padding zero             features of a dense X, and the bias
//   packed   one bit per row, and the values of its ones frequent features (AVX-512 builds, which expand sixteen rows in
//                                                        an instruction; others store frequent features plainly)
//   list     (row, value)                                rare features
//
// stride is n_rows rounded up to sixteen. All memory is reused from node to node.
struct NodeColumns {
    static constexpr std::int64_t kLanes = kernels::kLanes;
#if defined(__AVX512F__)
    static constexpr bool kHasPacked = true;
#else
    static constexpr bool kHasPacked = false;
#endif

    std::int64_t n_rows = 0;
    std::int64_t stride = 0;
    std::int32_t n_plain = 0;
    std::int32_t n_packed = 0;
    std::int32_t n_columns = 0;
    std::vector<std::int32_t> feature_ids;
    LargeVector<float> plain;         // n_plain x stride
    std::vector<std::uint16_t> bits;  // n_packed x stride / 16
    struct Range {
        std::int64_t begin;
        std::int64_t end;
    };
    std::vector<Range> ranges;           // in rows and values, of packed and list columns
    const std::int32_t* rows = nullptr;  // of list columns, ascending within a column; not owned
    const float* values = nullptr;       // not owned; readable for sixteen floats beyond the last column

    static std::int64_t padded(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

    // sum x_i * a_i
    float dot(std::int32_t column, const float* a) const {
        if (column < n_plain) {
            const float* x = plain_column(column);
            return kernels::sum_plain(stride, [x, a](std::int64_t i) {
                return kernels::load_register(x + i) * kernels::load_register(a + i);
            });
        }
        const Range range = ranges[column - n_plain];
#if defined(__AVX512F__)
        if (is_packed(column)) return kernels::dot_packed(bits_of(column), values + range.begin, stride / kLanes, a);
#endif
        return kernels::dot_list(rows + range.begin, values + range.begin, range.end - range.begin, a);
    }

    // sum x_i^2 * a_i
    float square_dot(std::int32_t column, const float* a) const {
        if (column < n_plain) {
            const float* x = plain_column(column);
            return kernels::sum_plain(stride, [x, a](std::int64_t i) {
                const Register value = kernels::load_register(x + i);
                return value * value * kernels::load_register(a + i);
            });
        }
        const Range range = ranges[column - n_plain];
#if defined(__AVX512F__)
        if (is_packed(column)) {
            __m512 sum = _mm512_setzero_ps();
            kernels::for_each_packed(bits_of(column), values + range.begin, stride / kLanes,
                                     [&](std::int64_t i, __m512 x) {
                                         sum = _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_load_ps(a + i), sum);
                                     });
            return kernels::add_lanes(sum);
        }
#endif
        return kernels::square_dot_list(rows + range.begin, values + range.begin, range.end - range.begin, a);
    }

    // out_i += step * x_i
    void add(std::int32_t column, float step, float* out) const {
        if (column < n_plain) {
            const float* x = plain_column(column);
            for (std::int64_t i = 0; i < stride; ++i) out[i] += step * x[i];
            return;
        }
        const Range range = ranges[column - n_plain];
#if defined(__AVX512F__)
        if (is_packed(column)) {
            const __m512 steps = _mm512_set1_ps(step);
            kernels::for_each_packed(bits_of(column), values + range.begin, stride / kLanes,
                                     [&](std::int64_t i, __m512 x) {
                                         _mm512_store_ps(out + i, _mm512_fmadd_ps(steps, x, _mm512_load_ps(out + i)));
                                     });
            return;
        }
#endif
        for (std::int64_t k = range.begin; k < range.end; ++k) out[rows[k]] += step * values[k];
    }

    // out_i += step * x_i * a_i
    void add_weighted(std::int32_t column, float step, const float* a, float* out) const {
        if (column < n_plain) {
            const float* x = plain_column(column);
            for (std::int64_t i = 0; i < stride; ++i) out[i] += step * x[i] * a[i];
            return;
        }
        const Range range = ranges[column - n_plain];
#if defined(__AVX512F__)
        if (is_packed(column)) {
            const __m512 steps = _mm512_set1_ps(step);
            kernels::for_each_packed(
                bits_of(column), values + range.begin, stride / kLanes, [&](std::int64_t i, __m512 x) {
                    _mm512_store_ps(out + i, _mm512_fmadd_ps(_mm512_mul_ps(steps, x), _mm512_load_ps(a + i),
                                                             _mm512_load_ps(out + i)));
                });
            return;
        }
#endif
        for (std::int64_t k = range.begin; k < range.end; ++k) out[rows[k]] += step * values[k] * a[rows[k]];
    }

    // Fetch the first cache lines of a column; the processor fetches the rest of longer columns by itself.
    void prefetch(std::int32_t column) const {
        if (column < n_plain) {
            prefetch_lines(plain_column(column));
            return;
        }
        const std::int64_t begin = ranges[column - n_plain].begin;
        prefetch_lines(values + begin);
        if (is_packed(column))
            prefetch_lines(bits_of(column));
        else
            prefetch_lines(rows + begin);
    }

private:
    bool is_packed(std::int32_t column) const { return column < n_plain + n_packed; }
    const float* plain_column(std::int32_t column) const { return plain.data() + column * stride; }
    const std::uint16_t* bits_of(std::int32_t column) const {
        return bits.data() + (column - n_plain) * (stride / kLanes);
    }
    static void prefetch_lines(const void* first) {
        for (int line = 0; line < 16; ++line) __builtin_prefetch(static_cast<const char*>(first) + 64 * line);
    }
};

// One column of a node among rows and values, and all columns of a node.
struct ColumnRange {
    std::int64_t begin;
    std::int32_t count;
    std::int32_t feature;
};
struct ColumnsView {
    const std::int32_t* rows = nullptr;
    const float* values = nullptr;  // readable for sixteen floats beyond the last column
    std::span<const ColumnRange> ranges;
};

}  // namespace longtail::fastxml
