#pragma once

// The logistic loss restricted to a sample R of the rows, in the span of those rows.
//
// With weights w_k at which the gradient G of all rows' losses is known, the loss of all rows is modelled as
//     G·w + Σ_{i∈R} a_i (φ(y_i w·x_i) - its linear part at w_k),
// where row i is in R with chance q_i and a_i = c_i / q_i. The gradient of the model at w_k is exact; only its curvature
// is that of the sample. The minimum of ½‖w‖² plus the model has the form w = v + X_Rᵀβ with v = -G + Σ a_i φ'_i x_i, so it
// is found on the Gram matrix of R, as in gram.hpp.

#include <cstdint>
#include <vector>

#include "base/aligned.hpp"
#include "linear/gram.hpp"

namespace longtail::linear {

struct LogisticSample {
    std::vector<std::int32_t> row_ids;
    AlignedVector<float> costs;    // a
    AlignedVector<float> targets;  // 1 for positives, else 0
    AlignedVector<float> betas;    // where to begin, then the solution
    AlignedVector<float> margins;  // x_i · v + (Kβ)_i
    GramMatrix gram;

    std::int64_t size() const { return static_cast<std::int64_t>(row_ids.size()); }
    void clear();
    void append(std::int32_t row_id, float cost, float target, float beta);
};

class SampledLogistic {
public:
    // Minimise until the gradient norm is at most `tolerance`; returns the number of CG steps.
    int solve(LogisticSample& sample, double tolerance);

private:
    double set_gradient(const LogisticSample& sample);
    int set_step(const GramMatrix& gram, double square, double tolerance);
    bool take_step(LogisticSample& sample);
    double objective_change(const LogisticSample& sample, float share) const;

    // A vector X_Rᵀν: its coefficients ν and its margins Kν.
    struct Combination {
        AlignedVector<float> coefficients;
        AlignedVector<float> margins;
        void assign(std::int64_t width);
    };
    std::vector<std::int32_t> all_;  // 0, 1, ...
    AlignedVector<float> curvatures_;
    Combination gradient_;
    Combination residual_;
    Combination direction_;
    Combination step_;
};

}  // namespace longtail::linear
