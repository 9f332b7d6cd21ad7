// A manual clock for the whole process, for tests and benchmarks, so that a minute of timers takes no minute.
//
// While a `simulated_clock::scope` lives, the steady clock shows the last time that `set` was given: to this program, to libstdc++ and to
// libuv. All of them read it through clock_gettime, which the program replaces. A read costs as much as without the simulation, because the
// true clock is read first. Google Benchmark measures by the same clock: no scope may live while it does.
//
// Loops that wait by epoll also wait in simulated time. A wait that finds nothing ready moves the clock by its timeout, and returns at once.
// So a loop that does not tell its next timeout can be left to itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>

/// *Thread safety:* none; what is linked with it has one thread.
class simulated_clock {
 public:
  /// Simulates as long as it lives.
  class scope {
   public:
    scope() noexcept { running = true; }
    ~scope() { running = false; }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
  };

  /// Sets the time that the steady clock shows from now on, since its epoch.
  static void set(std::chrono::nanoseconds now) noexcept { shown = now; }
  static std::chrono::nanoseconds now() noexcept { return shown; }
  /// Waits do not move the clock beyond `end`. Calls `then` when a wait has been cut there, before it returns. If `then` makes a descriptor
  /// ready, the wait finds it. libuv needs that: otherwise it waits again until its time is over.
  static void wait_at_most_until(std::chrono::nanoseconds end, std::function<void()> then = {}) noexcept {
    bound = end;
    at_bound = std::move(then);
  }
  /// How often the process waited.
  static std::size_t waits() noexcept { return waited; }
  /// How often it called epoll, with and without waiting.
  static std::size_t polls() noexcept { return polled; }
  /// Calls `what` once, when the next poll that does not wait has looked and before it returns.
  static void after_next_poll(std::function<void()> what) { after_poll = std::move(what); }
  /// How often it read the steady clock.
  static std::size_t reads() noexcept { return read; }

  /// The true time, also within a scope.
  static std::chrono::nanoseconds true_now() noexcept;

  /// Stops the process with one line when libstdc++ or libuv reads another clock: what is measured would be wrong.
  static void require_effect();

  // read by the replacements of clock_gettime and epoll_wait
  static inline bool running = false;
  static inline std::chrono::nanoseconds shown{};
  static inline std::chrono::nanoseconds bound{};
  static inline std::size_t waited = 0, polled = 0, read = 0;
  static inline std::function<void()> after_poll, at_bound;
};
