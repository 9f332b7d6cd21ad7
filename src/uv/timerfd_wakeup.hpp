// Wakes a loop by a timerfd that it polls: Linux alone, to the nanosecond.
#pragma once

#include <tickwheel/uv/driver.hpp>

#include <uv.h>

#include <sys/types.h>

#include <utility>

namespace tickwheel {

/// A descriptor of its own, of CLOCK_MONOTONIC, which is the steady clock there. Setting it costs a system call, so it is
/// set only for an earlier time than it is set for, or when it has come: what is asked for later is left to the wakeup
/// that comes before, which then sets it. It is never read: setting it is what makes it unreadable again.
///
/// The child of a fork has the same timer under the same number, and until uv_loop_fork the same epoll set. So a process that
/// did not make the timer neither sets nor polls it, but takes one of its own first; and a process whose set does not have the
/// descriptor does not let uv_close, which always calls EPOLL_CTL_DEL, take it out of the set of its parent.
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
  void cancel() noexcept;
  // libuv adds the descriptor to the set in the poll that follows when its note of that, `events`, is zero: after the link,
  // and after uv_loop_fork
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
  pid_t set_of_ = 0;   // the process that polls the epoll set which has the descriptor; 0: none has it
  clock::time_point set_for_ = clock::time_point::max();
  bool came_ = false;  // it is readable, and was not set since
};

}  // namespace tickwheel
