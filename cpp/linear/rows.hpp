#pragma once

// Sparse and dense rows behind one set of names, so that each solver is written once. The constant bias feature is
// not part of a row: solvers keep its weight apart.

#include <algorithm>
#include <cstdint>

#include "base/four.hpp"
#include "base/views.hpp"
#include "linear/lanes.hpp"
#include "linear/sums.hpp"

namespace longtail::linear {

// Σ values[i] · weights[features[i]] over n entries. `Feature` is std::int32_t or std::uint16_t.
template <class Feature>
float sparse_dot(const Feature* features, const float* values, std::int64_t n, const float* weights) {
    return sum_list(features, values, n, weights, [](auto value, auto weight) { return value * weight; });
}

// weights[features[i]] += scale · values[i] for n entries of different features. Four weights are loaded before any of them
// is stored: a load need not wait until the place of an earlier store is known.
template <class Feature, class Real>
void sparse_add(const Feature* features, const float* values, std::int64_t n, Real scale, Real* weights) {
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        Real* const first = weights + features[i];
        Real* const second = weights + features[i + 1];
        Real* const third = weights + features[i + 2];
        Real* const fourth = weights + features[i + 3];
        const Real sums[4] = {
            *first + scale * static_cast<Real>(values[i]), *second + scale * static_cast<Real>(values[i + 1]),
            *third + scale * static_cast<Real>(values[i + 2]), *fourth + scale * static_cast<Real>(values[i + 3])};
        *first = sums[0];
        *second = sums[1];
        *third = sums[2];
        *fourth = sums[3];
    }
    for (; i < n; ++i) weights[features[i]] += scale * static_cast<Real>(values[i]);
}

template <class T>
void prefetch_range(const T* begin, const T* end) {
    constexpr std::ptrdiff_t kLine = 64 / sizeof(T);
    for (const T* at = begin; at < end; at += kLine) __builtin_prefetch(at);
}

// visit(i) for i < n in order, with row row_ids[i] on its way into the cache: first its place in X, then what stands
// there. Working sets are scattered over X, and a row ends before the hardware has seen that it is a stream.
template <class Rows, class Visit>
void walk_rows(const Rows& rows, const std::int32_t* row_ids, std::int64_t n, const Visit& visit) {
    constexpr std::int64_t kFar = 8;
    constexpr std::int64_t kNear = 3;
    for (std::int64_t i = 0; i < kFar && i < n; ++i) rows.prefetch_place(row_ids[i]);
    for (std::int64_t i = 0; i < kNear && i < n; ++i) rows.prefetch(row_ids[i]);
    for (std::int64_t i = 0; i < n; ++i) {
        if (i + kFar < n) rows.prefetch_place(row_ids[i + kFar]);
        if (i + kNear < n) rows.prefetch(row_ids[i + kNear]);
        visit(i);
    }
}

// sums += value * the weights of kPairs pairs of blocks. Inlined by force: a call would put the sums into memory.
template <int kPairs>
[[gnu::always_inline]] inline void add_rounded(float value, const RoundedPairs* weights, Lanes* sums) {
    for (int pair = 0; pair < kPairs; ++pair) {
        sums[2 * pair] += value * weights[pair].low();
        sums[2 * pair + 1] += value * weights[pair].high();
    }
}

class SparseRows {
public:
    static constexpr bool kSparse = true;

    explicit SparseRows(const CsrView& view) : view_(view) {}
    const CsrView& view() const { return view_; }
    std::int64_t n_rows() const { return view_.n_rows; }
    std::int64_t n_features() const { return view_.n_cols; }
    double square(std::int64_t row) const {  // ‖x‖²
        return sum_of_squares(view_.values.data() + view_.indptr[row], size(row));
    }
    std::int64_t size(std::int64_t row) const { return view_.row_size(row); }
    std::int64_t n_stored() const { return view_.indptr[view_.n_rows]; }

    float dot(std::int64_t row, const float* weights) const {
        const std::int64_t begin = view_.indptr[row];
        return sparse_dot(view_.indices.data() + begin, view_.values.data() + begin, view_.row_size(row), weights);
    }

    template <class Real>
    void add_to(std::int64_t row, Real scale, Real* weights) const {
        const std::int64_t begin = view_.indptr[row];
        sparse_add(view_.indices.data() + begin, view_.values.data() + begin, view_.row_size(row), scale, weights);
    }

    void prefetch(std::int64_t row) const {
        prefetch_range(view_.indices.data() + view_.indptr[row], view_.indices.data() + view_.indptr[row + 1]);
        prefetch_range(view_.values.data() + view_.indptr[row], view_.values.data() + view_.indptr[row + 1]);
    }

    void prefetch_place(std::int64_t row) const { __builtin_prefetch(view_.indptr.data() + row); }

    // visit(feature, value) for the stored entries of a row, features increasing.
    template <class Visit>
    void for_each(std::int64_t row, Visit&& visit) const {
        const std::int64_t end = view_.indptr[row + 1];
        for (std::int64_t i = view_.indptr[row]; i < end; ++i) visit(view_.indices[i], view_.values[i]);
    }

    template <class Feature>
    void copy_to(std::int64_t row, Feature* features, float* values) const {
        const std::int64_t begin = view_.indptr[row];
        const std::int64_t size = view_.row_size(row);
        const std::int32_t* indices = view_.indices.data() + begin;
        for (std::int64_t i = 0; i < size; ++i) features[i] = static_cast<Feature>(indices[i]);
        std::copy(view_.values.data() + begin, view_.values.data() + begin + size, values);
    }

    // out[block] += row · weights, for kBlocks * kLanes labels at once; weights[feature * kStride + block].
    template <int kBlocks, int kStride = kBlocks>
    void lane_dots(std::int64_t row, const Lanes* weights, Lanes* out) const {
        const std::int32_t* indices = view_.indices.data();
        const float* values = view_.values.data();
        const std::int64_t end = view_.indptr[row + 1];
        std::int64_t i = view_.indptr[row];
        // So many sums at a time that none waits for the one before it.
        constexpr int kSums = kLaneRegisters * kBlocks == 1 ? 4 : 2;
        Lanes sums[kSums][kBlocks] = {};
        for (int block = 0; block < kBlocks; ++block) sums[0][block] = out[block];
        for (; i + 4 <= end; i += 4) {
            const Lanes* at[4];
            for (int part = 0; part < 4; ++part)
                at[part] = weights + static_cast<std::int64_t>(indices[i + part]) * kStride;
            for (int part = 0; part < 4; ++part)
                for (int block = 0; block < kBlocks; ++block)
                    sums[part % kSums][block] += values[i + part] * at[part][block];
        }
        for (; i < end; ++i)
            for (int block = 0; block < kBlocks; ++block)
                sums[0][block] += values[i] * weights[static_cast<std::int64_t>(indices[i]) * kStride + block];
        for (int block = 0; block < kBlocks; ++block) {
            Lanes total = sums[0][block] + sums[1][block];
            if constexpr (kSums == 4) total += sums[2][block] + sums[3][block];
            out[block] = total;
        }
    }

    // out[2p], out[2p + 1] += row · weights for the 32 labels of each pair of blocks p < kPairs, whose weights are
    // rounded to bfloat16; weights[feature * kStride + p]. With kAhead, for weights that do not fit the second-level
    // cache, those of the entries so many places further are fetched on the way: rows that follow one another in
    // memory are meant to be visited in that order.
    template <int kPairs, int kStride, int kAhead = 0>
    void rounded_dots(std::int64_t row, const RoundedPairs* weights, Lanes* out) const {
        const std::int32_t* indices = view_.indices.data();
        if constexpr (kAhead > 0) {
            const std::int64_t last = n_stored();
            for (std::int64_t at = view_.indptr[row] + kAhead; at < std::min(view_.indptr[row + 1] + kAhead, last);
                 ++at)
                for (int pair = 0; pair < kPairs; ++pair)
                    __builtin_prefetch(weights + static_cast<std::int64_t>(indices[at]) * kStride + pair);
        }
        const float* values = view_.values.data();
        const std::int64_t end = view_.indptr[row + 1];
        std::int64_t i = view_.indptr[row];
        Lanes even[2 * kPairs];
        for (int part = 0; part < 2 * kPairs; ++part) even[part] = out[part];
        // Sums of every other entry hide the latency of additions, where the registers suffice for 64 labels.
        if constexpr (kLaneRegisters == 1) {
            Lanes odd[2 * kPairs] = {};
            for (; i + 2 <= end; i += 2) {
                add_rounded<kPairs>(values[i], weights + static_cast<std::int64_t>(indices[i]) * kStride, even);
                add_rounded<kPairs>(values[i + 1], weights + static_cast<std::int64_t>(indices[i + 1]) * kStride, odd);
            }
            if (i < end)
                add_rounded<kPairs>(values[i], weights + static_cast<std::int64_t>(indices[i]) * kStride, even);
            for (int part = 0; part < 2 * kPairs; ++part) even[part] += odd[part];
        } else {
            for (; i < end; ++i)
                add_rounded<kPairs>(values[i], weights + static_cast<std::int64_t>(indices[i]) * kStride, even);
        }
        for (int part = 0; part < 2 * kPairs; ++part) out[part] = even[part];
    }

    // weights[feature * kStride] += scale * value in every lane; four at a time as in sparse_add, if the registers suffice.
    template <int kStride = 1>
    void lane_add(std::int64_t row, const Lanes& scale, Lanes* weights) const {
        const std::int32_t* indices = view_.indices.data();
        const float* values = view_.values.data();
        const std::int64_t end = view_.indptr[row + 1];
        std::int64_t i = view_.indptr[row];
        if constexpr (kLaneRegisters == 1) {
            for (; i + 4 <= end; i += 4) {
                Lanes* at[4];
                Lanes sums[4];
                for (int part = 0; part < 4; ++part)
                    at[part] = weights + static_cast<std::int64_t>(indices[i + part]) * kStride;
                for (int part = 0; part < 4; ++part) sums[part] = *at[part] + scale * values[i + part];
                for (int part = 0; part < 4; ++part) *at[part] = sums[part];
            }
        }
        for (; i < end; ++i) weights[static_cast<std::int64_t>(indices[i]) * kStride] += scale * values[i];
    }

private:
    CsrView view_;
};

class DenseRows {
public:
    static constexpr bool kSparse = false;

    explicit DenseRows(const DenseView& view) : view_(view) {}
    std::int64_t n_rows() const { return view_.n_rows; }
    std::int64_t n_features() const { return view_.n_cols; }
    std::int64_t size(std::int64_t) const { return view_.n_cols; }
    double square(std::int64_t row) const {
        return sum_of_squares(view_.values.data() + row * view_.n_cols, view_.n_cols);
    }
    std::int64_t n_stored() const { return view_.n_rows * view_.n_cols; }

    float dot(std::int64_t row, const float* weights) const {
        return linear::dot(view_.values.data() + row * view_.n_cols, weights, view_.n_cols);
    }
    template <class Real>
    void add_to(std::int64_t row, Real scale, Real* weights) const {
        const float* values = view_.values.data() + row * view_.n_cols;
        for (std::int64_t i = 0; i < view_.n_cols; ++i) weights[i] += scale * static_cast<Real>(values[i]);
    }
    void prefetch(std::int64_t row) const {
        const float* values = view_.values.data() + row * view_.n_cols;
        prefetch_range(values, values + view_.n_cols);
    }
    void prefetch_place(std::int64_t) const {}
    template <class Visit>
    void for_each(std::int64_t row, Visit&& visit) const {
        const float* values = view_.values.data() + row * view_.n_cols;
        for (std::int64_t i = 0; i < view_.n_cols; ++i) visit(static_cast<std::int32_t>(i), values[i]);
    }
    template <int kBlocks, int kStride = kBlocks>
    void lane_dots(std::int64_t row, const Lanes* weights, Lanes* out) const {
        const float* values = view_.values.data() + row * view_.n_cols;
        Lanes even[kBlocks];
        Lanes odd[kBlocks];
        for (int block = 0; block < kBlocks; ++block) {
            even[block] = out[block];
            odd[block] = Lanes{};
        }
        std::int64_t i = 0;
        for (; i + 2 <= view_.n_cols; i += 2)
            for (int block = 0; block < kBlocks; ++block) {
                even[block] += values[i] * weights[i * kStride + block];
                odd[block] += values[i + 1] * weights[(i + 1) * kStride + block];
            }
        if (i < view_.n_cols)
            for (int block = 0; block < kBlocks; ++block) even[block] += values[i] * weights[i * kStride + block];
        for (int block = 0; block < kBlocks; ++block) out[block] = even[block] + odd[block];
    }
    template <int kPairs, int kStride, int kAhead = 0>
    void rounded_dots(std::int64_t row, const RoundedPairs* weights, Lanes* out) const {
        const float* values = view_.values.data() + row * view_.n_cols;
        Lanes sums[2 * kPairs];
        for (int part = 0; part < 2 * kPairs; ++part) sums[part] = out[part];
        for (std::int64_t i = 0; i < view_.n_cols; ++i) add_rounded<kPairs>(values[i], weights + i * kStride, sums);
        for (int part = 0; part < 2 * kPairs; ++part) out[part] = sums[part];
    }
    void lane_add(std::int64_t row, const Lanes& scale, Lanes* weights) const {
        const float* values = view_.values.data() + row * view_.n_cols;
        for (std::int64_t i = 0; i < view_.n_cols; ++i) weights[i] += scale * values[i];
    }

private:
    DenseView view_;
};

}  // namespace longtail::linear
