#pragma once

// The logistic loss restricted to a sample R of the rows, in the span of those rows.
//
// With weights w_k at which the gradient G of all rows' losses is known, the loss of all rows is modelled as
//     G·w + Σ_{i∈R} a_i (φ(y_i w·x_i) - its linear part at w_k),
// where row i is in R with chance q_i and a_i = c_i / q_i. The gradient of the model at w_k is exact; only its curvature
// is that of the sample. The minimum of ½‖w‖² plus the model has the form w = v + X_Rᵀβ with v = -G + Σ a_i φ'_i x_i, so it
// is found on the Gram matrix of R, as in gram.hpp.
//
// Rows in R with chance one stand for themselves; the others, the drawn rows, stand for all the rest, whose slopes add up
// to a known sum and their gradients to a known vector. So the mean of the rest, weighted by slopes, is known, and drawn
// rows are shifted by the difference δ between it and their own mean: x_i + δ instead of x_i (w·x_i is then short for the
// margin at w_k plus (w - w_k)·(x_i + δ)). Most of the curvature of the rest lies along its mean, which all rows share in
// the bias; without the shift a step leaves ten times as much of the gradient. δ = G / S + Σ ρ_i x_i is never stored: the
// matrix of the shifted rows is K + ehᵀ + heᵀ + ‖δ‖²eeᵀ, with e_i = 1 for drawn rows and h_i = x_i · δ.

#include <cstdint>
#include <vector>

#include "base/aligned.hpp"
#include "linear/gram.hpp"

namespace longtail::linear {

struct LogisticSample {
    std::vector<std::int32_t> row_ids;
    AlignedVector<float> costs;           // a
    AlignedVector<float> targets;         // 1 for positives, else 0
    AlignedVector<float> betas;           // where to begin, then the solution
    AlignedVector<float> margins;         // x_i · v + (Kβ)_i
    AlignedVector<float> drawn;           // e
    AlignedVector<float> shift_products;  // h
    AlignedVector<float> shift_shares;    // ρ
    double gradient_share = 0.0;          // 1 / S, or 0 for no shift
    float shift_square = 0.0F;            // ‖δ‖²
    GramMatrix gram;

    std::int64_t size() const { return static_cast<std::int64_t>(row_ids.size()); }
    void clear();
    void append(std::int32_t row_id, float cost, float target, float beta, bool is_drawn);

    // Shift the drawn rows, and let them stand for all slopes of the rest. Given are the sum of all rows' slopes, G·G, G·w_k,
    // and w_k·x_i of the sample; the betas must be -aφ' and the margins -x_i·G.
    void match_mean(double slope_sum, double gradient_square, double gradient_product,
                    const std::vector<float>& earlier_margins);
};

class SampledLogistic {
public:
    // Minimise until the gradient norm is at most `tolerance`; returns the number of CG steps.
    int solve(LogisticSample& sample, double tolerance);

private:
    // A vector X_Rᵀν: its coefficients ν and its margins Kν.
    struct Combination {
        AlignedVector<float> coefficients;
        AlignedVector<float> margins;
        void assign(std::int64_t width);
    };

    double set_gradient(const LogisticSample& sample);
    void multiply(const LogisticSample& sample, Combination& combination) const;
    int set_step(const LogisticSample& sample, double square, double tolerance);
    bool take_step(LogisticSample& sample);
    double objective_change(const LogisticSample& sample, float share) const;

    std::vector<std::int32_t> all_;  // 0, 1, ...
    AlignedVector<float> curvatures_;
    Combination gradient_;
    Combination residual_;
    Combination direction_;
    Combination step_;
};

}  // namespace longtail::linear
