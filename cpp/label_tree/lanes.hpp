#pragma once

// Sixteen float32 lanes, one per sibling: one cache line, one AVX-512 register. Node weights are stored feature-major
// in lanes, so that one walk over a row serves all siblings of a group.

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

// Lanes never cross a module's border, so it does not matter which registers would carry them there.
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace longtail::label_tree {

constexpr int kLanes = 16;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using LaneMask = std::int32_t __attribute__((vector_size(kLanes * sizeof(std::int32_t))));

inline Lanes select(const LaneMask& mask, const Lanes& yes, const Lanes& no) { return mask ? yes : no; }
inline Lanes max_lanes(const Lanes& a, const Lanes& b) { return select(a > b, a, b); }
inline Lanes min_lanes(const Lanes& a, const Lanes& b) { return select(a < b, a, b); }
inline Lanes abs_lanes(const Lanes& a) { return select(a < 0.0F, -a, a); }

// Lane i is yes where bit i is set.
inline Lanes choose(std::uint32_t bits, const Lanes& yes, const Lanes& no) {
#if defined(__AVX512F__)
    return reinterpret_cast<Lanes>(_mm512_mask_blend_ps(static_cast<__mmask16>(bits), reinterpret_cast<__m512>(no),
                                                        reinterpret_cast<__m512>(yes)));
#else
    const LaneMask powers = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
    const LaneMask wanted = (static_cast<std::int32_t>(bits) & powers) != 0;
    return select(wanted, yes, no);
#endif
}

inline float largest(const Lanes& lanes) {
    float parts[kLanes];
    std::memcpy(parts, &lanes, sizeof(parts));
    for (int width = kLanes / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; ++lane)
            parts[lane] = parts[lane] > parts[lane + width] ? parts[lane] : parts[lane + width];
    return parts[0];
}

// exp(-x) for x >= 0, relative error below 1e-6: a power of two times a polynomial on [-½ log 2, ½ log 2].
inline Lanes exp_minus(const Lanes& x) {
    const Lanes clipped = min_lanes(x, Lanes{} + 87.0F);
    const LaneMask power = __builtin_convertvector(clipped * -1.44269504F - 0.5F, LaneMask);  // truncation rounds
    const Lanes whole = __builtin_convertvector(power, Lanes);
    const Lanes rest = (-clipped - whole * 0.693359375F) + whole * 2.12194440e-4F;
    Lanes value = rest * (1.0F / 5040.0F) + 1.0F / 720.0F;
    value = value * rest + 1.0F / 120.0F;
    value = value * rest + 1.0F / 24.0F;
    value = value * rest + 1.0F / 6.0F;
    value = value * rest + 0.5F;
    value = value * rest + 1.0F;
    value = value * rest + 1.0F;
    const LaneMask bits = (power + 127) << 23;
    return value * reinterpret_cast<Lanes>(bits);
}

// 1 / (1 + exp(-x)).
inline Lanes logistic(const Lanes& x) {
    const Lanes small = exp_minus(abs_lanes(x));
    return select(x > 0.0F, Lanes{} + 1.0F, small) / (1.0F + small);
}

// True if some lane of a exceeds the bound.
inline bool any_above(const Lanes& a, float bound) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask(reinterpret_cast<__m512>(a), _mm512_set1_ps(bound), _CMP_GT_OQ) != 0;
#else
    return largest(a) > bound;
#endif
}

}  // namespace longtail::label_tree
