// Delays between tries: exponentially longer each time, up to a cap, and spread by jitter.
//
//   tickwheel::backoff wait{{.base = 100ms, .cap = 10s}};
//   int on_connect_failed() noexcept { return reconnect_.arm(wait.next()); }     // up to 100, 200, 400 ms ... 10 s
//   void on_connected() noexcept { wait.reset(); }
//
// Clients that lost the same server at the same time must not return at the same time. Jitter spreads them:
//
//   full       between now and the delay: [d * (1 - jitter), d], by default [0, d]. Spreads best.
//   additive   never earlier than the delay: [d, d * (1 + jitter)]. For a client that was told how long to wait.
//   none       d itself. For tests, and for a client that is the only one.
//
// To retry one operation within its deadline and a budget, use a `retry_timer`. It contains a backoff.
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/core/detail/splitmix64.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace tickwheel {

/// The kind of jitter: where a delay lies after it was randomized. The table above has the ranges.
enum class jitter_kind : std::uint8_t {
  none,      ///< the delay itself
  full,      ///< up to the delay: never later
  additive,  ///< from the delay on: never earlier
};

/// The options of a backoff. An aggregate; the defaults suit a client of a nearby service.
struct backoff_options {
  /// The first delay, before jitter. Must be positive.
  std::chrono::nanoseconds base = std::chrono::milliseconds{100};

  /// The longest delay, before jitter. Additive jitter may exceed it: otherwise clients that all wait for the cap would meet
  /// there. Must not be shorter than `base`.
  std::chrono::nanoseconds cap = std::chrono::seconds{10};

  /// The factor from one delay to the next. Must be finite and at least 1.
  double multiplier = 2;

  /// The random part of a delay, as a share of the delay in 0..1.
  double jitter = 1;
  /// Decides where the random part lies.
  jitter_kind kind = jitter_kind::full;

  /// Returns a message that names the first invalid field, such as "backoff_options::cap is shorter than base". Returns null if
  /// all fields are valid. Use it to check options that a user has configured.
  constexpr const char* problem() const noexcept {
    if (base.count() <= 0) return "backoff_options::base is not positive";
    if (cap < base) return "backoff_options::cap is shorter than base";
    // negated, because NaN compares false with anything
    if (!(multiplier >= 1)) return "backoff_options::multiplier is not a number of at least 1";
    if (multiplier > std::numeric_limits<double>::max()) return "backoff_options::multiplier is not finite";
    if (!(jitter >= 0 && jitter <= 1)) return "backoff_options::jitter is not within 0..1";
    if (kind != jitter_kind::none && kind != jitter_kind::full && kind != jitter_kind::additive)
      return "backoff_options::kind is none of jitter_kind";
    return nullptr;
  }
};

/// A sequence of delays. The same options and seed give the same sequence on any machine whose double conforms to IEEE 754 and is
/// computed in that precision. The x87 does not do that.
///
/// *Thread safety:* none; one thread at a time. *Complexity:* O(1), no allocation, no system call. Only a constructor without a
/// seed reads the clock. *Errors:* none. *Lifetime:* a value; a copy continues at the same place in the sequence.
class backoff {
 public:
  /// Begins a sequence of its own: the seed is made of the time and the object's address. Requires: `options` are valid. This is
  /// checked: otherwise the process stops with the message of `problem`.
  explicit backoff(const backoff_options& options = {}) noexcept : backoff{options, detail::seed_of(this)} {}

  /// As above, with the reproducible sequence of `seed`.
  backoff(const backoff_options& options, std::uint64_t seed) noexcept
      : options_{options}, step_{options.base}, random_{seed} {
    const char* const why = options.problem();
    detail::require(why == nullptr, why);
  }

  /// Returns the delay to wait now, and moves on to the next one. Not negative; full jitter may answer zero. Delays beyond the
  /// range of nanoseconds saturate. With a multiplier above one, delays grow by at least a nanosecond.
  std::chrono::nanoseconds next() noexcept {
    const auto delay = step_;
    step_ = after(delay);
    if (steps_ != std::numeric_limits<unsigned>::max()) ++steps_;
    if (options_.kind == jitter_kind::none) return delay;
    const auto random_part = detail::share_of(delay, options_.jitter);
    const auto drawn = random_.up_to(random_part);
    return options_.kind == jitter_kind::full ? delay - random_part + drawn : detail::add_saturating(delay, drawn);
  }

  /// Reports success: the next delay starts at `base` again. The random sequence goes on.
  void reset() noexcept {
    step_ = options_.base;
    steps_ = 0;
  }

  /// Returns how many delays `next` has answered since construction or `reset`.
  unsigned steps() const noexcept { return steps_; }

  /// Returns the options that it was made with.
  const backoff_options& options() const noexcept { return options_; }

 private:
  std::chrono::nanoseconds after(std::chrono::nanoseconds step) const noexcept {
    const double grown = static_cast<double>(step.count()) * options_.multiplier;
    if (grown >= static_cast<double>(options_.cap.count())) return options_.cap;
    // a double has fewer digits, and what it has after the point is dropped
    const std::chrono::nanoseconds least = options_.multiplier > 1 ? step + std::chrono::nanoseconds{1} : step;
    return std::max(least, std::chrono::nanoseconds{static_cast<std::int64_t>(grown)});
  }

  backoff_options options_;
  std::chrono::nanoseconds step_;  // the next delay, before jitter
  detail::splitmix64 random_;
  unsigned steps_ = 0;
};

}  // namespace tickwheel
