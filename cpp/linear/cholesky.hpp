#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace longtail::linear {

// Sum of a[i]*b[i], as eight sums: one would wait for each addition.
inline double inner_product(const double* a, const double* b, std::size_t n) {
    double sums[8] = {};
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (std::size_t part = 0; part < 8; ++part) sums[part] += a[i + part] * b[i + part];
    for (; i < n; ++i) sums[0] += a[i] * b[i];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// step = -H⁻¹ g by Cholesky's factors, which replace the lower half of H (n × n); false when H is not positive.
inline bool solve_newton_step(std::vector<double>& hessian, const std::vector<double>& gradient,
                              std::vector<double>& step) {
    const std::size_t n = gradient.size();
    step.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
        double* const row = hessian.data() + i * n;
        for (std::size_t j = 0; j < i; ++j) {
            const double* const other = hessian.data() + j * n;
            row[j] = (row[j] - inner_product(row, other, j)) / other[j];
        }
        const double square = row[i] - inner_product(row, row, i);
        if (square <= 0.0) return false;
        row[i] = std::sqrt(square);
        step[i] = (-gradient[i] - inner_product(row, step.data(), i)) / row[i];
    }
    for (std::size_t i = n; i-- > 0;) {
        step[i] /= hessian[i * n + i];
        for (std::size_t l = 0; l < i; ++l) step[l] -= hessian[i * n + l] * step[i];
    }
    return true;
}

}  // namespace longtail::linear
