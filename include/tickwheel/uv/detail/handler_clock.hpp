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

  /// The stretch begins at `now`, when the counter shows `at`.
  void begin(time_point now, count at) noexcept {
    began_ = ended_ = now;
    first_ = last_ = at;
    per_count_ = 0;
  }

  /// The stretch has ended at `now`, when the counter shows `at`. A counter or a clock that went back has counted nothing.
  void end(time_point now, count at) noexcept {
    ended_ = std::max(began_, now);
    last_ = std::max(first_, at);
    per_count_ =
        last_ > first_ ? static_cast<double>((ended_ - began_).count()) / static_cast<double>(last_ - first_) : 0;
  }

  /// Returns the time of `at`, which is within the stretch. Requires: it has ended.
  time_point time_of(count at) const noexcept {
    const auto passed =
        static_cast<std::int64_t>(static_cast<double>(std::clamp(at, first_, last_) - first_) * per_count_);
    return std::min(began_ + std::chrono::nanoseconds{passed}, ended_);
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
  }

  /// Handlers run from `now` on, the true time: `one` of them at most, or any number.
  void begin(time_point now, bool one) noexcept {
    one_ = one;
    stretch_.begin(now, first_ = one ? count{} : count_at(now));
  }

  /// Returns the present moment. If only one handler runs, it began when the stretch did, because only a few instructions lie between.
  count now() noexcept {
    if (one_) return first_;
    return counts_cycles_ ? cycle_counter::read() : count_of(driver_->now());
  }

  /// The handlers have run until `now`, the true time.
  void end(time_point now) noexcept {
    if (!one_) stretch_.end(now, count_at(now));
  }

  /// Returns the time of a moment between `begin` and `end`.
  time_point time_of(count at) const noexcept { return stretch_.time_of(at); }

  /// Returns the time by the driver. Reads the clock.
  time_point read() noexcept { return driver_->now(); }
  /// Another stretch begins at `now`, the end of this one, with the handlers that are left.
  void go_on(time_point now) noexcept { begin(now, one_); }

 private:
  static count count_of(time_point t) noexcept { return t.time_since_epoch().count(); }
  count count_at(time_point now) const noexcept { return counts_cycles_ ? cycle_counter::read() : count_of(now); }

  driver* driver_ = nullptr;
  bool counts_cycles_ = false;
  bool one_ = false;
  count first_ = 0;
  counted_stretch stretch_;
};

}  // namespace tickwheel::detail
