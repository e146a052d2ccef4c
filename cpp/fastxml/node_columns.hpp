#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"

namespace longtail::fastxml {

// The features of one node, by column, over the node's rows numbered 0 .. n_rows-1. A frequent feature is a plain
// vector of n_rows floats (sixteen rows an instruction), a rare one a list of (row, value):
//
//   dense   column c:  dense[c * stride .. + stride)              stride = n_rows rounded up to 16, padding zero
//   sparse  column c:  entries[begin[c - n_dense] .. end[c - n_dense])
//
// Dense columns come first. All memory is reused from node to node.
struct NodeColumns {
    static constexpr std::int64_t kLanes = 16;

    struct Entry {
        std::int32_t row;
        float value;
    };
    struct Sums {
        float plain;
        float square;
    };

    std::int64_t n_rows = 0;
    std::int64_t stride = 0;
    std::int32_t n_dense = 0;
    std::int32_t n_columns = 0;
    std::vector<std::int32_t> feature_ids;
    AlignedVector<float> dense;
    std::vector<std::int64_t> begin;
    std::vector<std::int64_t> end;
    const Entry* entries = nullptr;  // not owned

    static std::int64_t padded(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

    // sum x_i * a_i
    float dot(std::int32_t column, const float* a) const {
        if (column < n_dense) {
            const float* x = dense.data() + column * stride;
            float lanes[2 * kLanes] = {};
            std::int64_t i = 0;
            for (; i + 2 * kLanes <= stride; i += 2 * kLanes)
                for (std::int64_t k = 0; k < 2 * kLanes; ++k) lanes[k] += x[i + k] * a[i + k];
            if (i < stride)
                for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] += x[i + k] * a[i + k];
            return add_lanes(lanes);
        }
        const Entry* e = entries;
        const std::int64_t last = end[column - n_dense];
        std::int64_t k = begin[column - n_dense];
        float s0 = 0.0F;
        float s1 = 0.0F;
        float s2 = 0.0F;
        float s3 = 0.0F;
        for (; k + 4 <= last; k += 4) {
            s0 += e[k].value * a[e[k].row];
            s1 += e[k + 1].value * a[e[k + 1].row];
            s2 += e[k + 2].value * a[e[k + 2].row];
            s3 += e[k + 3].value * a[e[k + 3].row];
        }
        for (; k < last; ++k) s0 += e[k].value * a[e[k].row];
        return (s0 + s1) + (s2 + s3);
    }

    // sum x_i^2 * a_i
    float square_dot(std::int32_t column, const float* a) const {
        if (column < n_dense) {
            const float* x = dense.data() + column * stride;
            float lanes[2 * kLanes] = {};
            std::int64_t i = 0;
            for (; i + 2 * kLanes <= stride; i += 2 * kLanes)
                for (std::int64_t k = 0; k < 2 * kLanes; ++k) lanes[k] += x[i + k] * x[i + k] * a[i + k];
            if (i < stride)
                for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] += x[i + k] * x[i + k] * a[i + k];
            return add_lanes(lanes);
        }
        const Entry* e = entries;
        const std::int64_t last = end[column - n_dense];
        std::int64_t k = begin[column - n_dense];
        float s0 = 0.0F;
        float s1 = 0.0F;
        for (; k + 2 <= last; k += 2) {
            s0 += e[k].value * e[k].value * a[e[k].row];
            s1 += e[k + 1].value * e[k + 1].value * a[e[k + 1].row];
        }
        if (k < last) s0 += e[k].value * e[k].value * a[e[k].row];
        return s0 + s1;
    }

    // sum x_i * a_i and sum x_i^2 * b_i, in one pass: columns of large nodes come from far away.
    Sums dot_and_square_dot(std::int32_t column, const float* a, const float* b) const {
        if (column < n_dense) {
            const float* x = dense.data() + column * stride;
            float lanes[2 * kLanes] = {};
            float squares[2 * kLanes] = {};
            std::int64_t i = 0;
            for (; i + 2 * kLanes <= stride; i += 2 * kLanes)
                for (std::int64_t k = 0; k < 2 * kLanes; ++k) {
                    lanes[k] += x[i + k] * a[i + k];
                    squares[k] += x[i + k] * x[i + k] * b[i + k];
                }
            if (i < stride)
                for (std::int64_t k = 0; k < kLanes; ++k) {
                    lanes[k] += x[i + k] * a[i + k];
                    squares[k] += x[i + k] * x[i + k] * b[i + k];
                }
            return {add_lanes(lanes), add_lanes(squares)};
        }
        const Entry* e = entries;
        const std::int64_t last = end[column - n_dense];
        std::int64_t k = begin[column - n_dense];
        float s0 = 0.0F;
        float s1 = 0.0F;
        float q0 = 0.0F;
        float q1 = 0.0F;
        for (; k + 2 <= last; k += 2) {
            s0 += e[k].value * a[e[k].row];
            q0 += e[k].value * e[k].value * b[e[k].row];
            s1 += e[k + 1].value * a[e[k + 1].row];
            q1 += e[k + 1].value * e[k + 1].value * b[e[k + 1].row];
        }
        if (k < last) {
            s0 += e[k].value * a[e[k].row];
            q0 += e[k].value * e[k].value * b[e[k].row];
        }
        return {s0 + s1, q0 + q1};
    }

    // Have the first cache lines of a column on their way; longer columns the processor fetches by itself.
    void prefetch(std::int32_t column) const {
        const char* first = column < n_dense ? reinterpret_cast<const char*>(dense.data() + column * stride)
                                             : reinterpret_cast<const char*>(entries + begin[column - n_dense]);
        for (int line = 0; line < 4; ++line) __builtin_prefetch(first + 64 * line);
    }

    // out_i += step * x_i
    void add(std::int32_t column, float step, float* out) const {
        if (column < n_dense) {
            const float* x = dense.data() + column * stride;
            for (std::int64_t i = 0; i < stride; ++i) out[i] += step * x[i];
            return;
        }
        const std::int64_t last = end[column - n_dense];
        const Entry* e = entries;
        for (std::int64_t k = begin[column - n_dense]; k < last; ++k) out[e[k].row] += step * e[k].value;
    }

    // out_i += step * x_i * a_i
    void add_weighted(std::int32_t column, float step, const float* a, float* out) const {
        if (column < n_dense) {
            const float* x = dense.data() + column * stride;
            for (std::int64_t i = 0; i < stride; ++i) out[i] += step * x[i] * a[i];
            return;
        }
        const std::int64_t last = end[column - n_dense];
        const Entry* e = entries;
        for (std::int64_t k = begin[column - n_dense]; k < last; ++k)
            out[e[k].row] += step * e[k].value * a[e[k].row];
    }

private:
    static float add_lanes(const float (&lanes)[2 * kLanes]) {
        float sums[kLanes / 2];
        for (std::int64_t k = 0; k < kLanes / 2; ++k)
            sums[k] = (lanes[k] + lanes[k + kLanes / 2]) + (lanes[k + kLanes] + lanes[k + 3 * kLanes / 2]);
        return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }
};

// One column of a node among entries, and all columns of a node.
struct ColumnRange {
    std::int64_t begin;
    std::int32_t count;
    std::int32_t feature;
};
struct ColumnsView {
    const NodeColumns::Entry* entries = nullptr;
    std::span<const ColumnRange> ranges;
};

}  // namespace longtail::fastxml
