// Wakes a loop by a uv_timer_t: on all systems, to the millisecond.
//
// A kernel may wake a thread late from a long wait. Linux adds up to a thousandth of the wait, or five thousandths for a niced
// process, at most 100 ms. So the last tenth of a second of a wait longer than one second is a separate wait.
#pragma once

#include <tickwheel/uv/driver.hpp>

#include <uv.h>

#include <chrono>
#include <cstdint>

namespace tickwheel {

class uv_timer_wakeup {
 public:
  using callback = uv_timer_cb;

  [[nodiscard]] static int acquire() noexcept { return 0; }
  [[nodiscard]] int link(uv_loop_t& loop, uv_timer_cb call) noexcept {
    call_ = call;
    return uv_timer_init(&loop, &timer_);
  }
  uv_timer_t* handle() noexcept { return &timer_; }
  const uv_timer_t* handle() const noexcept { return &timer_; }

  bool set(clock::time_point when, clock::time_point now) noexcept { return correct(when, now); }

  // libuv adds the delay to its own, stale time, and computes the poll's timeout from the same time. So a delay that counts from
  // the true time gives the right timeout. The time that passes until the poll is corrected right before it. If something else
  // wakes the loop, the timer may expire up to a millisecond early by the true clock. The client then asks again.
  bool correct(clock::time_point when, clock::time_point now) noexcept {
    if (when <= now) return false;  // never uv_timer_start(0), because libuv 1.44 would not leave its timer phase
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(when - now);
    is_last_ = wait <= long_wait;
    const auto ms = static_cast<std::uint64_t>((is_last_ ? wait : wait - last_part).count());
    const std::uint64_t due_ms = uv_now(timer_.loop) + ms;
    if (due_ms == due_ms_) return true;  // it has not expired: otherwise libuv's time would be past `due_ms_`
    due_ms_ = due_ms;
    uv_timer_start(&timer_, call_, ms, 0);
    return true;
  }

  static bool came() noexcept { return true; }
  bool is_last() const noexcept { return is_last_; }
  bool has_expired() const noexcept { return is_last_ && due_ms_ != 0 && due_ms_ <= uv_now(timer_.loop); }
  void take() noexcept {
    uv_timer_stop(&timer_);
    due_ms_ = 0;
  }
  void cancel() noexcept {}
  static void before_poll() noexcept {}
  void after_fork() noexcept {}
  static void before_close() noexcept {}
  void release() noexcept {}

 private:
  static constexpr std::chrono::seconds long_wait{1};
  static constexpr std::chrono::milliseconds last_part{100};

  uv_timer_t timer_{};
  uv_timer_cb call_ = nullptr;
  std::uint64_t due_ms_ = 0;  // when the timer is due, in libuv's time; 0: it is not set
  bool is_last_ = true;
};

}  // namespace tickwheel
