#pragma once

// The best bias for given other weights. A solver that moves one row after another leaves behind what all rows have in
// common: parts of the gradient that are small for each row but add up in the bias. The minimum over the bias alone takes
// that away, and costs no walk over rows.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "linear/double_lanes.hpp"
#include "linear/gram.hpp"
#include "linear/problem.hpp"

namespace longtail::linear {

// By how much all margins move when the bias is changed to the one where the objective is least. `bias_weight` is the
// weight before. add_rows(shift, slope, curvature) adds the slope and curvature along the bias of all rows that count,
// when their margins are moved by `shift`.
template <class AddRows>
double best_bias_shift_of(const OvaConfig& config, double bias_weight, const AddRows& add_rows) {
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
        add_rows(shift, slope, curvature);
        if (curvature == 0.0) break;
        (slope > 0.0 ? high : low) = shift;
        double next = shift - slope / curvature;
        // Test this before the bounds: a step of zero ends on a bound, and the other bound may still be infinite.
        const bool is_found = std::abs(next - shift) < kLeastStep;
        if (!is_found && (next <= low || next >= high)) next = 0.5 * (low + high);
        shift = next;
        if (is_found) break;
    }
    return std::isfinite(shift) ? shift : 0.0;
}

// for_each_row(add) calls add(sign, cost, margin) for each row that counts.
template <class ForEachRow>
double best_bias_shift(const OvaConfig& config, double bias_weight, const ForEachRow& for_each_row) {
    return best_bias_shift_of(config, bias_weight, [&](double shift, double& slope, double& curvature) {
        for_each_row([&](double sign, double cost, double margin) {
            const double gap = 1.0 - sign * (margin + shift);
            slope -= gap > 0.0 ? 2.0 * cost * sign * gap : 0.0;
            curvature += gap > 0.0 ? 2.0 * cost : 0.0;
        });
    });
}

// The same over all rows of a set, several at a time.
inline double best_bias_shift(const OvaConfig& config, double bias_weight, const Subproblem& problem) {
    return best_bias_shift_of(config, bias_weight, [&](double shift, double& slope, double& curvature) {
        DoubleLanes slopes{};
        DoubleLanes costs{};
        std::int64_t i = 0;
        for (; i + kDoubleLanes <= problem.size(); i += kDoubleLanes) {
            const DoubleLanes sign = load_doubles(problem.signs.data() + i);
            const DoubleLanes gap = 1.0 - sign * (load_doubles(problem.margins.data() + i) + shift);
            const DoubleLanes cost = gap > DoubleLanes{} ? load_doubles(problem.costs.data() + i) : DoubleLanes{};
            slopes += cost * sign * gap;
            costs += cost;
        }
        slope -= 2.0 * sum(slopes);
        curvature += 2.0 * sum(costs);
        for (; i < problem.size(); ++i) {
            const double gap = 1.0 - static_cast<double>(problem.signs[i]) * (problem.margins[i] + shift);
            if (gap <= 0.0) continue;
            slope -= 2.0 * problem.costs[i] * problem.signs[i] * gap;
            curvature += 2.0 * problem.costs[i];
        }
    });
}

}  // namespace longtail::linear
