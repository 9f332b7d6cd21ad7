// A real uv_loop_t under simulated time.
#pragma once

#include "../../../tests/support/simulated_clock.hpp"

#include <uv.h>

#include <chrono>
#include <cstddef>

namespace tickwheel::bench {

/// Requires: a `simulated_clock::scope` throughout its life.
class simulated_loop {
 public:
  simulated_loop() noexcept {
    simulated_clock::set(start);
    uv_loop_init(&loop_);
    uv_async_init(&loop_, &end_, [](uv_async_t* h) { uv_stop(h->loop); });
    uv_unref(reinterpret_cast<uv_handle_t*>(&end_));
  }
  simulated_loop(const simulated_loop&) = delete;
  simulated_loop& operator=(const simulated_loop&) = delete;

  /// Requires: every handle of others was closed, or is closing.
  ~simulated_loop() {
    uv_close(reinterpret_cast<uv_handle_t*>(&end_), {});
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
  }

  uv_loop_t& get() noexcept { return loop_; }

  /// A busy server: one iteration per millisecond, with I/O handlers in between. libuv's time moves that often. It spreads the cost of an
  /// iteration (a poll, which is a system call) over 1000 operations. A server that runs an iteration for each operation pays far more
  /// for the poll than for any timer.
  void advance_to(std::chrono::nanoseconds now) noexcept {
    simulated_clock::set(start + now);
    if (now < next_turn_) return;
    next_turn_ = now + std::chrono::milliseconds{1};
    uv_run(&loop_, UV_RUN_NOWAIT);
  }

  /// The loop was blocked until `now`. Runs iterations as long as they would not wait. (libuv runs timers before the poll up to 1.44,
  /// and after it from 1.45 on, so due timers may take two iterations.)
  void jump_to(std::chrono::nanoseconds now) noexcept {
    simulated_clock::set(start + now);
    do uv_run(&loop_, UV_RUN_NOWAIT);
    while (uv_loop_alive(&loop_) != 0 && uv_backend_timeout(&loop_) == 0);
  }

  /// An idle server: the loop runs by itself, and every poll waits for as long as the loop asks for, or until `end`. Ends at `end`, or
  /// when nothing keeps the loop alive. Returns how often it waited.
  std::size_t run_out(std::chrono::nanoseconds end = std::chrono::hours{24 * 365 * 100}) noexcept {
    const std::size_t before = simulated_clock::waits();
    simulated_clock::wait_at_most_until(start + end, [this] { uv_async_send(&end_); });
    uv_run(&loop_, UV_RUN_DEFAULT);
    simulated_clock::wait_at_most_until(std::chrono::nanoseconds::max());
    return simulated_clock::waits() - before;
  }

  /// Converts libuv's time to simulated time.
  static std::chrono::nanoseconds time_of(std::chrono::nanoseconds since_epoch) noexcept { return since_epoch - start; }

  /// The first reading of the clock: long after the epoch, and not on a millisecond, so that no subject profits from even numbers.
  static constexpr std::chrono::nanoseconds start = std::chrono::seconds{1'000'000} + std::chrono::nanoseconds{345'678};

 private:
  uv_loop_t loop_;
  uv_async_t end_;  // stops a loop that runs by itself
  std::chrono::nanoseconds next_turn_{};
};

}  // namespace tickwheel::bench
