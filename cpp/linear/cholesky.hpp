#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace longtail::linear {

// step = -H⁻¹ g by Cholesky's factors, which replace the lower half of H (n × n); false when H is not positive.
inline bool solve_newton_step(std::vector<double>& hessian, const std::vector<double>& gradient,
                              std::vector<double>& step) {
    const std::size_t n = gradient.size();
    step.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
        double* const row = hessian.data() + i * n;
        for (std::size_t j = 0; j < i; ++j) {
            const double* const other = hessian.data() + j * n;
            double sum = row[j];
            for (std::size_t l = 0; l < j; ++l) sum -= row[l] * other[l];
            row[j] = sum / other[j];
        }
        double square = row[i];
        double sum = -gradient[i];
        for (std::size_t l = 0; l < i; ++l) {
            square -= row[l] * row[l];
            sum -= row[l] * step[l];
        }
        if (square <= 0.0) return false;
        row[i] = std::sqrt(square);
        step[i] = sum / row[i];
    }
    for (std::size_t i = n; i-- > 0;) {
        step[i] /= hessian[i * n + i];
        for (std::size_t l = 0; l < i; ++l) step[l] -= hessian[i * n + l] * step[i];
    }
    return true;
}

}  // namespace longtail::linear
