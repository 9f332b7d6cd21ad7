// Random numbers for jitter: SplitMix64. The same seed gives the same sequence on every machine, which the
// distributions of <random> do not promise. It is good enough to spread clients, but not for secrets.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tickwheel::detail {

class splitmix64 {
 public:
  constexpr explicit splitmix64(std::uint64_t seed) noexcept : state_{seed} {}

  constexpr std::uint64_t next() noexcept {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// Returns a number of [0, most], each equally likely. Draws again to avoid a bias to small numbers: less than once
  /// on average.
  constexpr std::uint64_t up_to(std::uint64_t most) noexcept {
    const std::uint64_t count = most + 1;
    if (count == 0) return next();
    const std::uint64_t surplus = (0 - count) % count;  // 2^64 mod count
    std::uint64_t drawn = next();
    while (drawn < surplus) drawn = next();
    return drawn % count;
  }

  /// Returns a duration of [0, most]. Requires: `most` is not negative.
  constexpr std::chrono::nanoseconds up_to(std::chrono::nanoseconds most) noexcept {
    return std::chrono::nanoseconds{static_cast<std::int64_t>(up_to(static_cast<std::uint64_t>(most.count())))};
  }

 private:
  std::uint64_t state_;
};

/// Returns a seed for the object at `self` that differs between objects, processes and runs. It combines the address,
/// which the system randomises, and the current time, which it reads.
inline std::uint64_t seed_of(const void* self) noexcept {
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  splitmix64 mixed{reinterpret_cast<std::uintptr_t>(self)};
  return mixed.next() ^ splitmix64 { now }.next();
}

/// Returns `share` of `whole`, rounded down. It is one multiplication, so the result is the same on all machines with
/// IEEE 754 doubles. Requires: `whole` is not negative; `share` is in 0..1.
constexpr std::chrono::nanoseconds share_of(std::chrono::nanoseconds whole, double share) noexcept {
  if (share >= 1) return whole;
  const double part = static_cast<double>(whole.count()) * share;
  // a whole beyond 2^53 is rounded on the way, perhaps up
  return std::min(whole, std::chrono::nanoseconds{static_cast<std::int64_t>(part)});
}

}  // namespace tickwheel::detail
