#pragma once

#include <cstdint>

#include "linear/lanes.hpp"

namespace longtail::linear {

// Σ term(i) for i < n, in eight sums: one alone would wait for each addition.
template <class Term>
double sum_of(std::int64_t n, const Term& term) {
    double sums[8] = {};
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int part = 0; part < 8; ++part) sums[part] += term(i + part);
    for (; i < n; ++i) sums[0] += term(i);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Σ values² in float64.
template <class Real>
double sum_of_squares(const Real* values, std::int64_t n) {
    return sum_of(n, [&](std::int64_t i) { return static_cast<double>(values[i]) * static_cast<double>(values[i]); });
}

// ‖a - b‖²
inline double square_distance(const float* a, const float* b, std::int64_t n) {
    Lanes sums{};
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        Lanes left;
        Lanes right;
        load(left, a + i);
        load(right, b + i);
        sums += (left - right) * (left - right);
    }
    double total = sum(sums);
    for (; i < n; ++i) total += static_cast<double>(a[i] - b[i]) * static_cast<double>(a[i] - b[i]);
    return total;
}

}  // namespace longtail::linear
