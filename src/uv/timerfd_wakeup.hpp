// Wakes a loop by a timerfd that it polls: Linux alone, to the nanosecond.
#pragma once

#include <tickwheel/uv/driver.hpp>

#include <uv.h>

#include <utility>

namespace tickwheel {

/// A descriptor of its own, of CLOCK_MONOTONIC, which is the steady clock there. Setting it costs a system call, so it is
/// set only for an earlier time than it is set for, or when it has come: what is asked for later is left to the wakeup
/// that comes before, which then sets it. It is never read: setting it is what makes it unreadable again.
class timerfd_wakeup {
 public:
  using callback = uv_poll_cb;

  timerfd_wakeup() noexcept = default;
  timerfd_wakeup(const timerfd_wakeup&) = delete;
  timerfd_wakeup& operator=(const timerfd_wakeup&) = delete;

  int acquire() noexcept;
  int link(uv_loop_t& loop, uv_poll_cb call) noexcept;
  uv_poll_t* handle() noexcept { return &poll_; }
  const uv_poll_t* handle() const noexcept { return &poll_; }

  bool set(clock::time_point when) noexcept;
  // absolute and by the true clock: nothing goes stale
  static bool correct(clock::time_point, clock::time_point) noexcept { return true; }
  // readable until it is set again: the poll before the pass reports it once more
  bool came() noexcept { return !std::exchange(came_, true); }
  void rest() noexcept;
  static void before_poll() noexcept {}
  void after_fork() noexcept;
  static void before_close() noexcept {}
  void release() noexcept;

 private:
  void set_descriptor(clock::time_point when) noexcept;

  uv_poll_t poll_{};
  int descriptor_ = -1;
  clock::time_point set_for_ = clock::time_point::max();
  bool came_ = false;  // it is readable, and was not set since
};

}  // namespace tickwheel
