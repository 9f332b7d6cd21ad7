// Explains why a handler runs late: evidence for the line that a timeout leaves in a log.
//
//   void on_idle() noexcept {
//     std::clog << "closed by its idle limit: " << timers.why() << '\n';
//     close();
//   }
//
// This prints, for instance:
//
//   closed by its idle limit: 3.41 ms late: rounding 0.13, poll 0.90, carried 0.02, stall 2.36 (the loop's own callbacks)
//
// The line tells a silent peer from a slow server. A tick is 0.13 ms long, libuv polls by the millisecond, and some callback kept
// the loop from its timers for 2.36 ms.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/wheel_entry.hpp>
#include <tickwheel/uv/driver.hpp>
#include <tickwheel/uv/named_handler.hpp>

#include <chrono>
#include <cstdint>
#include <iosfwd>

namespace tickwheel {

/// The cause of a stall.
enum class stalled_by : std::uint8_t {
  nobody,  ///< there was no stall
  /// Callbacks of the loop that are not ours: of sockets, or of the user's own handles. libuv does not tell which. Or the system
  /// stopped the process, or had no processor for it.
  loop_callbacks,
  /// A handler of the service: a timer's, or a posted call.
  handler,
};

/// The answer of `timer_service::why()`. Times are on the steady clock.
///
/// `late == rounding + poll + carried + stall`, and `due + late - rounding == ran`.
struct expiry_report {
  /// Identifies a handler: a callback of a timer.
  using handler_id = wheel_entry::callback;

  /// When it was due: the deadline, rounded up to a tick, as `timer::deadline()` returned it. Of a post without a delay: the stamp of
  /// the pass that ran it. Of a zero delay: as `timer::deadline()` returned it, the begin of a tick.
  clock::time_point due{};
  /// When its handler began.
  clock::time_point ran{};

  /// How late it ran, at most: from the time that was asked for. Of a timer with slack: from the time that was chosen within it.
  std::chrono::nanoseconds late{};

  /// The most that lies between the time that was asked for and `due`. One tick for a timer, because it keeps its deadline in ticks.
  /// Zero for a post that ran at once and for a zero delay.
  std::chrono::nanoseconds rounding{};
  /// From `due` until the loop woke. libuv waits by the millisecond, and the kernel may add a thousandth of a wait of up to a
  /// second.
  std::chrono::nanoseconds poll{};
  /// Time that it waited for its turn while other handlers ran and I/O had its turn, or until input was read after a block
  /// (`service_options::io_wait`).
  std::chrono::nanoseconds carried{};
  /// Time that the loop was away from its timers: from the wakeup until the pass began, and later while slow handlers ran
  /// (`service_options::slow_handler`).
  std::chrono::nanoseconds stall{};

  /// The cause with the largest part in `stall`: one handler with all its calls, or the loop's own callbacks. The hook of
  /// `on_slow_handler` counts as one of those.
  stalled_by by = stalled_by::nobody;
  /// How large that part is; zero for `stalled_by::nobody`.
  std::chrono::nanoseconds by_for{};
  /// If `by` is a handler: which one. Compare it with `timer::handler()`. Of a posted call it identifies the callable's type, and
  /// must not be called.
  handler_id handler = nullptr;
};

/// Writes one line without its end, in milliseconds. Throws what the stream throws. Not for a hot path, because streams may
/// allocate.
TICKWHEEL_API void describe(std::ostream&, const expiry_report&, handler_names = nullptr);
/// As `describe`, with the names that tickwheel knows; see `named_handler`.
TICKWHEEL_API std::ostream& operator<<(std::ostream&, const expiry_report&);

}  // namespace tickwheel
