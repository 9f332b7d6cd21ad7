// remote_handle: the others are compared with this subject.
#pragma once

#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tickwheel::bench {

class post_tickwheel {
 public:
  static constexpr std::string_view name = "tickwheel";

  /// `max_queued` is the option with which the service was opened.
  post_tickwheel(uv_loop_t&, timer_service& timers, std::size_t /*max_queued*/) noexcept
      : timers_{timers}, handle_{timers.remote()} {}

  /// Any thread. Returns 0 or a UV_ code.
  template <class F>
  int post_at(clock::time_point when, F call) const noexcept {
    return handle_.post_at(when, call);
  }

  /// How often the loop was woken.
  std::uint64_t wakeups() const noexcept { return timers_.stats().wakeups; }

 private:
  timer_service& timers_;
  remote_handle handle_;
};

}  // namespace tickwheel::bench
