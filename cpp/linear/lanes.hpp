#pragma once

// Sixteen float32 lanes, one per label: one cache line, one AVX-512 register (or two AVX2, or four SSE ones; the
// compiler splits the type). Weights are stored feature-major in lanes, so that one walk over a row of X serves
// every label of a batch.

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

// Lanes never cross a module's border, so that it does not matter which registers would carry them there.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace longtail::linear {

constexpr int kLanes = 16;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using LaneMask = std::int32_t __attribute__((vector_size(kLanes * sizeof(std::int32_t))));

inline void load(Lanes& lanes, const float* source) { std::memcpy(&lanes, source, sizeof(Lanes)); }

// In which lanes a > b, as bits.
inline std::uint32_t bits_greater(const Lanes& a, const Lanes& b) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), _CMP_GT_OQ);
#else
    const LaneMask mask = a > b;
    std::uint32_t bits = 0;
    for (int lane = 0; lane < kLanes; ++lane) bits |= (static_cast<std::uint32_t>(mask[lane]) & 1U) << lane;
    return bits;
#endif
}

inline float sum(const Lanes& lanes) {
    float parts[kLanes];
    std::memcpy(parts, &lanes, sizeof(parts));
    for (int width = kLanes / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; ++lane) parts[lane] += parts[lane + width];
    return parts[0];
}

// Sum of a[i]*b[i] over contiguous floats; four independent sums of sixteen lanes keep the adders busy and the
// rounding error small.
inline float dot(const float* a, const float* b, std::int64_t n) {
    Lanes sums[4] = {};
    Lanes left;
    Lanes right;
    std::int64_t i = 0;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
        for (int part = 0; part < 4; ++part) {
            load(left, a + i + part * kLanes);
            load(right, b + i + part * kLanes);
            sums[part] += left * right;
        }
    }
    for (; i + kLanes <= n; i += kLanes) {
        load(left, a + i);
        load(right, b + i);
        sums[0] += left * right;
    }
    float total = sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < n; ++i) total += a[i] * b[i];
    return total;
}

// y += scale * x over contiguous floats.
inline void add_scaled(float* y, const float* x, float scale, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

}  // namespace longtail::linear
