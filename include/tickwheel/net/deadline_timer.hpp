// Calls a member function of its owner when a deadline passes.
//
// Use it where a `deadline` was handed down. `start` refuses a deadline that has already passed, so that its work need not begin:
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
/// *Thread safety:* as `timer`. *Complexity:* as `timer`; `start` without a time reads the clock. *Errors:* `start` answers a UV_
/// code. *Lifetime:* as `timer`: it may be destroyed at any time, also in its handler.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class deadline_timer : private timer, private detail::member_call<deadline_timer<Member, F>, Member> {
 public:
  using deadline_timer::member_call::handler;         ///< identifies its handler; see `timer::handler`
  using typename deadline_timer::member_call::owner;  ///< the class of the handler

  /// Requires: `self` lives as long as this timer; usually it is the object that embeds it.
  deadline_timer(timer_service& service, owner& self) noexcept
      : timer{service, handler()}, deadline_timer::member_call{self} {}

  /// Calls the handler once `until` has passed. It is never early, and late as `timer::arm` says. Starting a started timer moves
  /// it. Reads the clock.
  ///
  /// `deadline::never()` is accepted. Such a timer is armed as any other, keeps the loop alive, counts in `max_armed`, and never
  /// expires. Call `unref()` so that it does not keep the loop alive.
  ///
  /// 0: it is started. On an error nothing has changed: the handler does not run for `until`, and an earlier deadline still
  /// holds.
  /// UV_ETIMEDOUT: `until` has passed.
  /// UV_ENOBUFS, UV_ECANCELED: as `timer::arm`.
  [[nodiscard]] int start(tickwheel::deadline until) noexcept {
    if (!service().is_open()) return refuse_when_closed();
    return start(until, service().read_clock());
  }

  /// As above, judged by `now`, such as `timer_service::now()`. Reads the clock only if the loop must wake up earlier.
  [[nodiscard]] int start(tickwheel::deadline until, clock::time_point now) noexcept {
    if (!service().is_open()) return refuse_when_closed();
    if (until.passed(now)) return UV_ETIMEDOUT;
    return timer::arm_at(until.when);
  }

  /// Returns true if it was started. Its handler does not run until it is started again.
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
