#pragma once

#include <cstdint>

namespace longtail::linear {

// Σ values² in float64, as eight sums: one would wait for each addition.
template <class Real>
double sum_of_squares(const Real* values, std::int64_t n) {
    double sums[8] = {};
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int part = 0; part < 8; ++part)
            sums[part] += static_cast<double>(values[i + part]) * static_cast<double>(values[i + part]);
    for (; i < n; ++i) sums[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace longtail::linear
