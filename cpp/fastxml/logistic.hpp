#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace longtail::fastxml {

// Branchless exp and log(1 + exp) in float, so that loops over rows vectorise without -ffast-math. Relative error of
// both is below 4e-7, which is float rounding; inputs outside +-87 are clamped (exp stays finite and positive).

inline float fast_exp(float x) {
    constexpr float kLog2E = 1.44269504F;
    constexpr float kLn2High = 0.693359375F;
    constexpr float kLn2Low = -2.12194440e-4F;
    constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
    x = x < -87.0F ? -87.0F : x;
    x = x > 87.0F ? 87.0F : x;
    const float shifted = x * kLog2E + kRounder;
    const float n = shifted - kRounder;
    const float r = (x - n * kLn2High) - n * kLn2Low;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1.0F;
    const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) << 23;
    return std::bit_cast<float>(std::bit_cast<std::int32_t>(p) + exponent);
}

// log(1 + e) for e in [0, 1], by the series of 2 atanh(e / (2 + e)).
inline float log1p_unit(float e) {
    const float s = e / (2.0F + e);
    const float t = s * s;
    float p = 1.0F / 13.0F;
    p = p * t + 1.0F / 11.0F;
    p = p * t + 1.0F / 9.0F;
    p = p * t + 1.0F / 7.0F;
    p = p * t + 1.0F / 5.0F;
    p = p * t + 1.0F / 3.0F;
    p = p * t + 1.0F;
    return 2.0F * s * p;
}

// log(1 + exp(-margin)), the logistic loss.
inline float logistic_loss(float margin) {
    const float hinge = margin < 0.0F ? -margin : 0.0F;
    return hinge + log1p_unit(fast_exp(-std::fabs(margin)));
}

}  // namespace longtail::fastxml
