#pragma once

#include <cstdint>
#include <functional>

#include "base/control.hpp"

namespace longtail {

// Run body(task, worker) for every task in [0, n_tasks) on n_threads threads, tasks handed out in order as threads
// become free; worker < n_threads numbers the thread, for scratch memory. The calling thread works too and, while it
// waits for the others, keeps polling `control`. The first exception stops the hand-out and is rethrown here; a stop
// through `control` throws Cancelled. Results must not depend on which worker ran a task.
void parallel_for(std::int64_t n_tasks, int n_threads, Control& control,
                  const std::function<void(std::int64_t task, int worker)>& body);

}  // namespace longtail
