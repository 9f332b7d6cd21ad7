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

/// How late callbacks ran: from the tick their deadline was rounded up to, to the time the pass was judged by.
///
/// Resolution is one tick below 16 ticks and 1/8 of the value above.
class lateness_histogram {
 public:
  lateness_histogram(const log_histogram& in_ticks, tick_length length) noexcept : ticks_{in_ticks}, length_{length} {}

  /// An upper bound of the lateness of `fraction` (0..1) of all callbacks; zero when none ran.
  std::chrono::nanoseconds percentile(double fraction) const noexcept {
    return length_.begin_of(ticks_.percentile(fraction));
  }
  /// The worst lateness.
  std::chrono::nanoseconds max() const noexcept { return length_.begin_of(ticks_.max()); }
  /// How many callbacks ran.
  std::uint64_t count() const noexcept { return ticks_.count(); }

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

  std::uint64_t remote_accepted = 0;  ///< operations that other threads posted; may include some being refused just now
  std::uint64_t remote_refused = 0;   ///< of them, not counted in the above, for `max_queued` or `max_armed`
  std::uint64_t remote_ran = 0;       ///< handlers of theirs that ran, delivered on time or from the wheel
  std::uint64_t remote_withdrawn = 0;  ///< cancelled by their remote_timer, and let go
  std::uint64_t remote_cancelled = 0;  ///< not run because the service closed first

  /// Of the callbacks from the wheel; what other threads posted and was due when it was taken is not in it.
  lateness_histogram lateness{{}, tick_length::at_most(std::chrono::nanoseconds{1})};
};

}  // namespace tickwheel
