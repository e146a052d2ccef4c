#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/four.hpp"
#include "base/lanes.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

// Sums over one column of a node in each of the three forms that NodeColumns stores. `a` and `b` have one value per row.
namespace longtail::fastxml::kernels {

inline constexpr std::int64_t kLanes = 16;

// Fetch what lies sixteen cache lines ahead. Columns of large nodes come from the third-level cache or beyond, and the
// processor by itself does not look far enough: a loop of nothing but dot products over 48 MB took up to twice as long.
inline void prefetch_ahead(const void* place) { __builtin_prefetch(static_cast<const char*>(place) + 1024); }

// ---- plain: one value per row; n is a multiple of sixteen -------------------------------------------------------

inline float add_lanes(const float (&lanes)[2 * kLanes]) {
    float sums[kLanes / 2];
    for (std::int64_t k = 0; k < kLanes / 2; ++k)
        sums[k] = (lanes[k] + lanes[k + kLanes / 2]) + (lanes[k + kLanes] + lanes[k + 3 * kLanes / 2]);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

inline Register load_register(const float* values) {
    Register lanes;
    load(lanes, values);
    return lanes;
}

// The sum over i of the lanes of term(i), which are those from i on. In 32 lanes, so that the order of additions does not
// depend on the instruction set.
template <class Term>
float sum_plain(std::int64_t n, Term term) {
    constexpr int kParts = 2 * kLanes / kRegisterLanes;
    Register parts[kParts] = {};
    std::int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes)
        for (int part = 0; part < kParts; ++part) parts[part] += term(i + part * kRegisterLanes);
    if (i < n)
        for (int part = 0; part < kParts / 2; ++part) parts[part] += term(i + part * kRegisterLanes);
    float lanes[2 * kLanes];
    for (int part = 0; part < kParts; ++part) store(parts[part], lanes + part * kRegisterLanes);
    return add_lanes(lanes);
}

#if defined(__AVX512F__)
inline float add_lanes(__m512 lanes) {
    alignas(64) float all[kLanes];  // through memory: GCC 12 warns about the undefined parts of casts between vectors
    _mm512_store_ps(all, lanes);
    const __m256 eight = _mm256_add_ps(_mm256_load_ps(all), _mm256_load_ps(all + 8));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// a[rows[0]] .. a[rows[15]]. The masked form, because some compilers warn about the undefined vector of the other one.
inline __m512 gather(const float* a, const std::int32_t* rows) {
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xFFFF, _mm512_loadu_si512(rows), a, 4);
}
#endif

// ---- list: rows and values --------------------------------------------------------------------------------------

inline Four magnitude(Four x) {
    using Words = std::int32_t __attribute__((vector_size(sizeof(Four))));
    return reinterpret_cast<Four>(reinterpret_cast<Words>(x) & 0x7FFFFFFF);
}
inline float dot_list(const std::int32_t* rows, const float* values, std::int64_t n, const float* a) {
    float sum = 0.0F;
#if defined(__AVX512F__)
    if (n >= kLanes) {
        __m512 lanes = _mm512_setzero_ps();
        for (; n >= kLanes; n -= kLanes, rows += kLanes, values += kLanes) {
            prefetch_ahead(rows);
            prefetch_ahead(values);
            lanes = _mm512_fmadd_ps(_mm512_loadu_ps(values), gather(a, rows), lanes);
        }
        sum = add_lanes(lanes);
    }
#endif
    return sum + sum_list(rows, values, n, a, [](auto x, auto y) { return x * y; });
}

inline float square_dot_list(const std::int32_t* rows, const float* values, std::int64_t n, const float* a) {
    return sum_list(rows, values, n, a, [](auto x, auto y) { return x * x * y; });
}

// ---- packed: a bit per row, and the values of the rows whose bit is set. values has sixteen floats of padding. ------

#if defined(__AVX512F__)

// use(first row of a group of sixteen, their values as a vector)
template <class Use>
void for_each_packed(const std::uint16_t* bits, const float* values, std::int64_t n_groups, Use use) {
    for (std::int64_t g = 0; g < n_groups; ++g) {
        const __mmask16 mask = bits[g];
        use(g * kLanes, _mm512_maskz_expand_ps(mask, _mm512_loadu_ps(values)));
        values += std::popcount(bits[g]);
    }
}

inline float dot_packed(const std::uint16_t* bits, const float* values, std::int64_t n_groups, const float* a) {
    __m512 even = _mm512_setzero_ps();
    __m512 odd = _mm512_setzero_ps();
    std::int64_t g = 0;
    for (; g + 2 <= n_groups; g += 2) {
        prefetch_ahead(values);
        const float* second = values + std::popcount(bits[g]);
        even = _mm512_fmadd_ps(_mm512_maskz_expand_ps(bits[g], _mm512_loadu_ps(values)), _mm512_load_ps(a + g * kLanes),
                               even);
        odd = _mm512_fmadd_ps(_mm512_maskz_expand_ps(bits[g + 1], _mm512_loadu_ps(second)),
                              _mm512_load_ps(a + (g + 1) * kLanes), odd);
        values = second + std::popcount(bits[g + 1]);
    }
    if (g < n_groups)
        even = _mm512_fmadd_ps(_mm512_maskz_expand_ps(bits[g], _mm512_loadu_ps(values)), _mm512_load_ps(a + g * kLanes),
                               even);
    return add_lanes(_mm512_add_ps(even, odd));
}

#endif

}  // namespace longtail::fastxml::kernels
