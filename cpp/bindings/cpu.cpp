// A separate module, built for the oldest supported CPU: it names the build of the core that this CPU can run.
#include <nanobind/nanobind.h>

#include "base/best_isa.hpp"

NB_MODULE(_cpu, m) {
    m.def("best_isa", &longtail::best_isa, "Name the fastest build of the core that this CPU can run.");
}
