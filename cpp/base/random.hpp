#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace longtail {

// xoshiro256**, seeded by splitmix64 from (seed, stream): every task owns a stream, so that results do not depend on
// which thread runs it. Our own because the standard distributions differ between libraries.
class Random {
public:
    Random(std::uint64_t seed, std::uint64_t stream) {
        std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + stream;
        for (auto& word : state_) word = split_mix(state);
    }

    std::uint64_t next() {
        const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
        const std::uint64_t shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = rotate(state_[3], 45);
        return result;
    }

    // Uniform in [0, bound), without modulo bias to within 2^-32 for the bounds we use.
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32); }
    // Uniform in [0, 1).
    double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
    bool coin() { return (next() >> 63) != 0; }
    // Standard normal (Box-Muller, one of the pair).
    double normal() {
        const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
        return radius * std::cos(2.0 * std::numbers::pi * uniform());
    }

private:
    static std::uint64_t rotate(std::uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }
    static std::uint64_t split_mix(std::uint64_t& state) {
        std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31);
    }
    std::uint64_t state_[4];
};

}  // namespace longtail
