#pragma once

// Squares of 16 × 16 floats from rows to columns: weights of sixteen labels into the table of a pass, and gradients back.

#include <cstdint>

#include "linear/lanes.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace longtail::linear {

// to[j][i] = from[i][j] for i, j < kLanes, where from and to say at which address a row begins. On x86-64 in squares of
// four: compilers make single floats of the plain loops.
template <class From, class To>
[[gnu::always_inline]] inline void transpose(const From& from, const To& to) {
#if defined(__x86_64__)
    for (int i = 0; i < kLanes; i += 4)
        for (int j = 0; j < kLanes; j += 4) {
            __m128 first = _mm_loadu_ps(from(i) + j);
            __m128 second = _mm_loadu_ps(from(i + 1) + j);
            __m128 third = _mm_loadu_ps(from(i + 2) + j);
            __m128 fourth = _mm_loadu_ps(from(i + 3) + j);
            _MM_TRANSPOSE4_PS(first, second, third, fourth);
            _mm_storeu_ps(to(j) + i, first);
            _mm_storeu_ps(to(j + 1) + i, second);
            _mm_storeu_ps(to(j + 2) + i, third);
            _mm_storeu_ps(to(j + 3) + i, fourth);
        }
#else
    for (int i = 0; i < kLanes; ++i)
        for (int j = 0; j < kLanes; ++j) to(j)[i] = from(i)[j];
#endif
}

}  // namespace longtail::linear
