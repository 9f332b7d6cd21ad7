// Maps the ticks of a service to the steady clock.
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/core/ticks.hpp>

#include <chrono>
#include <cstdint>

namespace tickwheel::detail {

/// Converts between time points and ticks. Deadlines round up and the present rounds down, so a timer may be late but is never
/// early.
class timeline {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  timeline() noexcept : timeline{{}, tick_length::at_most(std::chrono::nanoseconds{1})} {}
  /// Ticks of `length` from `origin` on. Requires: `origin` is not before the clock's epoch.
  timeline(time_point origin, tick_length length) noexcept
      : before_{add_saturating(origin, std::chrono::nanoseconds{1} - length.duration())},
        length_{length},
        origin_{origin} {}

  tick_length length() const noexcept { return length_; }

  /// Returns the first tick that begins at or after `when`, or 0 for a time before the origin. Every arm calls this.
  tick ceil(time_point when) const noexcept { return ticks_between(before_, when); }

  /// As `ceil`. Requires: `when` is after the origin, and `shift` is `length().shift()`. A caller that has it spares a load.
  tick ceil_after_origin(time_point when, unsigned shift) const noexcept { return since(before_, when) >> shift; }

  /// Returns the tick that is running at `when`, or 0 for a time before the origin.
  tick floor(time_point when) const noexcept { return ticks_between(origin_, when); }

  /// Returns when `t` began. Requires: that is a time_point, as of any tick that has passed.
  time_point begin_of_passed(tick t) const noexcept {
    return origin_ + std::chrono::nanoseconds{static_cast<std::int64_t>(t << length_.shift())};
  }

  /// Returns when `t` begins. Saturates at time_point::max().
  time_point begin_of(tick t) const noexcept { return add_saturating(origin_, length_.begin_of(t)); }

 private:
  tick ticks_between(time_point from, time_point to) const noexcept {
    return to <= from ? 0 : since(from, to) >> length_.shift();
  }

  // The subtraction is unsigned. From a time before the clock's epoch, the farthest time_point is too far for a duration.
  static std::uint64_t since(time_point from, time_point to) noexcept {
    return static_cast<std::uint64_t>(to.time_since_epoch().count()) -
           static_cast<std::uint64_t>(from.time_since_epoch().count());
  }

  time_point before_;  // one tick minus 1 ns before the origin: rounding down from here rounds up
  tick_length length_;
  time_point origin_;
};

}  // namespace tickwheel::detail
