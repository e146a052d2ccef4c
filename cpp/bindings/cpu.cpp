// A module of its own, built for the oldest CPU: it answers which build of the core this CPU can run.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

namespace {

std::string best_isa() {
#if (defined(__x86_64__) || defined(__amd64__)) && defined(__GNUC__)
    __builtin_cpu_init();
    // The two levels are what gcc and clang call x86-64-v4 and x86-64-v3.
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        return "avx2";
#endif
    return "baseline";
}

}  // namespace

NB_MODULE(_cpu, m) {
    m.def("best_isa", &best_isa, "Name the fastest build of the core that this CPU can run.");
}
