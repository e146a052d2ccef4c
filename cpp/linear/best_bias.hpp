#pragma once

// The best bias for given other weights. A solver that moves one row after another leaves behind what all rows have in
// common: parts of the gradient that are small for each row but add up in the bias. The minimum over the bias alone takes
// that away, and costs no walk over rows.

#include <algorithm>
#include <cmath>

#include "linear/problem.hpp"

namespace longtail::linear {

// By how much all margins move when the bias is changed to the one where the objective is least. `bias_weight` is the
// weight before. for_each_row(add) calls add(sign, cost, margin) for each row that counts.
template <class ForEachRow>
double best_bias_shift(const OvaConfig& config, double bias_weight, const ForEachRow& for_each_row) {
    constexpr int kMaxSteps = 30;
    constexpr double kLeastStep = 1e-7;
    if (config.bias == 0.0F) return 0.0;
    const double bias = config.bias;
    double shift = 0.0;
    double low = -HUGE_VAL;  // the best one lies between
    double high = HUGE_VAL;
    for (int step = 0; step < kMaxSteps; ++step) {
        double slope = config.regularize_bias ? (bias_weight + shift / bias) / bias : 0.0;
        double curvature = config.regularize_bias ? 1.0 / (bias * bias) : 0.0;
        for_each_row([&](double sign, double cost, double margin) {
            const double gap = 1.0 - sign * (margin + shift);
            slope -= gap > 0.0 ? 2.0 * cost * sign * gap : 0.0;
            curvature += gap > 0.0 ? 2.0 * cost : 0.0;
        });
        if (curvature == 0.0) break;
        (slope > 0.0 ? high : low) = shift;
        double next = shift - slope / curvature;
        if (next <= low || next >= high) next = 0.5 * (low + high);
        const bool is_found = std::abs(next - shift) < kLeastStep;
        shift = next;
        if (is_found) break;
    }
    return std::isfinite(shift) ? shift : 0.0;
}

}  // namespace longtail::linear
