#pragma once

// Sixteen float32 lanes: one cache line; one AVX-512 register, two AVX2 registers or four SSE ones. Weights of sixteen
// labels are stored side by side, so that one walk over a row of X serves all of them.
//
// The compiler must see the registers: GCC keeps a vector type that is wider than a register on the stack, which made
// the inner loops ten times slower.

#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace longtail {

constexpr int kLanes = 16;
#if defined(__AVX512F__)
constexpr int kLaneRegisters = 1;
#elif defined(__AVX__)
constexpr int kLaneRegisters = 2;
#else
constexpr int kLaneRegisters = 4;
#endif
constexpr int kRegisterLanes = kLanes / kLaneRegisters;

using Register = float __attribute__((vector_size(kRegisterLanes * sizeof(float))));
using IntRegister = std::int32_t __attribute__((vector_size(kRegisterLanes * sizeof(std::int32_t))));

inline void load(Register& lanes, const float* source) {
    using Unaligned = float __attribute__((vector_size(sizeof(Register)), aligned(alignof(float))));
    lanes = *reinterpret_cast<const Unaligned*>(source);
}
inline void store(const Register& lanes, float* target) {
    using Unaligned = float __attribute__((vector_size(sizeof(Register)), aligned(alignof(float))));
    *reinterpret_cast<Unaligned*>(target) = lanes;
}
inline Register select(const IntRegister& mask, const Register& yes, const Register& no) { return mask ? yes : no; }
inline Register as_floats(const IntRegister& words) { return reinterpret_cast<Register>(words); }
inline Register to_floats(const IntRegister& whole) { return __builtin_convertvector(whole, Register); }
inline IntRegister truncate(const Register& lanes) { return __builtin_convertvector(lanes, IntRegister); }

// In which lanes a > b, as bits.
inline std::uint32_t bits_greater(const Register& a, const Register& b) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), _CMP_GT_OQ);
#elif defined(__AVX__)
    return static_cast<std::uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(a > b)));
#elif defined(__x86_64__)
    return static_cast<std::uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(a > b)));
#else
    const IntRegister mask = a > b;
    std::uint32_t bits = 0;
    for (int lane = 0; lane < kRegisterLanes; ++lane) bits |= (static_cast<std::uint32_t>(mask[lane]) & 1U) << lane;
    return bits;
#endif
}

// Lane i is yes where bit i is set.
inline Register choose(std::uint32_t bits, const Register& yes, const Register& no) {
#if defined(__AVX512F__)
    return reinterpret_cast<Register>(_mm512_mask_blend_ps(static_cast<__mmask16>(bits), reinterpret_cast<__m512>(no),
                                                           reinterpret_cast<__m512>(yes)));
#else
    IntRegister powers;
    for (int lane = 0; lane < kRegisterLanes; ++lane) powers[lane] = 1 << lane;
    return select(((IntRegister{} + static_cast<std::int32_t>(bits)) & powers) == powers, yes, no);
#endif
}

inline float sum(const Register& lanes) {
    float parts[kRegisterLanes];
    store(lanes, parts);
    for (int width = kRegisterLanes / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; ++lane) parts[lane] += parts[lane + width];
    return parts[0];
}
inline float largest(const Register& lanes) {
    float parts[kRegisterLanes];
    store(lanes, parts);
    for (int width = kRegisterLanes / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; ++lane)
            parts[lane] = parts[lane] > parts[lane + width] ? parts[lane] : parts[lane + width];
    return parts[0];
}

// Two halves that are worked on together. It has the operators of a vector type.
template <class Half>
struct HalvedLanes {
    using Scalar = std::remove_cvref_t<decltype(std::declval<Half&>()[0])>;
    static constexpr int kHalf = static_cast<int>(sizeof(Half) / sizeof(Scalar));

    Half low;
    Half high;

    HalvedLanes() = default;
    HalvedLanes(const Half& low_half, const Half& high_half) : low(low_half), high(high_half) {}
    HalvedLanes(Scalar value) : low(value - Half{}), high(low) {}  // NOLINT(google-explicit-constructor)

    // A reference keeps the lanes in memory: not for variables of inner loops.
    Scalar& operator[](std::int64_t lane) { return reinterpret_cast<Scalar*>(this)[lane]; }
    Scalar operator[](std::int64_t lane) const {
        const Half halves[2] = {low, high};
        return reinterpret_cast<const Scalar*>(halves)[lane];
    }

    friend HalvedLanes operator-(const HalvedLanes& a) { return {-a.low, -a.high}; }
    friend HalvedLanes operator+(const HalvedLanes& a, const HalvedLanes& b) {
        return {a.low + b.low, a.high + b.high};
    }
    friend HalvedLanes operator-(const HalvedLanes& a, const HalvedLanes& b) {
        return {a.low - b.low, a.high - b.high};
    }
    friend HalvedLanes operator*(const HalvedLanes& a, const HalvedLanes& b) {
        return {a.low * b.low, a.high * b.high};
    }
    friend HalvedLanes operator/(const HalvedLanes& a, const HalvedLanes& b) {
        return {a.low / b.low, a.high / b.high};
    }
    friend HalvedLanes operator&(const HalvedLanes& a, const HalvedLanes& b) {
        return {a.low & b.low, a.high & b.high};
    }
    friend HalvedLanes operator<<(const HalvedLanes& a, int bits) { return {a.low << bits, a.high << bits}; }
    friend auto operator>(const HalvedLanes& a, const HalvedLanes& b) {
        return HalvedLanes<decltype(a.low > b.low)>{a.low > b.low, a.high > b.high};
    }
    friend auto operator<(const HalvedLanes& a, const HalvedLanes& b) { return b > a; }
    friend auto operator>=(const HalvedLanes& a, const HalvedLanes& b) {
        return HalvedLanes<decltype(a.low >= b.low)>{a.low >= b.low, a.high >= b.high};
    }
    friend auto operator<=(const HalvedLanes& a, const HalvedLanes& b) { return b >= a; }
    HalvedLanes& operator+=(const HalvedLanes& other) { return *this = *this + other; }
    HalvedLanes& operator-=(const HalvedLanes& other) { return *this = *this - other; }
    HalvedLanes& operator*=(const HalvedLanes& other) { return *this = *this * other; }
};

template <class Half>
void load(HalvedLanes<Half>& lanes, const float* source) {
    load(lanes.low, source);
    load(lanes.high, source + HalvedLanes<Half>::kHalf);
}
template <class Half>
void store(const HalvedLanes<Half>& lanes, float* target) {
    store(lanes.low, target);
    store(lanes.high, target + HalvedLanes<Half>::kHalf);
}
template <class Mask, class Half>
HalvedLanes<Half> select(const HalvedLanes<Mask>& mask, const HalvedLanes<Half>& yes, const HalvedLanes<Half>& no) {
    return {select(mask.low, yes.low, no.low), select(mask.high, yes.high, no.high)};
}
template <class Half>
auto as_floats(const HalvedLanes<Half>& words) {
    return HalvedLanes<decltype(as_floats(words.low))>{as_floats(words.low), as_floats(words.high)};
}
template <class Half>
auto to_floats(const HalvedLanes<Half>& whole) {
    return HalvedLanes<decltype(to_floats(whole.low))>{to_floats(whole.low), to_floats(whole.high)};
}
template <class Half>
auto truncate(const HalvedLanes<Half>& lanes) {
    return HalvedLanes<decltype(truncate(lanes.low))>{truncate(lanes.low), truncate(lanes.high)};
}
template <class Half>
std::uint32_t bits_greater(const HalvedLanes<Half>& a, const HalvedLanes<Half>& b) {
    return bits_greater(a.low, b.low) | bits_greater(a.high, b.high) << HalvedLanes<Half>::kHalf;
}
template <class Half>
HalvedLanes<Half> choose(std::uint32_t bits, const HalvedLanes<Half>& yes, const HalvedLanes<Half>& no) {
    return {choose(bits, yes.low, no.low), choose(bits >> HalvedLanes<Half>::kHalf, yes.high, no.high)};
}
template <class Half>
float sum(const HalvedLanes<Half>& lanes) {
    return sum(lanes.low + lanes.high);
}
template <class Half>
float largest(const HalvedLanes<Half>& lanes) {
    return largest(select(lanes.low > lanes.high, lanes.low, lanes.high));
}

#if defined(__AVX512F__)
using Lanes = Register;
using LaneMask = IntRegister;
#elif defined(__AVX__)
using Lanes = HalvedLanes<Register>;
using LaneMask = HalvedLanes<IntRegister>;
#else
using Lanes = HalvedLanes<HalvedLanes<Register> >;
using LaneMask = HalvedLanes<HalvedLanes<IntRegister> >;
#endif
static_assert(sizeof(Lanes) == kLanes * sizeof(float));

inline Lanes max_lanes(const Lanes& a, const Lanes& b) { return select(a > b, a, b); }
inline Lanes min_lanes(const Lanes& a, const Lanes& b) { return select(a < b, a, b); }
inline Lanes abs_lanes(const Lanes& a) { return select(a < Lanes{}, -a, a); }

// True if some lane of a exceeds the bound.
inline bool any_above(const Lanes& a, float bound) { return bits_greater(a, Lanes{} + bound) != 0; }

// exp(-x) for x >= 0, relative error below 1e-6: 2^k times a polynomial on [-½ log 2, ½ log 2].
inline Lanes exp_minus(const Lanes& x) {
    const Lanes clipped = min_lanes(x, Lanes{} + 87.0F);
    const LaneMask power = truncate(clipped * -1.44269504F - 0.5F);  // of a negative number: rounds
    const Lanes whole = to_floats(power);
    const Lanes rest = (-clipped - whole * 0.693359375F) + whole * 2.12194440e-4F;
    Lanes value = rest * 1.9875691500e-4F + 1.3981999507e-3F;
    value = value * rest + 8.3334519073e-3F;
    value = value * rest + 4.1665795894e-2F;
    value = value * rest + 1.6666665459e-1F;
    value = value * rest + 0.5F;
    value = value * rest * rest + rest + 1.0F;
    return value * as_floats((power + 127) << 23);
}

}  // namespace longtail
