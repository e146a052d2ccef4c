#pragma once

// One register of float64 lanes, for sums over many rows that must not lose digits. The compiler does not build them
// from plain loops: a maximum or a comparison in the loop becomes a branch for each row.

#include <cstdint>

#include "base/lanes.hpp"

namespace longtail::linear {

using longtail::store;  // Keep the overloads for floats visible.
using longtail::sum;

constexpr int kDoubleLanes = kRegisterLanes / 2;
using DoubleLanes = double __attribute__((vector_size(kDoubleLanes * sizeof(double))));

// From so many floats.
inline DoubleLanes load_doubles(const float* source) {
    using Floats = float __attribute__((vector_size(kDoubleLanes * sizeof(float)), aligned(alignof(float)), may_alias));
    return __builtin_convertvector(*reinterpret_cast<const Floats*>(source), DoubleLanes);
}
inline void store(const DoubleLanes& lanes, double* target) {
    using Unaligned = double __attribute__((vector_size(sizeof(DoubleLanes)), aligned(alignof(double)), may_alias));
    *reinterpret_cast<Unaligned*>(target) = lanes;
}
inline DoubleLanes above_zero(const DoubleLanes& lanes) { return lanes > DoubleLanes{} ? lanes : DoubleLanes{}; }

inline DoubleLanes larger(const DoubleLanes& a, const DoubleLanes& b) { return a > b ? a : b; }
inline bool is_any_above_zero(const DoubleLanes& lanes) {
    const auto above = lanes > DoubleLanes{};
    std::int64_t any = 0;
    for (int lane = 0; lane < kDoubleLanes; ++lane) any |= above[lane];
    return any != 0;
}

inline double sum(const DoubleLanes& lanes) {
    double total = 0.0;
    for (int lane = 0; lane < kDoubleLanes; ++lane) total += lanes[lane];
    return total;
}

}  // namespace longtail::linear
