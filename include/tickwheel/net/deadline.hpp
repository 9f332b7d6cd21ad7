// A deadline is a time budget that is handed down a chain of calls. It is set once, where a request arrives. Each step below sees
// how much of the budget remains.
//
// Pass the deadline on, not a timeout: the timeouts of several steps add up, but a deadline does not move. A step with a limit of
// its own takes the tighter of the two. Send the remaining time over the wire, because the clocks of two machines differ.
//
//   void on_request(request& r) noexcept {
//     r.until = tickwheel::deadline::after(2s, timers);
//     look_up(r.user, r.until);
//   }
//   void look_up(const user& u, tickwheel::deadline until) noexcept {
//     const auto now = timers.now();
//     const auto mine = tighter(until, tickwheel::deadline::after(300ms, now));
//     if (mine.passed(now)) return refuse(u);              // before any work is done
//     send(u, mine.remaining(now));
//     if (answer_timeout.start(mine) != 0) refuse(u);      // a deadline_timer
//   }
//
// A deadline reads no clock by itself: the caller passes the time, or asks for the clock to be read. Within a loop, pass
// `timer_service::now()`. It costs a load, and in a test it is the time of a manual_driver. It is behind the true time by the
// duration of the callbacks of this iteration. A budget then counts from the moment at which the loop saw the request, which is
// what its sender means.
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/driver.hpp>

#include <chrono>
#include <compare>
#include <concepts>

namespace tickwheel {

/// A point in time by which something must be done, or never. 8 bytes: pass it by value.
///
/// *Thread safety:* a value. *Complexity:* O(1). Only the functions that say so read the clock. *Errors:* none. Times beyond the
/// range of the clock saturate; in the future that is `never()`. *Lifetime:* refers to nothing.
struct deadline {
  /// When it passes. `time_point::max()`: it never passes, because no limit was set.
  clock::time_point when = clock::time_point::max();

  /// Returns a deadline without a limit. It is looser than any other, so `tighter` answers the other one.
  static constexpr deadline never() noexcept { return {}; }

  /// Returns a deadline that passes at `when`.
  static constexpr deadline at(clock::time_point when) noexcept { return {when}; }

  /// Returns a deadline that passes once `budget`, any std::chrono duration, has passed since `now`. The budget is rounded up to
  /// nanoseconds. A budget of zero or less, or of NaN, has already passed: code that checks `passed` then refuses the work. A
  /// budget that is too long for the clock never passes.
  template <class D>
  static constexpr deadline after(D budget, clock::time_point now) noexcept {
    return {detail::add_saturating(now, detail::to_nanoseconds(budget))};
  }

  /// As above, from `timers.now()`: the time of the loop iteration, which is manual time on a manual_driver. `timers` is a
  /// timer_service.
  template <class D, class Service>
  requires requires(const Service& timers) {
    { timers.now() } -> std::convertible_to<clock::time_point>;
  }
  static deadline after(D budget, const Service& timers) noexcept { return after(budget, timers.now()); }

  /// As above, from the true time. Reads the steady clock: not for code that is tested on manual time.
  template <class D>
  static deadline after(D budget) noexcept {
    return after(budget, clock::now());
  }

  /// Returns true if the deadline never passes.
  constexpr bool is_never() const noexcept { return when == clock::time_point::max(); }

  /// Returns true at that moment and later: no time remains then.
  constexpr bool passed(clock::time_point now) const noexcept { return !is_never() && now >= when; }
  /// As above, at the true time. Reads the steady clock: not for code that is tested on manual time.
  bool passed() const noexcept { return passed(clock::now()); }

  /// Returns the rest of the budget, zero once it has passed, and `nanoseconds::max()` if it never passes. Round it down to the
  /// unit that is sent, not up: a receiver that is told slightly less gives up in time.
  constexpr std::chrono::nanoseconds remaining(clock::time_point now) const noexcept {
    if (is_never()) return std::chrono::nanoseconds::max();
    if (now >= when) return std::chrono::nanoseconds::zero();
    // the difference may not fit if the times are on both sides of the epoch
    if (now < clock::time_point{} && when > clock::time_point::max() + now.time_since_epoch())
      return std::chrono::nanoseconds::max();
    return when - now;
  }
  /// As above, at the true time. Reads the steady clock: not for code that is tested on manual time.
  std::chrono::nanoseconds remaining() const noexcept { return remaining(clock::now()); }

  /// Compares the times: the earlier deadline is less, so `std::min` of several is the tightest.
  // NOLINTNEXTLINE(modernize-use-nullptr): there is none
  friend constexpr auto operator<=>(const deadline&, const deadline&) = default;
};

/// Returns the one that passes first, for instance of a parent's deadline and a limit of your own.
constexpr deadline tighter(deadline a, deadline b) noexcept { return a < b ? a : b; }

}  // namespace tickwheel
