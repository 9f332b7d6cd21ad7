// Counts by handler: which one takes the loop's time, and which one runs late.
//
//   for (const tickwheel::handler_stats& one : timers.stats().handlers.all())
//     std::clog << tickwheel::handler_name{one.handler} << ": " << one.slow_calls << " slow calls\n";
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/uv/expiry_report.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tickwheel {

/// The calls of one handler since the service was opened.
struct handler_stats {
  /// As `timer::handler()` returns it. Null: all handlers that have no place of their own.
  expiry_report::handler_id handler = nullptr;

  std::uint64_t slow_calls = 0;          ///< calls that took `service_options::slow_handler` or longer
  std::chrono::nanoseconds slow_time{};  ///< how long those took
  std::chrono::nanoseconds longest{};    ///< the longest call; only slow ones count, unless all are counted

  std::uint64_t calls = 0;          ///< all calls; 0 without `service_options::count_handlers`
  std::chrono::nanoseconds time{};  ///< how long those took
  std::chrono::nanoseconds late{};  ///< the sum of how late they began, as `expiry_report::late` without `rounding`
};

/// The counts of each handler. The first 64 handlers have a place of their own, and all others share one.
///
/// *Thread safety:* a value. *Complexity:* O(1). *Errors:* none. *Lifetime:* a value of 4 KB.
class TICKWHEEL_API handler_table {
 public:
  /// The number of handlers that have a place of their own.
  static constexpr std::size_t capacity = 64;

  /// Returns the counts of each handler, in the order in which they were first counted. The last may be the place that others share.
  std::span<const handler_stats> all() const noexcept { return std::span{places_}.first(used_); }

  /// Returns the counts of `handler`. They begin with its first call of this function.
  handler_stats& of(expiry_report::handler_id handler) noexcept;

 private:
  static constexpr std::size_t buckets = 2 * capacity;

  std::array<handler_stats, capacity + 1> places_{};
  std::array<std::uint8_t, buckets> bucket_{};  // the place of a handler, counted from 1; 0: none
  std::size_t used_ = 0;
};

}  // namespace tickwheel
