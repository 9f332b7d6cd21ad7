// Calls a member function of its owner when a deadline passes.
//
// Use it where a `deadline` was handed down. One that has passed already is refused by `start`, so that the work it was
// to bound need not begin:
//
//   class query {
//    public:
//     query(tickwheel::timer_service& timers) : timeout_{timers, *this} {}
//     int run(tickwheel::deadline until) noexcept {
//       if (const int error = timeout_.start(until)) return error;     // UV_ETIMEDOUT: nothing was sent
//       return send();
//     }
//     void on_answer() noexcept { timeout_.cancel(); }
//    private:
//     void on_too_late() noexcept;      // may `delete this`
//     tickwheel::deadline_timer<&query::on_too_late> timeout_;
//   };
#pragma once

#include <tickwheel/net/deadline.hpp>
#include <tickwheel/uv/timer.hpp>

namespace tickwheel {

/// A timer that is due when a deadline passes. 56 bytes.
///
/// *Thread safety:* as `timer`. *Complexity:* as `timer`; `start` reads the clock unless it is told the time. *Errors:* as
/// `start` says. *Lifetime:* as `timer`: may be destroyed at any time, in its handler too.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class deadline_timer : private timer, private detail::member_call<deadline_timer<Member, F>, Member> {
 public:
  using deadline_timer::member_call::handler;         ///< tells its handler from others; see `timer::handler`
  using typename deadline_timer::member_call::owner;  ///< the class that `Member` is of

  /// Requires: `self` lives as long as this does; usually it is the object that embeds it.
  deadline_timer(timer_service& service, owner& self) noexcept
      : timer{service, handler()}, deadline_timer::member_call{self} {}

  /// Calls the handler once `until` has passed: never before, late as `timer::arm` says. Starting a started one moves
  /// it. `deadline::never()` is accepted: it is armed as any other, holds the loop and its place among the armed
  /// timers, and does not come. (`unref()` one that is to hold nothing.)
  ///
  /// 0; UV_ETIMEDOUT when `until` has passed; UV_ENOBUFS, UV_ECANCELED as `timer::arm`. On an error nothing has
  /// changed: the handler does not run for it, and a deadline from before still holds. Reads the clock.
  [[nodiscard]] int start(tickwheel::deadline until) noexcept {
    if (!service().is_open()) return UV_ECANCELED;
    return start(until, service().read_clock());
  }

  /// As above, with the time to judge by, such as `timer_service::now()`. Reads no clock.
  [[nodiscard]] int start(tickwheel::deadline until, clock::time_point now) noexcept {
    if (!service().is_open()) return UV_ECANCELED;
    if (until.passed(now)) return UV_ETIMEDOUT;
    return timer::arm_at(until.when);
  }

  /// True when it was started. Afterwards the handler does not run until it is started again.
  bool cancel() noexcept { return timer::cancel(); }

  using timer::armed;
  using timer::callback;
  using timer::deadline;
  using timer::has_ref;  ///< as of `timer`
  using timer::ref;      ///< as of `timer`
  using timer::unref;    ///< as of `timer`

 private:
  friend typename deadline_timer::member_call;
};

namespace detail {

template <auto Member, class F>
inline constexpr bool stays_in_place<deadline_timer<Member, F>> = true;

}  // namespace detail
}  // namespace tickwheel
