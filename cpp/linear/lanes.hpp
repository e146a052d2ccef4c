#pragma once

// What one-vs-all training and prediction add to base/lanes.hpp: weights rounded to bfloat16, and sums over floats.

#include <bit>
#include <cstdint>

#include "base/lanes.hpp"

namespace longtail::linear {

// One weight of each of 32 labels, rounded to bfloat16: half the cache line traffic of floats. The labels of the low
// half-words come first.
struct RoundedPairs {
    LaneMask bits = {};

    Lanes low() const { return as_floats(bits << 16); }
    Lanes high() const { return as_floats(bits & static_cast<std::int32_t>(0xFFFF0000U)); }

    // Store a weight for label 0 <= at < 32, given as its bits after round_bits.
    void set_bits(int at, std::uint32_t rounded) {
        std::uint16_t* halves = reinterpret_cast<std::uint16_t*>(&bits);
        halves[2 * (at % kLanes) + (at < kLanes ? kLowHalf : 1 - kLowHalf)] = static_cast<std::uint16_t>(rounded >> 16);
    }
    void set(int at, float weight) { set_bits(at, round_bits(std::bit_cast<std::uint32_t>(weight))); }

    // The bits of a float32, rounded to bfloat16: to nearest, ties to even.
    static std::uint32_t round_bits(std::uint32_t word) { return (word + 0x7FFFU + ((word >> 16) & 1U)) & 0xFFFF0000U; }

private:
    static constexpr int kLowHalf = std::endian::native == std::endian::little ? 0 : 1;
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
