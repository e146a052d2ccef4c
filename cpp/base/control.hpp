#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>

namespace longtail {

struct Cancelled : std::runtime_error {
    Cancelled() : std::runtime_error("stopped before the end") {}
};

// How the outside talks to a running kernel: stop it, and see how far it is. One Control may serve many threads.
class Control {
public:
    // `poll` returns true when the run must stop; the Python bindings look for Ctrl-C there. It may be empty.
    explicit Control(std::function<bool()> poll = {}) : poll_(std::move(poll)) {}

    void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
    bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

    // Add finished units (labels, rows, nodes: the kernel's own measure of progress).
    void add_done(std::int64_t units) { done_.fetch_add(units, std::memory_order_relaxed); }
    std::int64_t done() const { return done_.load(std::memory_order_relaxed); }

    // Look outside now, at most every 50 ms over all threads. Cheap enough for any loop whose turn takes >= 1 us.
    bool should_stop() {
        if (cancelled()) return true;
        if (!poll_) return false;
        const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
        std::int64_t last = last_poll_.load(std::memory_order_relaxed);
        if (now - last < 50 || !last_poll_.compare_exchange_strong(last, now)) return false;
        if (poll_()) cancel();
        return cancelled();
    }
    void throw_if_stopped() {
        if (should_stop()) throw Cancelled();
    }

private:
    std::function<bool()> poll_;
    std::atomic<bool> cancelled_{false};
    std::atomic<std::int64_t> done_{0};
    std::atomic<std::int64_t> last_poll_{0};
};

}  // namespace longtail
