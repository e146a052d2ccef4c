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
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace longtail::linear {

constexpr int kLanes = 16;
#if defined(__AVX512F__)
constexpr int kLaneRegisters = 1;
#elif defined(__AVX__)
constexpr int kLaneRegisters = 2;
#else
constexpr int kLaneRegisters = 4;
#endif
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

// One weight of each of 32 labels, rounded to bfloat16: half the cache line traffic of floats. The labels of the low
// half-words come first.
struct RoundedPairs {
    LaneMask bits = {};

    Lanes low() const { return as_floats(bits << 16); }
    Lanes high() const { return as_floats(bits & static_cast<std::int32_t>(0xFFFF0000U)); }

    // Store a weight for label 0 <= at < 32; returns the weight as it is stored.
    float set(int at, float weight) {
        std::uint32_t word;
        std::memcpy(&word, &weight, sizeof(word));
        const std::uint32_t rounded = (word + 0x7FFFU + ((word >> 16) & 1U)) >> 16;  // to nearest, ties to even
        std::uint16_t* halves = reinterpret_cast<std::uint16_t*>(&bits);
        halves[2 * (at % kLanes) + (at < kLanes ? kLowHalf : 1 - kLowHalf)] = static_cast<std::uint16_t>(rounded);
        const std::uint32_t stored = rounded << 16;
        float value;
        std::memcpy(&value, &stored, sizeof(value));
        return value;
    }

private:
    static constexpr int kLowHalf = std::endian::native == std::endian::little ? 0 : 1;
    static Lanes as_floats(const LaneMask& words) { return reinterpret_cast<Lanes>(words); }
};

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
