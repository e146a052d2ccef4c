#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "base/control.hpp"

namespace longtail {

// Run body(task, worker) for every task in [0, n_tasks) on up to n_threads threads. Tasks are handed out in order as
// threads become free; worker < n_threads numbers the thread, for scratch memory. The calling thread works too and,
// while it waits for the others, keeps polling `control`. If the system refuses to start a thread (the limits of a
// container), the tasks run on the threads there are. The first exception stops the hand-out and is rethrown here; a
// stop through `control` throws Cancelled. Results must not depend on which worker ran a task.
void parallel_for(std::int64_t n_tasks, int n_threads, Control& control,
                  const std::function<void(std::int64_t task, int worker)>& body);

// The same with another way to start a thread, for tests: it may throw std::system_error.
using StartThread = std::function<std::thread(std::function<void()>)>;
void parallel_for(std::int64_t n_tasks, int n_threads, Control& control,
                  const std::function<void(std::int64_t task, int worker)>& body, const StartThread& start_thread);

}  // namespace longtail
