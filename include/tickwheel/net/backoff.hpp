// How long to wait before the next try: exponentially longer each time, up to a cap, and not all at once.
//
//   tickwheel::backoff wait{{.base = 100ms, .cap = 10s}};
//   int on_connect_failed() noexcept { return reconnect_.arm(wait.next()); }     // up to 100, 200, 400 ms ... 10 s
//   void on_connected() noexcept { wait.reset(); }
//
// Clients that lost the same server at the same time must not come back at the same time: jitter spreads them.
//
//   full       anywhere between now and then: a delay of [d * (1 - jitter), d], by default [0, d]. Spreads best.
//   additive   never earlier than then: [d, d * (1 + jitter)]. For who was told how long to wait.
//   none       d itself, for tests and for a client that is alone
//
// To retry one operation within its deadline and a budget take a `retry_timer`, which has one of these.
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/core/detail/splitmix64.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace tickwheel {

/// Where a delay lies, once chance had its part: see above.
enum class jitter_kind : std::uint8_t {
  none,      ///< the delay itself
  full,      ///< up to the delay: never later
  additive,  ///< from the delay on: never earlier
};

/// An aggregate; the defaults suit a client of a service nearby.
struct backoff_options {
  /// The first delay, before jitter. Must be positive.
  std::chrono::nanoseconds base = std::chrono::milliseconds{100};

  /// The longest delay, before jitter; additive jitter comes on top, as clients that all wait for the cap would meet
  /// there. Must not be shorter than `base`.
  std::chrono::nanoseconds cap = std::chrono::seconds{10};

  /// Each delay is so many times the one before. Must be finite and at least 1.
  double multiplier = 2;

  /// How much of the delay is up to chance, in 0..1.
  double jitter = 1;
  /// Where that part of the delay lies.
  jitter_kind kind = jitter_kind::full;

  /// What is wrong with the first field that is, by its name, such as "backoff_options::cap is shorter than base"; null
  /// when nothing is. Ask it of what a user has configured.
  constexpr const char* problem() const noexcept {
    if (base.count() <= 0) return "backoff_options::base is not positive";
    if (cap < base) return "backoff_options::cap is shorter than base";
    // negated, as NaN compares false with anything
    if (!(multiplier >= 1)) return "backoff_options::multiplier is not a number of at least 1";
    if (multiplier > std::numeric_limits<double>::max()) return "backoff_options::multiplier is not finite";
    if (!(jitter >= 0 && jitter <= 1)) return "backoff_options::jitter is not within 0..1";
    if (kind != jitter_kind::none && kind != jitter_kind::full && kind != jitter_kind::additive)
      return "backoff_options::kind is none of jitter_kind";
    return nullptr;
  }
};

/// A sequence of delays. The same options and seed give the same sequence on any machine whose double is IEEE 754's and
/// computes as such (which the x87 does not).
///
/// *Thread safety:* none, one thread at a time. *Complexity:* O(1), no allocation, no system call, no clock read but
/// that of a constructor without a seed. *Errors:* none. *Lifetime:* a value, copied with where it is in the sequence.
class backoff {
 public:
  /// A sequence unlike others: seeded by the time and the object's address. Requires: `options` are valid (checked; the
  /// process stops with what `problem` says).
  explicit backoff(const backoff_options& options = {}) noexcept : backoff{options, detail::seed_of(this)} {}

  /// As above, with the sequence of `seed`, to see it again.
  backoff(const backoff_options& options, std::uint64_t seed) noexcept
      : options_{options}, step_{options.base}, random_{seed} {
    const char* const why = options.problem();
    detail::require(why == nullptr, why);
  }

  /// How long to wait this time; longer the next. Not negative; full jitter may draw zero. What is beyond the range of
  /// nanoseconds saturates.
  std::chrono::nanoseconds next() noexcept {
    const auto delay = step_;
    step_ = after(delay);
    if (steps_ != std::numeric_limits<unsigned>::max()) ++steps_;
    if (options_.kind == jitter_kind::none) return delay;
    const auto random_part = detail::share_of(delay, options_.jitter);
    const auto drawn = random_.up_to(random_part);
    return options_.kind == jitter_kind::full ? delay - random_part + drawn : detail::add_saturating(delay, drawn);
  }

  /// It went well: the next delay is from `base` again. The random sequence goes on.
  void reset() noexcept {
    step_ = options_.base;
    steps_ = 0;
  }

  /// How many delays there were since the beginning, or `reset`.
  unsigned steps() const noexcept { return steps_; }

  /// What it was made with.
  const backoff_options& options() const noexcept { return options_; }

 private:
  std::chrono::nanoseconds after(std::chrono::nanoseconds step) const noexcept {
    const double grown = static_cast<double>(step.count()) * options_.multiplier;
    if (grown >= static_cast<double>(options_.cap.count())) return options_.cap;
    // not less than before, though a double has fewer digits
    return std::max(step, std::chrono::nanoseconds{static_cast<std::int64_t>(grown)});
  }

  backoff_options options_;
  std::chrono::nanoseconds step_;  // the next delay, before jitter
  detail::splitmix64 random_;
  unsigned steps_ = 0;
};

}  // namespace tickwheel
