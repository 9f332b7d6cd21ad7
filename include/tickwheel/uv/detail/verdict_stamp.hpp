// The time as of which timers may be judged, and the next such time.
//
// A stamp is the time right before a poll. It waits until the loop has handled the bytes that peers had sent by then. One poll is
// enough if the loop was never blocked. After a block more input may be waiting than one poll reads, because libuv reads at most
// 32 times from a socket. So the stamp then waits for two polls in a row that leave nothing unread. One such poll is not enough:
// if a callback begins to read a descriptor, libuv registers it only in its next poll. A limit keeps endless input from delaying
// verdicts for ever.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace tickwheel::detail {

/// The stamp that is used for verdicts, and the stamp that waits for input.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1). Reads no clock: the caller passes the time.
class verdict_stamp {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using nanoseconds = std::chrono::nanoseconds;

  /// A moment on the clock, and on responsive time.
  struct moment {
    time_point time{};
    time_point responsive{};
  };

  /// A longer time between two polls is a block. libuv's clock is too coarse for a shorter limit.
  static constexpr nanoseconds longest_undisturbed = std::chrono::milliseconds{2};
  /// No stamp waits longer than this, however long the blocks are.
  static constexpr nanoseconds longest_wait = std::chrono::seconds{1};
  /// This many polls in a row must leave nothing unread.
  static constexpr unsigned quiet_polls_needed = 2;

  /// A stamp waits for at most `io_wait` times the longest block.
  explicit verdict_stamp(unsigned io_wait = 0) noexcept : io_wait_{io_wait} {}

  /// Returns the time as of which timers may be judged.
  const moment& judged() const noexcept { return judged_; }
  /// Returns true if a stamp waits to be judged.
  bool waits() const noexcept { return waits_; }
  /// Returns true if a stamp waits for input to be read. False if no stamp waits, or it waits for something else.
  bool waits_for_input() const noexcept { return waits_ && !input_read_; }

  /// The loop or a handler was busy for `busy` between two polls, or for up to `error` longer.
  void busy_for(nanoseconds busy, nanoseconds error = {}) noexcept {
    if (busy + error <= longest_undisturbed) return;
    longest_block_ = std::max(longest_block_, busy);
    if (waits_) later_block_ = std::max(later_block_, busy);
  }

  /// Returns true if a stamp that is taken now waits for one poll only. `busy` and `error` are those of the running iteration, as
  /// for `busy_for`.
  bool one_poll_is_enough(nanoseconds busy, nanoseconds error) const noexcept {
    if (waits_) return false;
    return io_wait_ == 0 || (longest_block_ == nanoseconds{} && busy + error <= longest_undisturbed);
  }

  /// The loop has polled since it took `stamp`. Requires: no other waits.
  void begin(const moment& stamp) noexcept {
    waiting_ = stamp;
    waits_ = true;
    input_read_ = longest_block_ == nanoseconds{};
    quiet_polls_ = 0;
  }

  /// Returns true if the stamp has waited as long as it may. Requires: it waits for input.
  bool has_waited_enough(time_point now) noexcept {
    input_read_ = now - waiting_.time >= longest_allowed();
    return input_read_;
  }

  /// A poll has ended. Requires: the stamp waits for input.
  void polled(bool left_nothing) noexcept {
    quiet_polls_ = left_nothing ? quiet_polls_ + 1 : 0;
    input_read_ = quiet_polls_ == quiet_polls_needed;
  }

  /// From now on timers may be judged as of the stamp that waited. Requires: it does not wait for input.
  void judge() noexcept {
    judged_ = waiting_;
    waits_ = false;
    longest_block_ = std::exchange(later_block_, nanoseconds{});
  }

 private:
  nanoseconds longest_allowed() const noexcept {
    if (io_wait_ == 0) return {};
    return longest_block_ > longest_wait / io_wait_ ? longest_wait : longest_block_ * io_wait_;
  }

  unsigned io_wait_;
  unsigned quiet_polls_ = 0;
  bool waits_ = false;
  bool input_read_ = false;
  nanoseconds longest_block_{};  // since the last stamp that was judged
  nanoseconds later_block_{};    // since the stamp that waits: the next stamp must wait for this block
  moment waiting_{};
  moment judged_{};
};

}  // namespace tickwheel::detail
