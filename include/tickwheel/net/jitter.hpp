// Adds a random part to a delay, so that timers do not expire together. A delay never gets shorter.
//
// After an outage all clients connect within a second. Without jitter their keep-alives, their maximum ages and the ends of their
// sessions also fall within one second, again and again.
//
//   tickwheel::jitter spread{0.2};
//   error = max_age_.arm(spread(1h));                // 60 to 72 minutes
//   error = keep_alive_.start(spread(75s, 5s));      // 75 to 80 seconds
//
// It works with everything that takes a delay. For the delays between retries see `backoff`.
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/core/detail/splitmix64.hpp>

#include <chrono>
#include <cstdint>

namespace tickwheel {

/// A source of jitter. Share one among all timers that must not expire together: one per loop is enough.
///
/// *Thread safety:* none; one thread at a time. *Complexity:* O(1), no allocation, no system call. Only a constructor without a
/// seed reads the clock. *Errors:* none. *Lifetime:* a value; a copy continues at the same place in the sequence.
class jitter {
 public:
  /// Adds up to `share` of a delay. The seed is made of the time and the object's address. Requires: `share` is in 0..1. This is
  /// checked: otherwise the process stops with the message of `problem`.
  explicit jitter(double share) noexcept : jitter{share, detail::seed_of(this)} {}

  /// As above, with the reproducible sequence of `seed`, which is the same on any machine.
  jitter(double share, std::uint64_t seed) noexcept : share_{share}, random_{seed} {
    const char* const why = problem(share);
    detail::require(why == nullptr, why);
  }

  /// Returns a message that says why `share` is invalid, or null if it is valid. Use it to check a share that a user has
  /// configured.
  static constexpr const char* problem(double share) noexcept {
    return share >= 0 && share <= 1 ? nullptr : "jitter: share is not within 0..1";
  }

  /// Returns `delay`, any std::chrono duration, or up to `share()` of it longer. Saturates. A delay of zero or less stays as it
  /// is.
  template <class D>
  std::chrono::nanoseconds operator()(D delay) noexcept {
    const auto least = detail::to_nanoseconds(delay);
    return least.count() <= 0 ? least : lengthened(least, detail::share_of(least, share_));
  }

  /// Returns `delay`, or up to `max_extra` longer, whatever the share. Saturates. A `max_extra` of zero or less adds nothing.
  template <class D, class M>
  std::chrono::nanoseconds operator()(D delay, M max_extra) noexcept {
    return lengthened(detail::to_nanoseconds(delay), detail::to_nanoseconds(max_extra));
  }

  /// Returns the share that it was made with.
  double share() const noexcept { return share_; }

 private:
  std::chrono::nanoseconds lengthened(std::chrono::nanoseconds least, std::chrono::nanoseconds max_extra) noexcept {
    return max_extra.count() <= 0 ? least : detail::add_saturating(least, random_.up_to(max_extra));
  }

  double share_;
  detail::splitmix64 random_;
};

}  // namespace tickwheel
