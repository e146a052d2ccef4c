#include "base/parallel_for.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

namespace longtail {

void parallel_for(std::int64_t n_tasks, int n_threads, Control& control,
                  const std::function<void(std::int64_t task, int worker)>& body) {
    parallel_for(n_tasks, n_threads, control, body,
                 [](std::function<void()> work) { return std::thread(std::move(work)); });
}

void parallel_for(std::int64_t n_tasks, int n_threads, Control& control,
                  const std::function<void(std::int64_t task, int worker)>& body, const StartThread& start_thread) {
    std::atomic<std::int64_t> next_task{0};
    std::atomic<bool> failed{false};
    std::exception_ptr first_error;
    std::mutex mutex;
    std::condition_variable finished;
    int n_running = 0;

    const auto work = [&](int worker) {
        try {
            while (!failed.load(std::memory_order_relaxed) && !control.should_stop()) {
                const std::int64_t task = next_task.fetch_add(1);
                if (task >= n_tasks) break;
                body(task, worker);
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!first_error) first_error = std::current_exception();
            failed.store(true);
        }
    };

    const int n_workers = static_cast<int>(std::clamp<std::int64_t>(n_tasks, 1, std::max(n_threads, 1)));
    std::vector<std::thread> threads;
    threads.reserve(n_workers - 1);
    for (int worker = 1; worker < n_workers; ++worker) {
        {
            const std::lock_guard lock(mutex);
            ++n_running;
        }
        try {
            threads.push_back(start_thread([&, worker] {
                work(worker);
                const std::lock_guard lock(mutex);
                --n_running;
                finished.notify_one();
            }));
        } catch (const std::exception&) {  // no more threads, or no memory for one
            const std::lock_guard lock(mutex);
            --n_running;
            break;
        }
    }
    work(0);
    std::unique_lock lock(mutex);
    while (n_running > 0) {
        finished.wait_for(lock, std::chrono::milliseconds(50));
        lock.unlock();
        control.should_stop();
        lock.lock();
    }
    lock.unlock();
    for (auto& thread : threads) thread.join();
    if (first_error) std::rethrow_exception(first_error);
    if (control.cancelled()) throw Cancelled();
}

}  // namespace longtail
