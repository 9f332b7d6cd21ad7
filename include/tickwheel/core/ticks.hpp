// Ticks are the wheel's unit of time. This header converts durations to ticks.
//
// A tick is a power of two of nanoseconds, so each conversion is a shift. Deadlines round up and the current time
// rounds down: a timer may be late, but never early.
//
//   constexpr auto length = tickwheel::tick_length::at_most(1ms);   // 2^19 ns = 524,288 ns
//   length.ceil(1'000'000ns)   == 2                                 // a deadline
//   length.floor(1'000'000ns)  == 1                                 // the present
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>

namespace tickwheel {

/// Ticks since the origin of a wheel.
using tick = std::uint64_t;

/// No tick: "not armed", or "nothing to wait for".
inline constexpr tick never = ~tick{0};

/// The last tick that a deadline can have. Later deadlines saturate here. Such a timer is armed, and due at the end of
/// time.
inline constexpr tick last_tick = never - 1;

/// The length of a tick: 2^shift nanoseconds.
///
/// - *Thread safety:* a value.
/// - *Complexity:* each call is one or two shifts.
/// - *Errors:* none.
/// - *Lifetime:* a value.
class tick_length {
 public:
  /// Returns the longest power of two of nanoseconds that is not longer than `wanted`. Requires: `wanted` > 0.
  static constexpr tick_length at_most(std::chrono::nanoseconds wanted) noexcept {
    return tick_length{static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(wanted.count())) - 1)};
  }

  /// Returns the duration of one tick.
  constexpr std::chrono::nanoseconds duration() const noexcept { return std::chrono::nanoseconds{1} * (1LL << shift_); }

  /// Returns log2 of the length in nanoseconds: 0 to 62.
  constexpr unsigned shift() const noexcept { return shift_; }

  /// Returns the first tick that begins at or after `since_origin`, or 0 if that is before the origin.
  constexpr tick ceil(std::chrono::nanoseconds since_origin) const noexcept {
    if (since_origin.count() < 0) [[unlikely]]
      return 0;
    return static_cast<tick>(((since_origin.count() - 1) >> shift_) + 1);  // of -1, all bits stay set
  }

  /// Returns the tick that is running at `since_origin`, or 0 if that is before the origin.
  constexpr tick floor(std::chrono::nanoseconds since_origin) const noexcept {
    if (since_origin.count() <= 0) return 0;
    return static_cast<tick>(since_origin.count()) >> shift_;
  }

  /// Returns when `t` begins, counted from the origin. Saturates at nanoseconds::max().
  constexpr std::chrono::nanoseconds begin_of(tick t) const noexcept {
    constexpr auto limit = static_cast<tick>(std::numeric_limits<std::int64_t>::max());
    if (t > (limit >> shift_)) return std::chrono::nanoseconds::max();
    return std::chrono::nanoseconds{static_cast<std::int64_t>(t << shift_)};
  }

 private:
  constexpr explicit tick_length(unsigned shift) noexcept : shift_{shift} {}

  unsigned shift_;
};

}  // namespace tickwheel
