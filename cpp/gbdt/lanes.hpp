#pragma once

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace longtail::gbdt {

// Sixteen floats that are worked on together: one AVX-512 register, two of AVX2, or a plain array. Written out because
// compilers unroll a loop over sixteen lanes before they see that it is one register. Memory must be 64-byte aligned.
inline constexpr int kLanes = 16;

#if defined(__AVX512F__)

struct Lanes {
    __m512 v;

    static Lanes load(const float* from) { return {_mm512_load_ps(from)}; }
    static Lanes all(float value) { return {_mm512_set1_ps(value)}; }
    void store(float* to) const { _mm512_store_ps(to, v); }

    friend Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
    friend Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
    friend Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
    // The zero-masked forms, all lanes on: gcc 12 wrongly warns of an uninitialised register in the plain ones.
    friend Lanes larger(Lanes a, Lanes b) { return {_mm512_maskz_max_ps(0xFFFF, a.v, b.v)}; }
    friend Lanes smaller(Lanes a, Lanes b) { return {_mm512_maskz_min_ps(0xFFFF, a.v, b.v)}; }
    friend bool any_greater(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ) != 0; }
};

#elif defined(__AVX2__)

struct Lanes {
    __m256 low, high;

    static Lanes load(const float* from) { return {_mm256_load_ps(from), _mm256_load_ps(from + 8)}; }
    static Lanes all(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
    void store(float* to) const {
        _mm256_store_ps(to, low);
        _mm256_store_ps(to + 8, high);
    }

    friend Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
    friend Lanes operator-(Lanes a, Lanes b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
    friend Lanes operator*(Lanes a, Lanes b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
    friend Lanes larger(Lanes a, Lanes b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
    friend Lanes smaller(Lanes a, Lanes b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
    friend bool any_greater(Lanes a, Lanes b) {
        return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ),
                                               _mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ))) != 0;
    }
};

#else

struct Lanes {
    float v[kLanes];

    template <class Function>
    static Lanes make(Function function) {
        Lanes out;
        for (int i = 0; i < kLanes; ++i) out.v[i] = function(i);
        return out;
    }
    static Lanes load(const float* from) {
        return make([&](int i) { return from[i]; });
    }
    static Lanes all(float value) {
        return make([&](int) { return value; });
    }
    void store(float* to) const {
        for (int i = 0; i < kLanes; ++i) to[i] = v[i];
    }

    friend Lanes operator+(const Lanes& a, const Lanes& b) {
        return make([&](int i) { return a.v[i] + b.v[i]; });
    }
    friend Lanes operator-(const Lanes& a, const Lanes& b) {
        return make([&](int i) { return a.v[i] - b.v[i]; });
    }
    friend Lanes operator*(const Lanes& a, const Lanes& b) {
        return make([&](int i) { return a.v[i] * b.v[i]; });
    }
    friend Lanes larger(const Lanes& a, const Lanes& b) {
        return make([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
    }
    friend Lanes smaller(const Lanes& a, const Lanes& b) {
        return make([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
    }
    friend bool any_greater(const Lanes& a, const Lanes& b) {
        bool found = false;
        for (int i = 0; i < kLanes; ++i) found |= a.v[i] > b.v[i];
        return found;
    }
};

#endif

}  // namespace longtail::gbdt
