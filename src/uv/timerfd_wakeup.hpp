// Wakes a loop by a timerfd that it polls: only on Linux, to the nanosecond.
#pragma once

#include <tickwheel/uv/driver.hpp>

#include <uv.h>

#include <sys/types.h>

#include <utility>

namespace tickwheel {

/// A descriptor of CLOCK_MONOTONIC, which is the steady clock on Linux. Setting it costs a system call. So it is set only for an
/// earlier time than before, or after it has expired. A later time is left to the earlier wakeup, which then sets it. It is never
/// read, because setting it makes it unreadable again.
///
/// The child of a fork has the same timer under the same number, and until uv_loop_fork the same epoll set. So a process that did
/// not make the timer neither sets nor polls it, but first takes a timer of its own. uv_close always calls EPOLL_CTL_DEL. If the
/// descriptor is not in this process's set, that call must not remove it from the parent's set.
class timerfd_wakeup {
 public:
  using callback = uv_poll_cb;

  timerfd_wakeup() noexcept = default;
  timerfd_wakeup(const timerfd_wakeup&) = delete;
  timerfd_wakeup& operator=(const timerfd_wakeup&) = delete;

  [[nodiscard]] int acquire() noexcept;
  [[nodiscard]] int link(uv_loop_t& loop, uv_poll_cb call) noexcept;
  uv_poll_t* handle() noexcept { return &poll_; }
  const uv_poll_t* handle() const noexcept { return &poll_; }

  bool set(clock::time_point when, clock::time_point now) noexcept;
  // absolute, and by the true clock: it never becomes stale
  static bool correct(clock::time_point, clock::time_point) noexcept { return true; }
  // it stays readable until it is set again, so the poll before the pass reports it once more
  bool came() noexcept { return !std::exchange(came_, true); }
  static bool is_last() noexcept { return true; }
  // its descriptor stays readable, so that a look for other input would take two system calls more
  static bool has_expired() noexcept { return false; }
  static void take() noexcept {}
  void cancel() noexcept;
  // if libuv's field `events` is zero, the next poll adds the descriptor to the set: after `link`, and after uv_loop_fork
  void before_poll() noexcept {
    if (poll_.io_watcher.events == 0) [[unlikely]]
      enter_set();
  }
  void after_fork() noexcept;
  void before_close() const noexcept;
  void release() noexcept;

 private:
  void set_descriptor(clock::time_point when) noexcept;
  void take_own() noexcept;
  void enter_set() noexcept;

  uv_poll_t poll_{};
  int descriptor_ = -1;
  pid_t made_by_ = 0;  // the process that made the timer
  pid_t set_of_ = 0;   // the process that polls the epoll set with the descriptor; 0: none
  clock::time_point set_for_ = clock::time_point::max();
  bool came_ = false;  // it is readable, and has not been set since
};

}  // namespace tickwheel
