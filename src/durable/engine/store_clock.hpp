// Estimates the store's clock from its answers, on the loop's steady clock.
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/durable/task.hpp>
#include <tickwheel/uv/driver.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace tickwheel::durable::detail {

/// Knows how far the store's clock is ahead of the steady clock, and never takes it for later than it is.
///
/// An answer carries the store's time, and arrives a little later. The difference is therefore never larger than the true one. The
/// largest difference of the last minute is the best. A store clock that was set back makes it too large: call `discard` then.
///
/// *Complexity:* O(1).
class store_clock {
 public:
  using steady_time = tickwheel::clock::time_point;

  /// An answer with the time `store_now` has arrived at `received`.
  void record(durable::clock::time_point store_now, steady_time received) noexcept {
    const auto ahead = since_epoch(store_now) - received.time_since_epoch();
    if (!largest_ || received - since_ >= half) {
      before_ = largest_ && received - since_ < 2 * half ? largest_ : std::nullopt;
      largest_ = ahead;
      since_ = received;
    }
    largest_ = std::max(*largest_, ahead);
  }

  /// An answer with the time `store_now` has arrived, and was asked for at `sent`.
  void record_sent(durable::clock::time_point store_now, steady_time sent) noexcept {
    most_ = since_epoch(store_now) - sent.time_since_epoch();
  }

  /// Forgets all answers. Until the next one the estimate stays as it is.
  void discard() noexcept {
    if (is_known()) last_ = offset();
    largest_.reset();
  }

  /// Returns true once an answer was recorded.
  bool is_known() const noexcept { return largest_ || last_; }

  /// Returns the store's time at `now`, or a little less.
  durable::clock::time_point at(steady_time now) const noexcept {
    return durable::clock::time_point{std::chrono::duration_cast<durable::clock::duration>(sum(now, offset()))};
  }

  /// Returns the store's time at `now`, or a little more; none before `record_sent`. Not less than `at`, which notices sooner that the
  /// store's clock was set forward.
  std::optional<durable::clock::time_point> at_most(steady_time now) const noexcept {
    if (!most_) return std::nullopt;
    return durable::clock::time_point{
        std::chrono::ceil<durable::clock::duration>(sum(now, std::max(*most_, offset())))};
  }

  /// Returns when the store's clock surely shows `when`.
  steady_time reaches(durable::clock::time_point when) const noexcept {
    return steady_time{tickwheel::detail::add_saturating(since_epoch(when), -offset())};
  }

 private:
  static constexpr std::chrono::seconds half{30};

  static std::chrono::nanoseconds since_epoch(durable::clock::time_point when) noexcept {
    return std::chrono::nanoseconds{when.time_since_epoch()};
  }

  static std::chrono::nanoseconds sum(steady_time now, std::chrono::nanoseconds offset) noexcept {
    return tickwheel::detail::add_saturating(std::chrono::nanoseconds{now.time_since_epoch()}, offset);
  }

  std::chrono::nanoseconds offset() const noexcept {
    if (!largest_) return last_.value_or(std::chrono::nanoseconds{});
    return before_ ? std::max(*largest_, *before_) : *largest_;
  }

  std::optional<std::chrono::nanoseconds> largest_;  // of the running half of a minute
  std::optional<std::chrono::nanoseconds> before_;   // of the half before
  steady_time since_{};                              // the begin of the running half
  std::optional<std::chrono::nanoseconds> last_;     // the estimate before `discard`
  std::optional<std::chrono::nanoseconds> most_;     // of the last round trip: not smaller than the true difference
};

}  // namespace tickwheel::durable::detail
