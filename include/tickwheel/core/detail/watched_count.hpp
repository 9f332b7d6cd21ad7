// A count that tells when it has reached a number.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tickwheel::detail {

/// Counts up from 0. A caller may watch it until it has grown by a given number; at first nobody does. The object stores
/// how many more counts are possible before that. One subtraction counts, and its sign tells whether the number is
/// reached.
///
/// *Thread safety:* none. *Complexity:* O(1).
class watched_count {
 public:
  /// Returns the count.
  std::uint64_t value() const noexcept { return watched_ - 1 - static_cast<std::uint64_t>(before_); }

  void operator++() noexcept { --before_; }
  /// Takes back the last count. Requires: there is one.
  void operator--() noexcept { ++before_; }

  /// From now on, `reached` returns true once it has grown by `more`; 0: at once. More than 2^62 count as 2^62, which is
  /// never reached in practice.
  void watch(std::uint64_t more) noexcept {
    const std::uint64_t now = value();
    before_ = static_cast<std::int64_t>(std::min(more, most)) - 1;
    watched_ = now + 1 + static_cast<std::uint64_t>(before_);
  }

  /// As `watch`, unless an earlier number is watched.
  void watch_within(std::uint64_t more) noexcept {
    if (!reached() && more < left()) watch(more);
  }

  /// Returns true once it has grown as `watch` said.
  bool reached() const noexcept { return before_ < 0; }

  /// Returns how many more counts it takes until `reached`. Requires: not reached.
  std::uint64_t left() const noexcept { return static_cast<std::uint64_t>(before_) + 1; }

 private:
  static constexpr std::uint64_t most = std::uint64_t{1} << 62;

  std::int64_t before_ = most - 1;  // how many more counts do not reach it yet; below 0: reached
  std::uint64_t watched_ = most;
};

}  // namespace tickwheel::detail
