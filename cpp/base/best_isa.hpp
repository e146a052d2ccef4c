#pragma once

namespace longtail {

// The fastest instruction set of this CPU among those the core is built for. The two levels above the baseline are
// what gcc and clang call x86-64-v4 and x86-64-v3.
inline const char* best_isa() {
#if (defined(__x86_64__) || defined(__amd64__)) && defined(__GNUC__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        return "avx2";
#endif
    return "baseline";
}

}  // namespace longtail
