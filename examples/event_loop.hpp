// A libuv loop and its timers, which are opened, run and ended together.
#pragma once

#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

/// Used by one thread at a time: it may be opened on one and run on another.
class event_loop {
 public:
  event_loop() = default;
  ~event_loop() { close(); }
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;

  /// 0 or a UV_ code.
  [[nodiscard]] int open() noexcept {
    if (const int error = uv_loop_init(&loop_)) return error;
    open_ = true;
    return timers_.open(loop_);
  }

  /// Runs until no handle is active and no timer armed.
  void run() noexcept { uv_run(&loop_, UV_RUN_DEFAULT); }

  /// Ends the timers, then the loop; 0, or UV_EBUSY when a handle was left open. Idempotent.
  /// Requires: uv_close was called for every handle but the timers' own.
  int close() noexcept {
    if (!open_) return 0;
    timers_.close();
    run();  // the close callbacks: of the timers' handles, and of what was closed just before
    const int error = uv_loop_close(&loop_);
    open_ = error != 0;
    return error;
  }

  uv_loop_t& uv() noexcept { return loop_; }
  tickwheel::timer_service& timers() noexcept { return timers_; }

 private:
  uv_loop_t loop_{};
  tickwheel::timer_service timers_;  // after the loop, which outlives it
  bool open_ = false;
};
