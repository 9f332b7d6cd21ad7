// Counters and histograms of a timer_service. They are always on.
//
//   const auto& s = timers.stats();
//   std::printf("%zu armed, p99 lateness %lld us\n", s.pending, (long long)(s.lateness.percentile(0.99) / 1us));
#pragma once

#include <tickwheel/core/log_histogram.hpp>
#include <tickwheel/core/ticks.hpp>
#include <tickwheel/uv/handler_stats.hpp>
#include <tickwheel/uv/slow_handler.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tickwheel {

/// Counts durations. Its unit is a power of two of nanoseconds. It is exact below 16 units, and to 1/8 of the value above.
///
/// *Thread safety:* a value. *Complexity:* as `log_histogram`, of which it holds a copy: 4 KB. *Errors:* none. *Lifetime:* a
/// value.
class duration_histogram {
 public:
  /// An empty histogram in nanoseconds.
  duration_histogram() noexcept : duration_histogram{{}, tick_length::at_most(std::chrono::nanoseconds{1})} {}
  /// The durations of `in_ticks`, which counts in ticks of `length`.
  duration_histogram(const log_histogram& in_ticks, tick_length length) noexcept : ticks_{in_ticks}, length_{length} {}

  /// Returns a duration that `fraction` (0..1) of all do not exceed, rounded up by at most 1/8; zero if the histogram is empty.
  std::chrono::nanoseconds percentile(double fraction) const noexcept {
    return length_.begin_of(ticks_.percentile(fraction));
  }
  /// Returns the longest duration.
  std::chrono::nanoseconds max() const noexcept { return length_.begin_of(ticks_.max()); }
  /// Returns the number of durations.
  std::uint64_t count() const noexcept { return ticks_.count(); }
  /// Returns the sum of all durations.
  std::chrono::nanoseconds sum() const noexcept { return length_.begin_of(ticks_.sum()); }
  /// Returns how many durations are not longer than `limit`. Exact if `limit` is one unit less than a power of two of units;
  /// otherwise it may be fewer than there are.
  std::uint64_t count_up_to(std::chrono::nanoseconds limit) const noexcept {
    return limit.count() < 0 ? 0 : ticks_.count_up_to(length_.floor(limit));
  }
  /// Returns the length of a unit.
  std::chrono::nanoseconds unit() const noexcept { return length_.duration(); }

 private:
  log_histogram ticks_;
  tick_length length_;
};

/// A snapshot. `armed == fired + cancelled + pending` at any time. Those four count all timers in the wheel, also those of other
/// threads. The `remote_` fields count posted operations. Once the service is closed, `remote_accepted == remote_ran +
/// remote_withdrawn + remote_cancelled`; before that the difference is the number of operations that have not ended.
struct service_stats {
  std::uint64_t armed = 0;             ///< times an unarmed timer was armed
  std::uint64_t fired = 0;             ///< callbacks that ran
  std::uint64_t cancelled = 0;         ///< timers cancelled, or still armed when they or the service ended
  std::size_t pending = 0;             ///< timers armed now
  std::uint64_t refused = 0;           ///< arms beyond `max_armed`
  std::uint64_t passes = 0;            ///< passes, which run what is due
  std::uint64_t carried = 0;           ///< passes that left work for the next because they reached a bound
  std::uint64_t wakeups = 0;           ///< times the loop was woken for this service
  std::uint64_t stalls = 0;            ///< loop iterations that took longer than `stall_grace`
  std::chrono::nanoseconds stalled{};  ///< time that those took beyond it
  std::uint64_t slow_handlers = 0;     ///< handlers that took `slow_handler` or longer

  std::uint64_t remote_accepted = 0;  ///< operations that other threads posted; may include some being refused just now
  std::uint64_t remote_refused = 0;   ///< operations refused for `max_queued` or `max_armed`; not counted in the above
  std::uint64_t remote_ran = 0;       ///< operations whose callable ran
  std::uint64_t remote_withdrawn = 0;  ///< operations cancelled by their remote_timer
  std::uint64_t remote_cancelled = 0;  ///< operations that did not run because the service closed first
  std::uint64_t remote_queued = 0;     ///< operations that the loop has not taken yet, or is refusing just now

  /// How late callbacks of the wheel ran: from the tick to which the deadline was rounded up, to the time as of which the pass
  /// judged. Includes the checks of idle timeouts, and timers that another thread cancelled just when they expired. Does not include
  /// posted calls that were due when they were taken.
  duration_histogram lateness;
  /// How long handlers took. Includes posted calls and the checks of idle timeouts. Does not include a handler that closed or
  /// destroyed its service.
  duration_histogram handler_time;

  /// Time of the loop outside of its polls, in iterations that have ended. `busy / (busy + idle)` tells how busy the loop is. Time
  /// outside `uv_run` is in neither. Between two calls of UV_RUN_ONCE or UV_RUN_NOWAIT on a loop that is alive it is busy time.
  /// On a `manual_driver` it is exact. On a loop the busy time of an iteration begins at the first touch, `now()` or pass in it.
  /// Without these it begins when libuv's own time says, rounded up to a millisecond. So an iteration in which the service was not
  /// used counts up to a millisecond too little.
  std::chrono::nanoseconds busy{};
  std::chrono::nanoseconds idle{};  ///< time of the loop in its polls
  /// How long each iteration of the loop was busy. `max()` is the longest one. An iteration whose poll ends because a timer is due may
  /// count as two: one until the timers are judged, and one after that.
  duration_histogram iterations;
  /// The slow handler that took most of the longest iteration, with all its calls in it. Null and zero: none of its handlers was slow
  /// (`slow_handler`), so that other callbacks of the loop took the time.
  slow_handler slowest_in_longest{};

  /// The slow calls of each handler, or all calls with `service_options::count_handlers`. Not a snapshot: copy the stats to keep them.
  handler_table handlers;

  std::size_t max_armed = 0;   ///< the option
  std::size_t max_queued = 0;  ///< the option
};

}  // namespace tickwheel
