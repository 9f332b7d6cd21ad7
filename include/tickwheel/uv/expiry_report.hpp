// Why a handler runs, and why only now: evidence for the line that a timeout leaves in a log.
//
//   void on_idle() noexcept {
//     std::clog << "closed by its idle limit: " << timers.why() << '\n';
//     close();
//   }
//
// prints something like
//
//   closed by its idle limit: 3.41 ms late: rounding 0.13, poll 0.90, carried 0.02, stall 2.36 (the loop's own callbacks)
//
// which tells a peer that was silent from a server that was slow: the handler ran 3.41 ms after what was asked for, because a
// tick is 0.13 ms long, libuv polls by the millisecond, and somebody's callback kept the loop from us for 2.36.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/wheel_entry.hpp>
#include <tickwheel/uv/driver.hpp>

#include <chrono>
#include <cstdint>
#include <iosfwd>

namespace tickwheel {

/// Who kept the loop from a handler that was due.
enum class stalled_by : std::uint8_t {
  nobody,  ///< it was not kept
  /// Callbacks of the loop that are not ours: of sockets, of the user's own handles. Which of them, libuv does not tell. Or
  /// the system, which stopped the process, or had no processor for it.
  loop_callbacks,
  /// A handler of the service's: a timer's, or one that another thread posted.
  handler,
};

/// What `timer_service::why()` answers. Times are on the steady clock.
///
/// `late == rounding + poll + carried + stall`, and `due + late - rounding == ran`.
struct expiry_report {
  /// Tells handlers apart: a callback of a timer.
  using handler_id = wheel_entry::callback;

  /// When it was due: what was asked for, rounded up to a tick; what `timer::deadline()` said. Of a post without a delay:
  /// the stamp of the pass that ran it. Of a zero delay: a time shortly before it was armed.
  clock::time_point due{};
  /// When its handler began.
  clock::time_point ran{};

  /// How long that was after what was asked for, at most; of a timer with a slack, after what was chosen within it.
  std::chrono::nanoseconds late{};

  /// At most so much lies between what was asked for and `due`: a tick, as a timer keeps no more than that of its
  /// deadline; nothing where the deadline was kept in full, as of a post that ran at once, and of a zero delay.
  std::chrono::nanoseconds rounding{};
  /// From `due` until the loop woke up: it waits by the millisecond, and the kernel may add a thousandth of a wait of
  /// up to a second.
  std::chrono::nanoseconds poll{};
  /// It waited for its turn: other handlers were due as well, and I/O has its turn between passes. Or it waited until input was
  /// read after a block (`service_options::io_wait`).
  std::chrono::nanoseconds carried{};
  /// The loop was away from its timers: from waking up until the pass began, and while slow handlers ran
  /// (`service_options::slow_handler`) after that.
  std::chrono::nanoseconds stall{};

  /// Who had the largest part in `stall`, and how large that was: a handler, all its calls together, or the loop's own
  /// callbacks, among which `on_slow_handler`'s hook is counted.
  stalled_by by = stalled_by::nobody;
  /// See `by`; zero when that is nobody.
  std::chrono::nanoseconds by_for{};
  /// If it was a handler: which. Compare it with `timer::handler()`. Of a handler that another thread posted it identifies
  /// the callable's type, and is not to be called.
  handler_id handler = nullptr;
};

/// Names a handler in what is written for people; null: its address is written.
using handler_names = const char* (*)(wheel_entry::callback) noexcept;

/// Writes a line without its end, in milliseconds. Throws what the stream throws; not on a hot path, as streams may allocate.
TICKWHEEL_API void describe(std::ostream&, const expiry_report&, handler_names = nullptr);
/// As `describe`, with addresses for names.
TICKWHEEL_API std::ostream& operator<<(std::ostream&, const expiry_report&);

}  // namespace tickwheel
