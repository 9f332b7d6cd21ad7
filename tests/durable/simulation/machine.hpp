// A machine: a clock of its own, and a service whose timers go by it.
#pragma once

#include "units.hpp"

#include <tickwheel/uv/manual_driver.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace simulation {

/// A steady clock that is fast or slow by `drift` millionths, and may stand still.
class drifting_clock {
 public:
  drifting_clock(nanos shows, std::int64_t drift) noexcept : base_{shows}, drift_{drift} {}

  /// Returns the time that it shows at the true time `t`.
  nanos at(nanos t) const noexcept {
    if (is_held_) return base_;
    const nanos passed = t - since_;
    return base_ + passed + passed / 1'000'000 * drift_;
  }
  /// Returns the first true time, from `t` on, at which it shows `shown` or more; `never` while it stands still before that.
  nanos when(nanos shown, nanos t) const noexcept {
    for (nanos left = shown - at(t); left > 0; left = shown - at(t)) {
      if (is_held_) return never;
      t += drift_ == 0 ? left : std::max<nanos>(1, left - left / 32);  // not too far: drifts are small
    }
    return t;
  }
  void hold(nanos t) noexcept {
    base_ = at(t);
    is_held_ = true;
  }
  void release(nanos t) noexcept {
    since_ = t;
    is_held_ = false;
  }

 private:
  nanos base_;
  nanos since_ = 0;
  std::int64_t drift_;
  bool is_held_ = false;
};

class machine {
 public:
  /// Its clock shows `shows` at the begin of the simulation.
  machine(nanos shows, std::int64_t drift)
      : clock{shows, drift}, time_{tickwheel::clock::time_point{std::chrono::nanoseconds{shows}}} {
    if (timers.open(time_) != 0) std::abort();
  }
  ~machine() { timers.close(); }
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  /// Lets its timers run that expire until the true time `t`.
  void catch_up(nanos t) { time_.advance(std::chrono::nanoseconds{clock.at(t) - shown()}); }
  /// Its process was stopped until the true time `t`: its clock has gone on, and nothing has run.
  void oversleep(nanos t) { time_.oversleep(std::chrono::nanoseconds{clock.at(t) - shown()}); }
  /// Returns the true time, from `t` on, at which its timers have something to do.
  nanos next(nanos t) noexcept {
    const nanos now = shown();
    const auto wake = time_.next_wakeup();
    if (time_.carrying() || wake.time_since_epoch().count() <= now) return clock.when(now + short_poll, t);
    if (wake == tickwheel::clock::time_point::max()) return never;
    return clock.when(std::chrono::nanoseconds{wake.time_since_epoch()}.count(), t);
  }
  /// Returns the time of its clock, as of the last `catch_up`.
  nanos shown() noexcept { return std::chrono::nanoseconds{time_.now().time_since_epoch()}.count(); }

  drifting_clock clock;

 private:
  static constexpr nanos short_poll = 100 * us;  // of manual_driver
  tickwheel::manual_driver time_;

 public:
  tickwheel::timer_service timers;
};

}  // namespace simulation
