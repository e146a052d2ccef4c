#pragma once

// The label's problem restricted to a working set W of rows, in the span of those rows: w = Σ_{i∈W} β_i x_i.
// Every vector of the Newton method is then a combination X_Wᵀν with margins Kν, K the Gram matrix of W, and inner
// products are νᵀKν'. The method is the one of row_newton.hpp, step for step, but a Hessian product over the active
// rows A = {y_i m_i < 1} costs |A|·|W| multiplications in full vectors, on a matrix that stays in the cache: tens of
// times less than a walk over the same rows of X.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/aligned.hpp"
#include "linear/lanes.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

// Symmetric, both halves stored; rows are padded with zeros to whole lanes.
class GramMatrix {
public:
    std::int64_t size() const { return size_; }
    const float* row(std::int64_t i) const { return values_.data() + i * stride_; }
    void clear() { size_ = 0; }
    std::size_t size_bytes() const { return values_.capacity() * sizeof(float); }

    // Append the rows row_ids[size()...] of X; `scatter` is n_features × kBlocks zeroed lanes and is zero again
    // afterwards.
    template <class Rows>
    void extend(const Rows& rows, const std::vector<std::int32_t>& row_ids, float bias, Lanes* scatter) {
        const std::int64_t first_new = size_;
        reserve(static_cast<std::int64_t>(row_ids.size()));
        size_ = static_cast<std::int64_t>(row_ids.size());
        for (std::int64_t begin = first_new; begin < size_; begin += kBlocks * kLanes) {
            const std::int64_t end = std::min(begin + kBlocks * kLanes, size_);
            for (std::int64_t i = begin; i < end; ++i)
                rows.for_each(row_ids[i], [&](std::int32_t feature, float value) {
                    scatter[static_cast<std::int64_t>(feature) * kBlocks + (i - begin) / kLanes][(i - begin) % kLanes] =
                        value;
                });
            products_.assign(end * kBlocks, Lanes{} + bias * bias);
            walk_rows(rows, row_ids.data(), end, [&](std::int64_t i) {
                if (end - begin > kLanes)
                    rows.template lane_dots<kBlocks>(row_ids[i], scatter, &products_[i * kBlocks]);
                else
                    rows.template lane_dots<1, kBlocks>(row_ids[i], scatter, &products_[i * kBlocks]);
            });
            for (std::int64_t i = begin; i < end; ++i)
                rows.for_each(row_ids[i], [&](std::int32_t feature, float) {
                    scatter[static_cast<std::int64_t>(feature) * kBlocks + (i - begin) / kLanes] = Lanes{};
                });
            store(begin, end);
        }
        for (std::int64_t i = 0; i < size_; ++i)
            std::fill(values_.data() + i * stride_ + size_, values_.data() + i * stride_ + padded(size_), 0.0F);
    }
    // Keep only the rows at these places, which increase.
    void keep(const std::vector<std::int32_t>& places) { take(*this, places); }
    // Become the part of another matrix at these places, with room for `n_rows`.
    void copy(const GramMatrix& other, const std::vector<std::int32_t>& places, std::int64_t n_rows) {
        clear();
        reserve(n_rows);
        take(other, places);
    }

    // New rows are multiplied in so many blocks of lanes at once. One where a block takes several registers: the
    // scattered rows then stay in the smaller second-level caches of such machines (6 % of a fit to EURLex-4K).
    static constexpr int kBlocks = kLaneRegisters == 1 ? 2 : 1;

    // out[i] = row i · v for the listed rows; v has size() entries, padded with zeros to whole lanes.
    void multiply(const std::vector<std::int32_t>& which, const float* v, float* out) const {
        const std::int64_t width = padded(size_);
        std::size_t n = 0;
        for (; n + 4 <= which.size(); n += 4) {
            const float* at[4] = {row(which[n]), row(which[n + 1]), row(which[n + 2]), row(which[n + 3])};
            Lanes sums[4] = {};
            for (std::int64_t j = 0; j < width; j += kLanes) {
                Lanes factor;
                load(factor, v + j);
                for (int part = 0; part < 4; ++part) {
                    Lanes entries;
                    load(entries, at[part] + j);
                    sums[part] += entries * factor;
                }
            }
            // Written out: a loop over whole sums would keep them in memory.
            out[which[n]] = sum(sums[0]);
            out[which[n + 1]] = sum(sums[1]);
            out[which[n + 2]] = sum(sums[2]);
            out[which[n + 3]] = sum(sums[3]);
        }
        for (; n < which.size(); ++n) out[which[n]] = dot(row(which[n]), v, width);
    }

    static std::int64_t padded(std::int64_t size) { return (size + kLanes - 1) / kLanes * kLanes; }

private:
    void take(const GramMatrix& other, const std::vector<std::int32_t>& places) {
        size_ = static_cast<std::int64_t>(places.size());
        for (std::int64_t i = 0; i < size_; ++i) {
            float* const out = values_.data() + i * stride_;
            const float* const from = other.row(places[i]);
            for (std::int64_t j = 0; j < size_; ++j) out[j] = from[places[j]];
        }
    }

    // Room for `size` rows; what was there stays, the rest is left as it is. Memory that is never written costs nothing:
    // asking for half as much again makes it rare that a matrix moves.
    void reserve(std::int64_t size) {
        if (size_ > 0 && size <= stride_) return;
        const std::int64_t stride = padded(size + size / 2);
        const auto n_values = static_cast<std::size_t>(stride * stride);
        if (n_values > values_.size()) {
            RawVector<float> values(n_values);
            for (std::int64_t i = 0; i < size_; ++i) std::copy(row(i), row(i) + size_, values.data() + i * stride);
            values_ = std::move(values);
        } else {
            for (std::int64_t i = size_ - 1; i > 0; --i)
                std::copy_backward(row(i), row(i) + size_, values_.data() + i * stride + size_);
        }
        stride_ = stride;
    }

    void store(std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t kWidth = kBlocks * kLanes;
        const float* columns = reinterpret_cast<const float*>(products_.data());
        for (std::int64_t i = 0; i < end; ++i)
            std::copy(columns + i * kWidth, columns + i * kWidth + (end - begin), values_.data() + i * stride_ + begin);
        for (std::int64_t first = 0; first < begin; first += kLanes)  // tiles of 16 rows stay in the first-level cache
            for (std::int64_t lane = 0; lane < end - begin; ++lane)
                for (std::int64_t i = first; i < std::min(first + kLanes, begin); ++i)
                    values_[(begin + lane) * stride_ + i] = columns[i * kWidth + lane];
    }

    std::int64_t size_ = 0;
    std::int64_t stride_ = 0;
    RawVector<float> values_;
    AlignedVector<Lanes> products_;
};

// The restricted problem of one label. Vectors have one entry per row of the working set.
struct Subproblem {
    std::vector<std::int32_t> row_ids;
    AlignedVector<float> signs;  // y: +1 or -1
    AlignedVector<float> costs;  // c
    AlignedVector<float> betas;
    AlignedVector<float> margins;  // w · x (not multiplied by y)
    GramMatrix gram;

    std::int64_t size() const { return static_cast<std::int64_t>(row_ids.size()); }
    void clear();
    void append(std::int32_t row_id, float sign, float cost, float margin);
    // Take out the rows i for which is_out(*this, i); only without a Gram matrix.
    template <class IsOut>
    void erase_if(const IsOut& is_out) {
        std::size_t n_kept = 0;
        for (std::size_t i = 0; i < row_ids.size(); ++i) {
            if (is_out(*this, static_cast<std::int64_t>(i))) continue;
            row_ids[n_kept] = row_ids[i];
            for (auto* values : {&signs, &costs, &betas, &margins}) (*values)[n_kept] = (*values)[i];
            ++n_kept;
        }
        row_ids.resize(n_kept);
        for (auto* values : {&signs, &costs, &betas, &margins}) values->resize(n_kept);
    }
};

struct InnerResult {
    int newton_steps = 0;
    int cg_steps = 0;
    double gradient_norm = 0.0;  // of the restricted problem, at the end
    bool is_stuck = false;       // rounding keeps it from a smaller norm
};

// Minimise the restricted problem in the span of its rows until its gradient norm is at most `tolerance`, or `share`
// of what it was at the beginning. With
// `from_margins` the first active set is that of problem.margins, which need not belong to the betas (all zero then):
// the full Newton step from any starting point.
class GramSolver {
public:
    InnerResult solve(Subproblem& problem, double tolerance, double share, bool from_margins);

private:
    void find_active(const Subproblem& problem);
    double set_gradient(const Subproblem& problem);
    int set_step(const Subproblem& problem, double square, double tolerance);
    bool take_step(Subproblem& problem);

    // A vector X_Wᵀν: its coefficients ν and its margins Kν.
    struct Combination {
        AlignedVector<float> coefficients;
        AlignedVector<float> margins;
        void assign(std::int64_t width);
    };
    std::vector<std::int32_t> active_;
    std::vector<std::int32_t> touched_;    // rows whose coefficients may differ from zero: active, or with a beta
    std::vector<std::int32_t> untouched_;  // the others
    Combination residual_;                 // -∇L at first
    Combination direction_;
    Combination product_;           // H · direction
    AlignedVector<float> loading_;  // 2c · margins of the direction on active rows, else 0
    Combination step_;
};

}  // namespace longtail::linear
