#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned.hpp"

namespace longtail::tree {

// The features of one node, by column, over the node's rows numbered 0 .. n_rows-1. A frequent feature is a plain
// vector of n_rows floats (sixteen rows an instruction), a rare one a list of (row, value):
//
//   dense   column c:  dense[c * stride .. + stride)              stride = n_rows rounded up to 16, padding zero
//   sparse  column c:  rows/values[begin[c - n_dense] .. begin[c - n_dense + 1])
//
// Dense columns come first. All memory is reused from node to node.
struct NodeColumns {
    static constexpr std::int64_t kLanes = 16;

    std::int64_t n_rows = 0;
    std::int64_t stride = 0;
    std::int32_t n_dense = 0;
    std::int32_t n_columns = 0;
    std::vector<std::int32_t> feature_ids;
    AlignedVector<float> dense;
    std::vector<std::int64_t> begin;
    std::vector<std::int32_t> rows;
    std::vector<float> values;

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
        const std::int64_t first = begin[column - n_dense];
        const std::int64_t last = begin[column - n_dense + 1];
        const std::int32_t* r = rows.data();
        const float* x = values.data();
        float s0 = 0.0F;
        float s1 = 0.0F;
        float s2 = 0.0F;
        float s3 = 0.0F;
        std::int64_t k = first;
        for (; k + 4 <= last; k += 4) {
            s0 += x[k] * a[r[k]];
            s1 += x[k + 1] * a[r[k + 1]];
            s2 += x[k + 2] * a[r[k + 2]];
            s3 += x[k + 3] * a[r[k + 3]];
        }
        for (; k < last; ++k) s0 += x[k] * a[r[k]];
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
        float s0 = 0.0F;
        float s1 = 0.0F;
        const std::int64_t last = begin[column - n_dense + 1];
        std::int64_t k = begin[column - n_dense];
        for (; k + 2 <= last; k += 2) {
            s0 += values[k] * values[k] * a[rows[k]];
            s1 += values[k + 1] * values[k + 1] * a[rows[k + 1]];
        }
        if (k < last) s0 += values[k] * values[k] * a[rows[k]];
        return s0 + s1;
    }

    // out_i += step * x_i
    void add(std::int32_t column, float step, float* out) const {
        if (column < n_dense) {
            const float* x = dense.data() + column * stride;
            for (std::int64_t i = 0; i < stride; ++i) out[i] += step * x[i];
            return;
        }
        const std::int64_t last = begin[column - n_dense + 1];
        for (std::int64_t k = begin[column - n_dense]; k < last; ++k) out[rows[k]] += step * values[k];
    }

    // out_i += step * x_i * a_i
    void add_weighted(std::int32_t column, float step, const float* a, float* out) const {
        if (column < n_dense) {
            const float* x = dense.data() + column * stride;
            for (std::int64_t i = 0; i < stride; ++i) out[i] += step * x[i] * a[i];
            return;
        }
        const std::int64_t last = begin[column - n_dense + 1];
        for (std::int64_t k = begin[column - n_dense]; k < last; ++k) out[rows[k]] += step * values[k] * a[rows[k]];
    }

private:
    static float add_lanes(const float (&lanes)[2 * kLanes]) {
        float sums[kLanes / 2];
        for (std::int64_t k = 0; k < kLanes / 2; ++k)
            sums[k] = (lanes[k] + lanes[k + kLanes / 2]) + (lanes[k + kLanes] + lanes[k + 3 * kLanes / 2]);
        return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }
};

}  // namespace longtail::tree
