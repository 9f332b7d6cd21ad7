// How long a peer may be idle: a duration, or one between two durations that shrinks as the server is loaded.
//
//   error = idle_.start(60s);
//   error = idle_.start(tickwheel::idle_limit::scaled(10s, 5min, load));    // five minutes, but ten seconds at full load
//
// `load` is a load_factor: one object says how loaded the server is, from 0 to 1. Whoever measures the load sets it, and all
// timeouts that scale with it read it.
//
//   tickwheel::load_factor load;
//   if (load.set(memory_in_use / memory_allowed) != 0) ...          // once a second, say
//
// Setting it writes one word, however many timers there are: each reads it when it expires.
//
// Scaling is for idle connections, which cost memory and do nothing; a request's deadline is its client's, and should
// not depend on our load.
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>

#include <uv.h>

#include <algorithm>
#include <atomic>
#include <chrono>

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
  [[nodiscard]] int set(double load) noexcept {
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

/// A value: what the idle timeouts are started with.
///
/// *Thread safety:* that of a value; the load may be set by any thread. *Complexity:* O(1); a scaled one loads its load.
/// *Errors:* `start` answers UV_EINVAL for one that cannot be, and `problem` names the field. *Lifetime:* refers to its
/// `load_factor`.
class idle_limit {
 public:
  /// The same at any load. Implicit, so that `start(60s)` reads as it does.
  template <class Rep, class Period>
  idle_limit(std::chrono::duration<Rep, Period> limit) noexcept  // NOLINT(google-explicit-constructor)
      : minimum_{detail::to_nanoseconds(limit)}, maximum_{minimum_} {}

  /// `maximum` at a load of 0, `minimum` at 1, both durations, in proportion between.
  template <class Minimum, class Maximum>
  static idle_limit scaled(Minimum minimum, Maximum maximum, const load_factor& load) noexcept {
    return {detail::to_nanoseconds(minimum), detail::to_nanoseconds(maximum), load};
  }
  template <class Minimum, class Maximum>
  static idle_limit scaled(Minimum, Maximum, const load_factor&&) = delete;  // gone before it is read

  /// The limit at the present load.
  std::chrono::nanoseconds now() const noexcept {
    if (load_ == nullptr) return maximum_;
    const std::chrono::nanoseconds range = maximum_ - minimum_;
    const std::chrono::duration<double, std::nano> part{static_cast<double>(range.count()) * (1 - load_->get())};
    return minimum_ + std::min(range, detail::to_nanoseconds(part));
  }

  /// The limit at full load; the limit itself if it is not scaled.
  std::chrono::nanoseconds minimum() const noexcept { return minimum_; }
  /// The limit without load; the limit itself if it is not scaled.
  std::chrono::nanoseconds maximum() const noexcept { return maximum_; }
  /// True when it follows a `load_factor`.
  bool is_scaled() const noexcept { return load_ != nullptr; }

  /// The field that cannot be, and why; null when all can.
  const char* problem() const noexcept {
    if (minimum_.count() <= 0)
      return is_scaled() ? "idle_limit: minimum is not positive" : "idle_limit: limit is not positive";
    return maximum_ < minimum_ ? "idle_limit: maximum is below the minimum" : nullptr;
  }

 private:
  idle_limit(std::chrono::nanoseconds minimum, std::chrono::nanoseconds maximum, const load_factor& load) noexcept
      : minimum_{minimum}, maximum_{maximum}, load_{&load} {}

  std::chrono::nanoseconds minimum_;
  std::chrono::nanoseconds maximum_;
  const load_factor* load_ = nullptr;  // null: not scaled
};

}  // namespace tickwheel
