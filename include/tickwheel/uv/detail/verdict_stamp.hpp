// As of which moment timers may be judged, and which moment is next.
//
// A stamp is the time right before a poll. It waits until the loop has handled what peers had sent by then. One poll is enough
// as long as the loop was never blocked. After a block more input may be waiting than one poll reads (libuv reads at most 32
// times from a socket), so the stamp waits for two polls in a row that left nothing behind. Two, because libuv registers a
// descriptor that a callback has begun to read only in its next poll. A bound keeps endless input from holding up verdicts.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace tickwheel::detail {

/// *Thread safety:* the loop thread. *Complexity:* O(1), and no clock is read: it is told the time.
class verdict_stamp {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using nanoseconds = std::chrono::nanoseconds;

  /// A moment on the clock, and on responsive time.
  struct moment {
    time_point time{};
    time_point responsive{};
  };

  /// A longer time between two polls is a block. libuv's clock cannot tell less.
  static constexpr nanoseconds longest_undisturbed = std::chrono::milliseconds{2};
  /// No stamp waits longer, whatever the blocks.
  static constexpr nanoseconds longest_wait = std::chrono::seconds{1};
  /// So many polls in a row must leave nothing behind.
  static constexpr unsigned quiet_polls_needed = 2;

  /// A stamp waits for at most `io_wait` times the longest block.
  explicit verdict_stamp(unsigned io_wait = 0) noexcept : io_wait_{io_wait} {}

  /// The time as of which timers may be judged.
  const moment& judged() const noexcept { return judged_; }
  /// A stamp waits to be judged.
  bool waits() const noexcept { return waits_; }
  /// It waits for input to be read. False if it waits no more, or for something else.
  bool waits_for_input() const noexcept { return waits_ && !input_read_; }

  /// The loop or a handler was busy for so much time between two polls, or for up to `error` more.
  void busy_for(nanoseconds busy, nanoseconds error = {}) noexcept {
    if (busy + error <= longest_undisturbed) return;
    longest_block_ = std::max(longest_block_, busy);
    if (waits_) later_block_ = std::max(later_block_, busy);
  }

  /// The loop has polled since it took `stamp`. Requires: no other waits.
  void begin(const moment& stamp) noexcept {
    waiting_ = stamp;
    waits_ = true;
    input_read_ = longest_block_ == nanoseconds{};
    quiet_polls_ = 0;
  }

  /// True if the stamp has waited as long as it may. Requires: it waits for input.
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
  nanoseconds longest_block_{};  // since the time as of which was judged last
  nanoseconds later_block_{};    // of these, since the time that waits: the next stamp waits for what it left, too
  moment waiting_{};
  moment judged_{};
};

}  // namespace tickwheel::detail
