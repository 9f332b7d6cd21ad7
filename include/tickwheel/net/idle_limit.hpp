// How long a peer may be idle: a fixed duration, or one between two durations that shrinks as the load of the server grows.
//
//   error = idle_.start(60s);
//   error = idle_.start(tickwheel::idle_limit::scaled(10s, 5min, load));    // five minutes, but ten seconds at full load
//
// `load` is a load_factor: one object that says how loaded the server is, from 0 to 1. The code that measures the load sets it.
// All timeouts that scale with it read it.
//
//   tickwheel::load_factor load;
//   if (load.set(memory_in_use / memory_allowed) != 0) ...          // for instance once per second
//
// Setting it writes one word, whatever the number of timers: each timer reads it when it expires.
//
// Scaling is for idle connections, which cost memory and do no work. The deadline of a request belongs to its client, and should
// not depend on our load.
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>

#include <uv.h>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace tickwheel {

/// A number from 0, no load, to 1, full load. Initially 0.
///
/// *Thread safety:* any thread, so that one factor can serve several loops. *Complexity:* one relaxed load or store. *Errors:*
/// `set` answers UV_EINVAL for an invalid number. *Lifetime:* outlives the timeouts that were started with it, until they are
/// started with another limit, or destroyed. `limit()` and `notify_again()` of a cancelled one still read it.
class load_factor {
 public:
  load_factor() noexcept = default;
  load_factor(const load_factor&) = delete;
  load_factor& operator=(const load_factor&) = delete;

  /// Stores `load`. If a measurement may overshoot, clamp it where its meaning is known.
  ///
  /// 0: it is stored.
  /// UV_EINVAL: `load` is invalid (`problem` says why), and nothing has changed.
  [[nodiscard]] int set(double load) noexcept {
    if (problem(load) != nullptr) return UV_EINVAL;
    load_.store(load, std::memory_order_relaxed);
    return 0;
  }

  /// Returns a message that says why `load` is invalid, or null if it is valid.
  static constexpr const char* problem(double load) noexcept {
    return load >= 0 && load <= 1 ? nullptr : "load_factor: load is not within 0..1";  // false for NaN
  }

  /// Returns the number that was set last; initially 0.
  double get() const noexcept { return load_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> load_{0};  // relaxed: no other data is published with it
};

/// A limit for the idle timeouts. A value.
///
/// *Thread safety:* that of a value; any thread may set the load. *Complexity:* O(1); a scaled limit loads its load. *Errors:* an
/// idle timeout's `start` answers UV_EINVAL for an invalid limit, and `problem` names the field. *Lifetime:* refers to its
/// `load_factor`.
class idle_limit {
 public:
  /// A limit that is the same at any load. Implicit, so that `start(60s)` compiles.
  template <class Rep, class Period>
  idle_limit(std::chrono::duration<Rep, Period> limit) noexcept  // NOLINT(google-explicit-constructor)
      : minimum_{detail::to_nanoseconds(limit)}, maximum_{minimum_} {}

  /// Returns a limit that is `maximum` at a load of 0 and `minimum` at 1, both durations. It is proportional in between.
  template <class Minimum, class Maximum>
  static idle_limit scaled(Minimum minimum, Maximum maximum, const load_factor& load) noexcept {
    return {detail::to_nanoseconds(minimum), detail::to_nanoseconds(maximum), load};
  }
  template <class Minimum, class Maximum>
  static idle_limit scaled(Minimum, Maximum, const load_factor&&) = delete;  // it would be gone before it is read

  /// Returns the limit at the present load.
  std::chrono::nanoseconds now() const noexcept {
    if (load_ == nullptr) return maximum_;
    const std::chrono::nanoseconds range = maximum_ - minimum_;
    const std::chrono::duration<double, std::nano> part{static_cast<double>(range.count()) * (1 - load_->get())};
    return minimum_ + std::min(range, detail::to_nanoseconds(part));
  }

  /// Returns the limit at full load, or the limit itself if it is not scaled.
  std::chrono::nanoseconds minimum() const noexcept { return minimum_; }
  /// Returns the limit without load, or the limit itself if it is not scaled.
  std::chrono::nanoseconds maximum() const noexcept { return maximum_; }
  /// Returns true if the limit follows a `load_factor`.
  bool is_scaled() const noexcept { return load_ != nullptr; }

  /// Returns a message that names the first invalid field, or null if all fields are valid.
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
