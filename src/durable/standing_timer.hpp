// A timer that keeps its place among `max_armed` while nothing is awaited, so that it is never refused.
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/detail/member_call.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <chrono>

namespace tickwheel::durable::detail {

/// As a `member_timer` that holds no loop. From `open` to `close` it is armed: without a delay, for the end of time. *Lifetime:* as the
/// service's timers. *Complexity:* O(1).
template <auto Member>
class standing_timer : private timer, private tickwheel::detail::member_call<standing_timer<Member>, Member> {
 public:
  using typename standing_timer::member_call::owner;

  /// Requires: `self` lives as long as the timer does.
  standing_timer(timer_service& service, owner& self) noexcept
      : timer{service, standing_timer::member_call::handler()}, standing_timer::member_call{self} {
    timer::unref();
  }

  /// Takes its place. Returns 0, or UV_ECANCELED if the service is closed.
  /// UV_ENOMEM: the service has no place.
  [[nodiscard]] int open() noexcept {
    const int error = timer::arm(std::chrono::nanoseconds::max());
    return error == UV_ENOBUFS ? UV_ENOMEM : error;
  }
  void close() noexcept {
    timer::cancel();
    is_set_ = false;
  }

  /// Calls `Member` after `delay`, and not when it was set before. Does nothing if the service is closed. Requires: it is open.
  void set(std::chrono::nanoseconds delay) noexcept { is_set_ = timer::arm(delay) == 0; }
  /// Calls `Member` after `delay`, or when it was set before, if that is earlier. A timer that is due is not moved: if it were set anew in each
  /// iteration, it would be moved out of each pass. Does nothing if the service is closed. Requires: it is open.
  void set_at_latest(std::chrono::nanoseconds delay) noexcept {
    if (is_set() && timer::deadline() <= tickwheel::detail::add_saturating(timer::service().read_clock(), delay))
      return;
    set(delay);
  }
  /// Calls `Member` no more until it is set again, and keeps its place. Requires: it is open.
  void unset() noexcept {
    static_cast<void>(timer::arm(std::chrono::nanoseconds::max()));  // refused: the service is closed
    is_set_ = false;
  }
  bool is_set() const noexcept { return is_set_ && timer::armed(); }  // a service that closes disarms it

 private:
  friend typename standing_timer::member_call;

  void expired() noexcept {
    is_set_ = false;
    timer::arm_again_at(tickwheel::clock::time_point::max());
    this->call();
  }

  bool is_set_ = false;
};

}  // namespace tickwheel::durable::detail
