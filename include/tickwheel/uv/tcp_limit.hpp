// The limit of an operation of awaitable_tcp.hpp: a duration, a time point, a deadline, or none.
//
//   co_await socket.read(buffer, 30s);
//   co_await socket.read(buffer, timers.now() + 30s);
//   co_await socket.read(buffer, until);              // a tickwheel::deadline
//   co_await socket.read(buffer);
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/driver.hpp>

#include <chrono>
#include <concepts>

namespace tickwheel {

/// The limit of an operation of a socket: none, a duration, or a time point. All of them convert to it.
///
/// *Thread safety:* a value. *Complexity:* O(1). *Errors:* none. *Lifetime:* refers to nothing.
class tcp_limit {
 public:
  /// No limit.
  constexpr tcp_limit() noexcept = default;

  /// A limit of `length`, any std::chrono duration, from the time at which the operation begins to wait. It then reads the clock,
  /// and moves `timer_service::now()` to that time.
  template <class Rep, class Period>
  // NOLINTNEXTLINE(google-explicit-constructor): callers pass a duration
  constexpr tcp_limit(std::chrono::duration<Rep, Period> length) noexcept
      : end_{detail::to_nanoseconds(length)}, is_length_{true} {}

  /// A limit that ends at `until`. `time_point::max()` is no limit. The operation reads the clock only if the loop must wake up earlier.
  // NOLINTNEXTLINE(google-explicit-constructor): callers pass a time point
  constexpr tcp_limit(clock::time_point until) noexcept : end_{until.time_since_epoch()} {}

  /// As above, until the time of a `tickwheel::deadline`.
  template <class Deadline>
  requires requires(const Deadline& d) {
    { d.when } -> std::convertible_to<clock::time_point>;
  }
  // NOLINTNEXTLINE(google-explicit-constructor): callers pass a deadline
  constexpr tcp_limit(const Deadline& until) noexcept : tcp_limit{clock::time_point{until.when}} {}

  /// Returns true if there is no limit.
  constexpr bool is_none() const noexcept { return end_ == std::chrono::nanoseconds::max(); }
  /// Returns true if it is a duration.
  constexpr bool is_length() const noexcept { return is_length_; }
  /// Returns the duration. Requires: it is one.
  constexpr std::chrono::nanoseconds length() const noexcept { return end_; }
  /// Returns the time point. Requires: it is not a duration.
  constexpr clock::time_point until() const noexcept { return clock::time_point{end_}; }

 private:
  std::chrono::nanoseconds end_ = std::chrono::nanoseconds::max();  // since the await, or since the clock's epoch
  bool is_length_ = false;
};

}  // namespace tickwheel
