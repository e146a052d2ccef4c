#pragma once

// The label that no row carries (OvAP's problem, eq. 15), solved in float64: what a label looks like to rows that share
// no word with its positives. With gap q_i = δ + v·x_i, minimise ½‖v‖² + ½((δ - 1)/bias)² + C Σ max(0, q_i)².
// Over a million rows δ and v are of the order 1e-6: too small to show in float32 weights with a bias weight near -1,
// but their sum over all rows holds the bias where it is.

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "linear/problem.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

struct Background {
    std::vector<double> weights;  // v; empty: not solved yet
    double shift = 0.0;           // δ
    double pull = 0.0;            // 2C Σ max(0, q_i)
    double residual_norm = 0.0;   // ‖∇‖ that is left
    double largest = 0.0;         // max |v|
    double square = 0.0;          // ‖v‖²
    double loss = 0.0;            // C Σ max(0, q_i)²

    Background() = default;
    explicit Background(std::span<const double> flat);
    std::vector<double> flattened() &&;  // v, then the six numbers

    double gap(const SparseRows& rows, std::int64_t row) const {
        double sum = shift;
        rows.for_each(row, [&](std::int32_t feature, float value) { sum += weights[feature] * value; });
        return sum;
    }
};

// Solve as exactly as labels need it: to a tenth of the gradient norm at which a label with one positive is finished.
Background solve_background(const SparseRows& rows, const OvaMoments& moments, const OvaConfig& config,
                            Control& control);

}  // namespace longtail::linear
