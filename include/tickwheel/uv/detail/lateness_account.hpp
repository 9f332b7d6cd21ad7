// What it takes to say why a handler runs so late, kept a pass and a handler; the saying is left to who asks.
//
// The time from a deadline to its handler is cut at the moments that all timers of a pass share:
//
//   due ... the loop wakes up ... the pass begins ... the handler begins
//       poll                 stall               carried, or stall while slow handlers run
//
// A pass that left work is followed by others without a wait: such a chain is one pass here, and begins with its first.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/uv/expiry_report.hpp>

#include <array>
#include <chrono>
#include <cstddef>

namespace tickwheel::detail {

/// *Thread safety:* the loop thread. *Complexity:* O(1), and no clock is read: it is told the time.
class TICKWHEEL_API lateness_account {
 public:
  using handler_id = expiry_report::handler_id;

  /// What takes `slow` or longer is remembered.
  explicit lateness_account(std::chrono::nanoseconds slow = {}) noexcept : slow_{slow} {}

  /// An iteration ends that came back from its poll at `when`.
  void polled(clock::time_point when) noexcept { polled_ = when; }

  /// Nobody ran the loop until `when`: nobody's time.
  void resumed(clock::time_point when) noexcept { paused_ = when; }

  void begin_pass(clock::time_point now) noexcept {
    if (!carrying_) {
      chain_polled_ = polled_;
      chain_began_ = now;
    } else if (now - paused_ >= slow_) {
      remember({paused_, now, nullptr});
    }
  }
  void end_pass(clock::time_point now, bool carrying) noexcept {
    carrying_ = carrying;
    paused_ = now;
  }

  /// `which` is called at `now`, of what was due at `due`, which is at most `rounding` after what was asked for.
  /// Requires: no other is running.
  void begin_handler(handler_id which, clock::time_point due, std::chrono::nanoseconds rounding,
                     clock::time_point now) noexcept {
    handler_ = which;
    due_ = due;
    rounding_ = rounding;
    began_ = now;
    running_ = true;
  }
  bool handler_runs() const noexcept { return running_; }
  /// Which one runs, or ran last.
  handler_id handler() const noexcept { return handler_; }

  /// It has returned. How long it took.
  std::chrono::nanoseconds end_handler(clock::time_point now) noexcept {
    running_ = false;
    const std::chrono::nanoseconds took = now - began_;
    if (took >= slow_) remember({began_, now, handler_});
    return took;
  }

  /// Of the handler that runs, or ran last. O(n^2) of the slow spans that are remembered.
  expiry_report report() const noexcept;

 private:
  // Time of the loop that somebody took: a handler, or for null callbacks of the loop between the passes of a chain.
  struct span {
    clock::time_point begin{}, end{};
    handler_id by = nullptr;
  };
  static std::chrono::nanoseconds overlap(const span& s, clock::time_point begin, clock::time_point end) noexcept;

  std::chrono::nanoseconds taken_by(handler_id who, clock::time_point begin, clock::time_point end) const noexcept;

  void remember(const span& s) noexcept { slow_spans_[slow_count_++ % slow_spans_.size()] = s; }

  std::chrono::nanoseconds slow_;

  clock::time_point polled_{};        // when the loop came back from its last poll but the one before the pass
  clock::time_point chain_polled_{};  // that, for the first pass of the chain
  clock::time_point chain_began_{};
  clock::time_point paused_{};  // when the last pass ended
  bool carrying_ = false;

  bool running_ = false;
  handler_id handler_ = nullptr;
  clock::time_point due_{}, began_{};
  std::chrono::nanoseconds rounding_{};

  // The last of them: what a late handler waited for. If it was more than these, the rest counts as carried.
  std::array<span, 32> slow_spans_{};
  std::size_t slow_count_ = 0;
};

}  // namespace tickwheel::detail
