// A deadline is a time budget that is handed down a chain of calls. It is set once, where a request comes in. Each step below
// sees what is left of it.
//
// Hand on the deadline, not a timeout: timeouts of the steps add up, a deadline does not move. A step with a limit of
// its own takes the tighter of the two, and what goes over the wire is what remains, since clocks of two machines
// differ.
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
// It reads no clock by itself: the caller says what time it is, or that it is to be read. Within a loop that is
// `timer_service::now()`, which costs a load, is the time of a manual_driver in a test, and is behind the true time by
// what the callbacks of this iteration took: a budget counts from when the loop saw the request, which is what its
// sender means.
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/driver.hpp>

#include <chrono>
#include <compare>
#include <concepts>

namespace tickwheel {

/// A point in time by which something is to be done, or never. 8 bytes: pass it by value.
///
/// *Thread safety:* a value. *Complexity:* O(1); reads the clock only where it says so. *Errors:* none: what is beyond
/// the range of the clock saturates, to `never()` in the future. *Lifetime:* refers to nothing.
struct deadline {
  /// When it passes; `time_point::max()`: never, as nothing was asked for.
  clock::time_point when = clock::time_point::max();

  /// No limit: looser than any other, and what `tighter` leaves out.
  static constexpr deadline never() noexcept { return {}; }

  /// Passes at `when`.
  static constexpr deadline at(clock::time_point when) noexcept { return {when}; }

  /// Passes once `budget`, any std::chrono duration, rounded up to nanoseconds, has passed since `now`. A budget of
  /// zero or less, or of NaN, has passed already: it is for who asks `passed` to refuse the work. One too long for the
  /// clock never passes.
  template <class D>
  static constexpr deadline after(D budget, clock::time_point now) noexcept {
    return {detail::add_saturating(now, detail::to_nanoseconds(budget))};
  }

  /// As above, from `timers.now()`: the time of the loop iteration, which on a manual_driver is manual time. `timers` is a
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

  /// True for one that does not pass, however late it is.
  constexpr bool is_never() const noexcept { return when == clock::time_point::max(); }

  /// True from that very moment on: nothing is left then.
  constexpr bool passed(clock::time_point now) const noexcept { return !is_never() && now >= when; }
  /// As above, at the true time. Reads the steady clock: not for code that is tested on manual time.
  bool passed() const noexcept { return passed(clock::now()); }

  /// What is left of the budget; zero once it has passed, and never less. `nanoseconds::max()` for one that never does.
  /// Cast it down, not up, to what the wire counts in: who is told a little less gives up in time.
  constexpr std::chrono::nanoseconds remaining(clock::time_point now) const noexcept {
    if (is_never()) return std::chrono::nanoseconds::max();
    if (now >= when) return std::chrono::nanoseconds::zero();
    // of times on both sides of the epoch the difference may not fit
    if (now < clock::time_point{} && when > clock::time_point::max() + now.time_since_epoch())
      return std::chrono::nanoseconds::max();
    return when - now;
  }
  /// As above, at the true time. Reads the steady clock: not for code that is tested on manual time.
  std::chrono::nanoseconds remaining() const noexcept { return remaining(clock::now()); }

  /// The earlier one is less: `std::min` of several is the tightest.
  // NOLINTNEXTLINE(modernize-use-nullptr): there is none
  friend constexpr auto operator<=>(const deadline&, const deadline&) = default;
};

/// The one that passes first: a parent's deadline and a limit of one's own.
constexpr deadline tighter(deadline a, deadline b) noexcept { return a < b ? a : b; }

}  // namespace tickwheel
