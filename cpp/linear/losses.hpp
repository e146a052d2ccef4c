#pragma once

// The two margin losses, in sixteen lanes. All functions take z = y·margin.

#include <cstdint>

#include "linear/lanes.hpp"
#include "linear/problem.hpp"

namespace longtail::linear {

using IntLanes = LaneMask;

inline Lanes select(const LaneMask& mask, const Lanes& yes, const Lanes& no) { return mask ? yes : no; }
inline Lanes max_lanes(const Lanes& a, const Lanes& b) { return select(a > b, a, b); }

// exp(-x) for x >= 0, relative error below 1e-6: 2^k times a polynomial on [-½ log 2, ½ log 2].
inline Lanes exp_minus(const Lanes& x) {
    const Lanes clipped = select(x > 87.0F, Lanes{} + 87.0F, x);
    const Lanes scaled = clipped * -1.44269504F;
    const IntLanes power = __builtin_convertvector(scaled - 0.5F, IntLanes);  // truncates towards zero: rounds
    const Lanes whole = __builtin_convertvector(power, Lanes);
    const Lanes rest = (-clipped - whole * 0.693359375F) + whole * 2.12194440e-4F;
    Lanes value = rest * 1.9875691500e-4F + 1.3981999507e-3F;
    value = value * rest + 8.3334519073e-3F;
    value = value * rest + 4.1665795894e-2F;
    value = value * rest + 1.6666665459e-1F;
    value = value * rest + 0.5F;
    value = value * rest * rest + rest + 1.0F;
    const IntLanes bits = (power + 127) << 23;
    Lanes two_to_power;
    std::memcpy(&two_to_power, &bits, sizeof(bits));
    return value * two_to_power;
}

// log(1 + u) for u in [0, 1]: 2·artanh(u / (2 + u)).
inline Lanes log_one_plus(const Lanes& u) {
    const Lanes s = u / (2.0F + u);
    const Lanes square = s * s;
    Lanes series = square * (1.0F / 13.0F) + 1.0F / 11.0F;
    series = series * square + 1.0F / 9.0F;
    series = series * square + 1.0F / 7.0F;
    series = series * square + 1.0F / 5.0F;
    series = series * square + 1.0F / 3.0F;
    series = series * square + 1.0F;
    return 2.0F * s * series;
}

struct SquaredHinge {
    static Lanes value(const Lanes& z) {
        const Lanes gap = max_lanes(1.0F - z, Lanes{});
        return gap * gap;
    }
    static Lanes slope(const Lanes& z) { return -2.0F * max_lanes(1.0F - z, Lanes{}); }
    static Lanes curvature(const Lanes& z) { return select(z < 1.0F, Lanes{} + 2.0F, Lanes{}); }
};

struct Logistic {
    static Lanes value(const Lanes& z) {
        const Lanes size = select(z > 0.0F, z, -z);
        return max_lanes(-z, Lanes{}) + log_one_plus(exp_minus(size));
    }
    static Lanes slope(const Lanes& z) {
        const Lanes small = exp_minus(select(z > 0.0F, z, -z));
        return -select(z > 0.0F, small, Lanes{} + 1.0F) / (1.0F + small);
    }
    static Lanes curvature(const Lanes& z) {
        const Lanes small = exp_minus(select(z > 0.0F, z, -z));
        return small / ((1.0F + small) * (1.0F + small));
    }
};

}  // namespace longtail::linear
