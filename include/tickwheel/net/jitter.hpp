// Spreads what would otherwise come due together: adds a random part to a delay, and never makes it shorter.
//
// After an outage all clients connect within a second. Without jitter their keep-alives, their maximum ages and the end
// of their sessions come within a second, too, for ever after.
//
//   tickwheel::jitter spread{0.2};
//   error = max_age_.arm(spread(1h));                // 60 to 72 minutes
//   error = keep_alive_.start(spread(75s, 5s));      // 75 to 80 seconds
//
// It goes with anything that takes a delay. For the delays between retries see `backoff`.
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/core/detail/splitmix64.hpp>

#include <chrono>
#include <cstdint>

namespace tickwheel {

/// A source of jitter, to be shared by what is to be kept apart: one a loop is enough.
///
/// *Thread safety:* none, one thread at a time. *Complexity:* O(1), no allocation, no system call, no clock read but
/// that of a constructor without a seed. *Errors:* none. *Lifetime:* a value, copied with where it is in its sequence.
class jitter {
 public:
  /// Adds up to `share` of a delay. Requires: `share` is in 0..1 (checked; the process stops with what `problem`
  /// says). Seeded by the time and the object's address.
  explicit jitter(double share) noexcept : jitter{share, detail::seed_of(this)} {}

  /// As above, with the sequence of `seed`, to see it again: the same on any machine.
  jitter(double share, std::uint64_t seed) noexcept : share_{share}, random_{seed} {
    const char* const why = problem(share);
    detail::require(why == nullptr, why);
  }

  /// What is wrong with a share; null when nothing is. Ask it of what a user has configured.
  static constexpr const char* problem(double share) noexcept {
    return share >= 0 && share <= 1 ? nullptr : "jitter: share is not within 0..1";
  }

  /// `delay`, any std::chrono duration, or longer by up to the share of it. Saturates. One of zero or less stays as it
  /// is.
  template <class D>
  std::chrono::nanoseconds operator()(D delay) noexcept {
    const auto least = detail::to_nanoseconds(delay);
    return least.count() <= 0 ? least : lengthened(least, detail::share_of(least, share_));
  }

  /// `delay`, or longer by up to `max_extra`, whatever the share. Saturates. A `max_extra` of zero or less adds nothing.
  template <class D, class M>
  std::chrono::nanoseconds operator()(D delay, M max_extra) noexcept {
    return lengthened(detail::to_nanoseconds(delay), detail::to_nanoseconds(max_extra));
  }

  /// What it was made with.
  double share() const noexcept { return share_; }

 private:
  std::chrono::nanoseconds lengthened(std::chrono::nanoseconds least, std::chrono::nanoseconds max_extra) noexcept {
    return max_extra.count() <= 0 ? least : detail::add_saturating(least, random_.up_to(max_extra));
  }

  double share_;
  detail::splitmix64 random_;
};

}  // namespace tickwheel
