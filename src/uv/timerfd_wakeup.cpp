#include "timerfd_wakeup.hpp"

#include <tickwheel/core/detail/check.hpp>

#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <limits>

namespace tickwheel {

int timerfd_wakeup::acquire() noexcept {
  made_by_ = ::getpid();
  descriptor_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  return descriptor_ < 0 ? uv_translate_sys_error(errno) : 0;
}

[[gnu::cold]] int timerfd_wakeup::link(uv_loop_t& loop, uv_poll_cb call) noexcept {
  if (const int error = uv_poll_init(&loop, &poll_, descriptor_)) return error;
  return uv_poll_start(&poll_, UV_READABLE, call);  // cannot fail for a new handle
}

bool timerfd_wakeup::set(clock::time_point when, clock::time_point now) noexcept {
  if (!came_ && set_for_ <= when) return true;
  if (when <= now) return false;
  set_descriptor(when);
  return true;
}

// A timer that has expired and is not set again would wake the loop again and again.
void timerfd_wakeup::cancel() noexcept {
  if (came_) set_descriptor(clock::time_point::max());
}

void timerfd_wakeup::set_descriptor(clock::time_point when) noexcept {
  if (made_by_ != ::getpid()) take_own();
  const auto since = when.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  itimerspec at{};
  // if time_t has 32 bits, the latest times expire too early, and are then set again
  at.it_value.tv_sec =
      static_cast<std::time_t>(std::min<std::int64_t>(seconds.count(), std::numeric_limits<std::time_t>::max()));
  at.it_value.tv_nsec = static_cast<long>(std::chrono::nanoseconds{since - seconds}.count());
  ::timerfd_settime(descriptor_, TFD_TIMER_ABSTIME, &at, nullptr);
  set_for_ = when;
  came_ = false;
}

// The parent shares the timer behind the descriptor. The child puts a timer of its own under the same number, which its loop
// polls. The shared one is closed first, so that a number is free for the new one.
[[gnu::cold]] void timerfd_wakeup::take_own() noexcept {
  ::close(descriptor_);
  const int made = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  detail::require(made >= 0, "after_fork: the system has no timerfd for the child");
  if (made != descriptor_) {
    ::dup3(made, descriptor_, O_CLOEXEC);
    ::close(made);
  }
  made_by_ = ::getpid();
  set_for_ = clock::time_point::max();
  came_ = false;
}

// Takes a timer only once. A timer that the loop already polls must stay, because libuv would not add another one to its set.
void timerfd_wakeup::after_fork() noexcept {
  if (descriptor_ >= 0 && made_by_ != ::getpid()) take_own();
}

// In a child that did not call after_fork, its own timer is set for the time that the parent had asked for.
[[gnu::cold]] void timerfd_wakeup::enter_set() noexcept {
  set_of_ = ::getpid();
  if (made_by_ != set_of_) set_descriptor(set_for_);
}

// If another process also polls the set, the set must keep the descriptor. So the epoll set's own descriptor is placed under that
// number, for which libuv's EPOLL_CTL_DEL has no effect.
void timerfd_wakeup::before_close() const noexcept {
  if (set_of_ != ::getpid()) ::dup3(uv_backend_fd(poll_.loop), descriptor_, O_CLOEXEC);
}

void timerfd_wakeup::release() noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace tickwheel
