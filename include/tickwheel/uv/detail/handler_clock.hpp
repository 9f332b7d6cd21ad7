// Tells when handlers began and ended, without a clock read for each.
#pragma once

#include <tickwheel/uv/detail/cycle_counter.hpp>
#include <tickwheel/uv/driver.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tickwheel::detail {

/// A stretch of time, known at both ends by the steady clock. Moments within it are counts, and are known as times once it has ended.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1). Reads no clock.
class counted_stretch {
 public:
  using time_point = clock::time_point;
  /// A moment, by a counter whose rate is unknown.
  using count = std::int64_t;

  counted_stretch() = default;
  /// `per_count` nanoseconds pass per count, as far as it is known before a stretch has ended. 0: it is not known.
  explicit counted_stretch(double per_count) noexcept : per_count_{per_count} {}

  /// The stretch begins at `now`, when the counter shows `at`.
  void begin(time_point now, count at) noexcept {
    began_ = ended_ = now;
    first_ = last_ = at;
  }

  /// Returns the count that the counter shows when about `time` of the stretch has passed. It is judged by the stretch before, so
  /// it only tells when to read the clock. If nothing is known, it is as good as never. Requires: the stretch has begun.
  std::uint64_t moment_after(std::chrono::nanoseconds time) const noexcept {
    const double counts = std::min((static_cast<double>(time.count()) + 1) / per_count_, 0x1p62);
    return static_cast<std::uint64_t>(first_) + static_cast<std::uint64_t>(static_cast<count>(counts));
  }

  /// The stretch has ended at `now`, when the counter shows `at`. A counter or a clock that went back has counted nothing.
  void end(time_point now, count at) noexcept {
    ended_ = std::max(began_, now);
    last_ = std::max(first_, at);
    if (last_ > first_)
      per_count_ = static_cast<double>((ended_ - began_).count()) / static_cast<double>(last_ - first_);
  }

  /// Returns the time of `at`, which is within the stretch. Requires: it has ended.
  time_point time_of(count at) const noexcept {
    const double passed = static_cast<double>(std::clamp(at, first_, last_) - first_) * per_count_;
    return std::min(began_ + std::chrono::nanoseconds{static_cast<std::int64_t>(std::min(passed, 0x1p62))}, ended_);
  }

 private:
  time_point began_{}, ended_{};
  count first_ = 0, last_ = 0;
  double per_count_ = 0;  // nanoseconds
};

/// Counts by the processor's cycle counter if it has one, and if the driver's clock is the steady clock. Otherwise by that clock, and
/// then every count is exact.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1). *Lifetime:* the driver outlives its use.
class handler_clock {
 public:
  using time_point = clock::time_point;
  using count = counted_stretch::count;

  void open(driver& on) noexcept {
    driver_ = &on;
    counts_cycles_ = on.on_steady_clock() && cycle_counter::is_steady();
    stretch_ = counted_stretch{counts_cycles_ ? 0.0 : 1.0};
  }

  /// Handlers run from `now` on, the true time.
  void begin(time_point now) noexcept { stretch_.begin(now, count_at(now)); }

  /// See `counted_stretch::moment_after`.
  std::uint64_t moment_after(std::chrono::nanoseconds time) const noexcept { return stretch_.moment_after(time); }

  /// Returns the present moment.
  count now() noexcept { return counts_cycles_ ? cycle_counter::read() : count_of(driver_->now()); }

  /// The handlers have run until `now`, the true time.
  void end(time_point now) noexcept { stretch_.end(now, count_at(now)); }

  /// Returns the time of a moment between `begin` and `end`.
  time_point time_of(count at) const noexcept { return stretch_.time_of(at); }

  /// Returns the time by the driver. Reads the clock.
  time_point read() noexcept { return driver_->now(); }
  /// Another stretch begins at `now`, the end of this one, with the handlers that are left.
  void go_on(time_point now) noexcept { begin(now); }

 private:
  static count count_of(time_point t) noexcept { return t.time_since_epoch().count(); }
  count count_at(time_point now) const noexcept { return counts_cycles_ ? cycle_counter::read() : count_of(now); }

  driver* driver_ = nullptr;
  bool counts_cycles_ = false;
  counted_stretch stretch_;
};

}  // namespace tickwheel::detail
