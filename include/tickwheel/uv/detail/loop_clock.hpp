// The time of a loop iteration, and responsive time, which leaves out how long the loop was blocked.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/uv/driver.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace tickwheel::detail {

/// Reads a driver's clock at most once per iteration, and only if the time is needed. An iteration that is busy for longer than a
/// grace stalls the loop for the rest of its time. During a stall, responsive time stands still.
///
/// *Thread safety:* the loop thread. *Complexity:* O(1). *Lifetime:* the driver lives from `open` until `close`.
class TICKWHEEL_API loop_clock {
 public:
  using time_point = clock::time_point;
  using nanoseconds = std::chrono::nanoseconds;

  loop_clock() noexcept = default;
  loop_clock(const loop_clock&) = delete;  // `epoch_` may point into the object
  loop_clock& operator=(const loop_clock&) = delete;

  /// Follows the clock of `on` from now on. Nothing has stalled yet. Reads the clock.
  void open(driver& on, nanoseconds stall_grace) noexcept {
    driver_ = &on;
    grace_ = stall_grace;
    stall_ = {};
    behind_ = {};
    epoch_ = on.epoch();
    keep_stamps();
    latest_reached_ = time_point::min();
    opened_ = read();
    stall_ = {};
    responsive_stamp_ = opened_;
    first_read_ = time_point::max();
  }

  /// Returns the time at which it was opened last. Plain and responsive time were equal then.
  time_point opened_at() const noexcept { return opened_; }

  /// From here on the time stands still.
  void close() noexcept { epoch_ = &stamp_epoch_; }

  /// Returns true if the clock was read in this iteration.
  bool has_now() const noexcept { return *epoch_ == stamp_epoch_; }

  /// Returns the time of this iteration. Reads the clock on first use.
  time_point now() const noexcept { return has_now() ? stamp_ : read(); }

  /// Returns `now` on responsive time. Reads the clock when `now` would.
  time_point responsive_now() const noexcept {
    if (!has_now()) read();
    return responsive_stamp_;
  }

  /// Returns the time that was read last, in whichever iteration.
  time_point stamp() const noexcept { return stamp_; }

  /// Returns the latest time that was read, or that `note_reached` was told.
  time_point latest_reached() const noexcept { return latest_reached_; }
  /// The service has reached `t`, perhaps without a read of the clock.
  void note_reached(time_point t) const noexcept { latest_reached_ = std::max(latest_reached_, t); }

  /// Reads the clock, and keeps the time for the rest of the iteration. Requires: open.
  time_point read() const noexcept;

  /// Returns `now`, a time of this iteration, on responsive time. Reads no clock. Requires: open.
  time_point responsive(time_point now) const noexcept {
    return less_stalls(now) - stall_until(driver_->poll_ended_at(), now);
  }

  /// Returns `t` minus all stalls except that of the running iteration.
  time_point less_stalls(time_point t) const noexcept { return t - behind_; }

  /// Returns the sum of all stalls, except that of the running iteration, and of the time in which the loop did not run.
  nanoseconds stalled_for() const noexcept { return behind_; }

  /// The iteration whose poll returned at `polled` ends at `now`, and the loop polls next. A time that is read after that poll is
  /// later than everything that a peer sent before. Returns how long the iteration stalled the loop.
  nanoseconds end_iteration(time_point polled, time_point now) noexcept {
    expire();
    ++polls_;
    early_epoch_ = driver_->turns_early() ? *epoch_ : stamp_epoch_;
    return take_stall(polled, now);
  }

  /// The loop did not run until `entered`. Its last iteration came back from its poll at `polled`. Responsive time leaves out the
  /// time in between.
  void resume(time_point polled, time_point entered) noexcept { (void)take_stall(polled, entered); }

  /// The poll has certainly ended: a time that is read from here on may be kept.
  void keep_stamps() noexcept { early_epoch_ = ~*epoch_; }

  /// Forgets the time of this iteration, so that the next `now` reads the clock.
  void expire() noexcept { stamp_epoch_ = ~*epoch_; }

  /// The clock read `now`, and the poll of this iteration has certainly ended.
  void has_polled_by(time_point now) noexcept { first_read_ = std::min(first_read_, now); }

  /// Names this moment, for `has_polled_since`.
  std::uint16_t polls() const noexcept { return polls_; }

  /// Returns true if the loop has certainly polled since `polls` answered `then`. False if it may not have, and after a multiple of
  /// 65,536 polls, when the counts are equal again.
  bool has_polled_since(std::uint16_t then) const noexcept {
    const int may_still_poll = *epoch_ == early_epoch_ ? 1 : 0;
    return static_cast<std::uint16_t>(polls_ - then) > may_still_poll;
  }

  /// Returns the first time that was read after the poll of this iteration; `time_point::max()`: none was. Then forgets it.
  time_point take_first_read() noexcept { return std::exchange(first_read_, time_point::max()); }

  /// Returns true if the clock was read since the last call.
  bool take_was_read() noexcept { return std::exchange(was_read_, false); }

 private:
  // Returns how far the running iteration has exceeded the grace by `now`. A stall stays a stall, because idle time has been counted
  // without it. libuv's time, and with it `polled`, moves on between two batches of events.
  nanoseconds stall_until(time_point polled, time_point now) const noexcept {
    const nanoseconds busy = now - polled;
    if (busy > grace_) stall_ = std::max(stall_, busy - grace_);
    return stall_;
  }

  nanoseconds take_stall(time_point polled, time_point now) noexcept {
    behind_ += stall_until(polled, now);
    return std::exchange(stall_, {});
  }

  driver* driver_ = nullptr;
  time_point opened_{};
  nanoseconds grace_{};                           // an iteration may take this long
  nanoseconds behind_{};                          // how far responsive time is behind
  mutable nanoseconds stall_{};                   // of the running iteration, up to the last query
  std::uint64_t early_epoch_ = ~std::uint64_t{};  // a stamp that is taken in this epoch of the driver is not kept
  std::uint16_t polls_ = 0;                       // how many have begun, or are about to
  mutable bool was_read_ = false;
  mutable time_point first_read_ = time_point::max();  // after the poll of this iteration

  // The time of this iteration, and the driver's epoch at that time. The epoch also changes when a poll returns. Otherwise a
  // stamp that a prepare callback after ours asks for would survive a long poll. These are the last members, so that a service
  // has them next to other data that a touch reads.
  const std::uint64_t* epoch_ = &stamp_epoch_;
  mutable std::uint64_t stamp_epoch_ = 0;
  mutable time_point stamp_{};
  mutable time_point responsive_stamp_{};  // kept, because each touch of an idle timeout stores it
  mutable time_point latest_reached_{};
};

}  // namespace tickwheel::detail
