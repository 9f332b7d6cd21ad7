// Records per pass and per handler why a handler is late. The report is computed only on request.
//
// The time from a deadline to its handler is divided at moments that all timers of a pass share:
//
//   due ... the loop wakes up ... the pass begins ... the handler begins
//       poll                 stall               carried, or stall while slow handlers run
//
// If a pass leaves work, or something has become due meanwhile, other passes follow without a wait. Such a chain counts as one pass
// here, which begins with its first pass.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/uv/expiry_report.hpp>
#include <tickwheel/uv/slow_handler.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace tickwheel::detail {

/// Divides the lateness of handlers into its causes.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1) except `report`. Reads no clock: the caller passes the time.
class TICKWHEEL_API lateness_account {
 public:
  using handler_id = expiry_report::handler_id;

  /// Remembers handlers that take `slow` or longer.
  explicit lateness_account(std::chrono::nanoseconds slow = {}) noexcept : slow_{slow} {}

  /// An iteration ends whose poll returned at `when`.
  void polled(clock::time_point when) noexcept { polled_ = when; }

  /// The loop did not run until `when`. That time is charged to no handler and no callback.
  void resumed(clock::time_point when) noexcept { paused_ = when; }

  void begin_pass(clock::time_point now) noexcept {
    if (!is_followed_) {
      chain_polled_ = polled_;
      chain_began_ = now;
    } else {
      interrupted(paused_, now);
    }
  }
  /// `is_followed`: the next pass comes without a wait.
  void end_pass(clock::time_point now, bool is_followed) noexcept {
    is_followed_ = is_followed;
    paused_ = now;
  }

  /// Within a pass, or between two of a chain, code that is no handler ran from `begin` to `end`. If that took long, handlers that
  /// were due are late because of a stall of the loop.
  void interrupted(clock::time_point begin, clock::time_point end) noexcept;

  /// The handler `which` is called at `now`. Its timer was due at `due`, at most `rounding` after the time that was asked for.
  /// Requires: no other handler is running.
  void begin_handler(handler_id which, clock::time_point due, std::chrono::nanoseconds rounding,
                     clock::time_point now) noexcept {
    handler_ = which;
    due_ = due;
    rounding_ = rounding;
    began_ = now;
    running_ = true;
  }
  /// The handler that has begun is not called after all.
  void take_back() noexcept { running_ = false; }
  /// The handler that is running is known as `which` from now on.
  void rename(handler_id which) noexcept { handler_ = which; }
  /// Returns how long after it was due the handler began that is running, or ran last.
  std::chrono::nanoseconds late() const noexcept { return std::max<std::chrono::nanoseconds>(began_ - due_, {}); }
  bool handler_runs() const noexcept { return running_; }
  /// Returns the handler that is running, or ran last.
  handler_id handler() const noexcept { return handler_; }

  /// The handler has returned. Returns how long it took.
  std::chrono::nanoseconds end_handler(clock::time_point now) noexcept {
    running_ = false;
    const std::chrono::nanoseconds took = now - began_;
    if (took >= slow_) remember({began_, now, handler_});
    return took;
  }

  /// Returns the slow handler that took most of the time since `begin`, with all its calls. Null: there was none. O(n^2) in the number
  /// of remembered slow spans.
  slow_handler slowest_since(clock::time_point begin) const noexcept;

  /// Returns the report of the handler that is running, or ran last. O(n^2) in the number of remembered slow spans.
  expiry_report report() const noexcept;

 private:
  // A span of the loop's time, and the handler that used it. Null: callbacks of the loop between the passes of a chain, or the hook
  // for slow handlers.
  struct span {
    clock::time_point begin{}, end{};
    handler_id by = nullptr;
  };
  static std::chrono::nanoseconds overlap(const span& s, clock::time_point begin, clock::time_point end) noexcept;

  std::chrono::nanoseconds taken_by(handler_id who, clock::time_point begin, clock::time_point end) const noexcept;

  void remember(const span& s) noexcept { slow_spans_[slow_count_++ % slow_spans_.size()] = s; }

  std::chrono::nanoseconds slow_;

  clock::time_point polled_{};        // when the last poll returned, apart from the one right before the pass
  clock::time_point chain_polled_{};  // `polled_` at the first pass of the chain
  clock::time_point chain_began_{};
  clock::time_point paused_{};  // when the last pass ended
  bool is_followed_ = false;

  bool running_ = false;
  handler_id handler_ = nullptr;
  clock::time_point due_{}, began_{};
  std::chrono::nanoseconds rounding_{};

  // The last slow spans, for which a late handler waited. If it waited for more than these, the rest counts as carried.
  std::array<span, 32> slow_spans_{};
  std::size_t slow_count_ = 0;
};

}  // namespace tickwheel::detail
