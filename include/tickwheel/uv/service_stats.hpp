// What a timer_service counts, always.
//
//   const auto& s = timers.stats();
//   std::printf("%zu armed, p99 lateness %lld us\n", s.pending, (long long)(s.lateness.percentile(0.99) / 1us));
#pragma once

#include <tickwheel/core/log_histogram.hpp>
#include <tickwheel/core/ticks.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tickwheel {

/// How often what took how long. Its unit is a power of two of nanoseconds; it is exact below 16 of them, and to 1/8 of the
/// value above.
///
/// *Thread safety:* a value. *Complexity:* as `log_histogram`, of which it has a copy: 4 KB. *Errors:* none. *Lifetime:* a
/// value.
class duration_histogram {
 public:
  /// Nothing yet, in nanoseconds.
  duration_histogram() noexcept : duration_histogram{{}, tick_length::at_most(std::chrono::nanoseconds{1})} {}
  /// What was recorded in ticks of `length`.
  duration_histogram(const log_histogram& in_ticks, tick_length length) noexcept : ticks_{in_ticks}, length_{length} {}

  /// What `fraction` (0..1) of all did not exceed, or up to 1/8 more; zero when there is none.
  std::chrono::nanoseconds percentile(double fraction) const noexcept {
    return length_.begin_of(ticks_.percentile(fraction));
  }
  /// The longest.
  std::chrono::nanoseconds max() const noexcept { return length_.begin_of(ticks_.max()); }
  /// How many there are.
  std::uint64_t count() const noexcept { return ticks_.count(); }
  /// All together.
  std::chrono::nanoseconds sum() const noexcept { return length_.begin_of(ticks_.sum()); }
  /// How many were no longer than `limit`; exact where that is one unit less than a power of two of them, else at most that
  /// many.
  std::uint64_t count_up_to(std::chrono::nanoseconds limit) const noexcept {
    return limit.count() < 0 ? 0 : ticks_.count_up_to(length_.floor(limit));
  }
  /// What it counts in.
  std::chrono::nanoseconds unit() const noexcept { return length_.duration(); }

 private:
  log_histogram ticks_;
  tick_length length_;
};

/// A snapshot; `armed == fired + cancelled + pending` at any time. Those count timers in the wheel, other threads' included.
/// What other threads posted is counted on its own, too: once the service is closed,
/// `remote_accepted == remote_ran + remote_withdrawn + remote_cancelled`; before, the difference is what is still to come.
struct service_stats {
  std::uint64_t armed = 0;             ///< times an unarmed timer was armed
  std::uint64_t fired = 0;             ///< callbacks that ran
  std::uint64_t cancelled = 0;         ///< cancelled, or still armed when destroyed or when the service closed
  std::size_t pending = 0;             ///< armed now
  std::uint64_t refused = 0;           ///< arms beyond `max_armed`
  std::uint64_t passes = 0;            ///< times the wheel was asked for what is due
  std::uint64_t carried = 0;           ///< passes that left work for the next, since their bound was reached
  std::uint64_t wakeups = 0;           ///< times the loop was woken for us
  std::uint64_t stalls = 0;            ///< loop iterations that took longer than `stall_grace`
  std::chrono::nanoseconds stalled{};  ///< what those took beyond it
  std::uint64_t slow_handlers = 0;     ///< handlers that took `slow_handler` or longer

  std::uint64_t remote_accepted = 0;  ///< operations that other threads posted; may include some being refused just now
  std::uint64_t remote_refused = 0;   ///< of them, not counted in the above, for `max_queued` or `max_armed`
  std::uint64_t remote_ran = 0;       ///< handlers of theirs that ran, delivered on time or from the wheel
  std::uint64_t remote_withdrawn = 0;  ///< cancelled by their remote_timer, and let go
  std::uint64_t remote_cancelled = 0;  ///< not run because the service closed first

  /// How late callbacks ran: from the tick their deadline was rounded up to, to the time the pass was judged by. Of those
  /// from the wheel, the looks that idle timeouts take at their peers included; what other threads posted and was due when
  /// it was taken is not in it.
  duration_histogram lateness;
  /// How long handlers took, those that other threads posted included; and the looks of idle timeouts. Not in it: one that
  /// closed or destroyed its service.
  duration_histogram handler_time;
};

}  // namespace tickwheel
