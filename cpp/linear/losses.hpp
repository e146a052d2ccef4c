#pragma once

// The two margin losses, in sixteen lanes. All functions take z = y·margin.

#include "base/lanes.hpp"
#include "linear/problem.hpp"

namespace longtail::linear {

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
    static constexpr bool kIsSmooth = false;  // most rows have no curvature
    static Lanes value(const Lanes& z) {
        const Lanes gap = max_lanes(1.0F - z, Lanes{});
        return gap * gap;
    }
    static Lanes slope(const Lanes& z) { return -2.0F * max_lanes(1.0F - z, Lanes{}); }
    static Lanes curvature(const Lanes& z) { return select(z < 1.0F, Lanes{} + 2.0F, Lanes{}); }
};

struct Logistic {
    static constexpr bool kIsSmooth = true;
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
