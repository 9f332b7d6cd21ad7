// How loaded a server is, from 0 to 1: one object, set by whoever measures it, read by all timeouts that scale with it.
//
//   tickwheel::load_factor load;
//   idle_.start(tickwheel::idle_limit::scaled(10s, 5min, load));    // every connection
//   load.set(memory_in_use / memory_allowed);                       // once a second, say
//
// Setting it writes one word, however many timers there are: each reads it when it comes up.
#pragma once

#include <uv.h>

#include <atomic>

namespace tickwheel {

/// A number from 0, no load, to 1, as much as can be borne. 0 at first.
///
/// *Thread safety:* any thread, so that one factor may serve several loops. *Complexity:* one relaxed load or store. *Errors:*
/// `set` answers UV_EINVAL for what is no load. *Lifetime:* outlives the timeouts that were started with it, until they are
/// cancelled, started otherwise, or destroyed.
class load_factor {
 public:
  load_factor() noexcept = default;
  load_factor(const load_factor&) = delete;
  load_factor& operator=(const load_factor&) = delete;

  /// 0; UV_EINVAL when `problem(load)` names one, and nothing has changed: a measurement that may overshoot is to be
  /// clamped where it is known what that means.
  int set(double load) noexcept {
    if (problem(load) != nullptr) return UV_EINVAL;
    load_.store(load, std::memory_order_relaxed);
    return 0;
  }

  /// Why it cannot be; null when it can.
  static constexpr const char* problem(double load) noexcept {
    return load >= 0 && load <= 1 ? nullptr : "load_factor: load is not within 0..1";  // NaN compares as neither
  }

  /// What was set last; 0 at first.
  double get() const noexcept { return load_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> load_{0};  // relaxed: nothing else is to be seen with it
};

}  // namespace tickwheel
