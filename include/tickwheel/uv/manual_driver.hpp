// A clock turned by hand, to test timeouts without sleeping.
//
//   tickwheel::manual_driver time;
//   tickwheel::timer_service timers;
//   timers.open(time);
//   my_session session{timers};      // arms a 60 s idle timeout
//   time.advance(59s);  EXPECT_TRUE(session.alive());
//   time.advance(2s);   EXPECT_FALSE(session.alive());
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/driver.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace tickwheel {

/// Drives one `timer_service` from the test's own thread; needs no loop. What other threads post is delivered by the next
/// `turn`; `advance(0ns)` delivers it without moving the clock.
///
/// *Thread safety:* one thread, except `now`, and what a `remote_handle` does. *Complexity:* O(1) a wakeup, and what handlers
/// do; nothing allocates. *Errors:* none. *Lifetime:* outlives the open service.
class TICKWHEEL_API manual_driver final : public driver {
 public:
  /// The clock starts at `start`.
  explicit manual_driver(clock::time_point start = clock::time_point{}) noexcept
      : now_{start.time_since_epoch()}, polled_{start} {}

  /// Moves the clock by `by`, stopping at each wakeup the service asks for on the way and running what is due, as a loop does
  /// that waits for nothing else. A zero delay that a handler arms on the way takes 0.1 ms. Delivering what was posted takes no
  /// time, so a handler that posts itself again without a delay keeps this from returning: `turn` such ones. With a `by` of zero
  /// it runs what is due, and the zero delays that were armed before; a negative one does nothing. Requires: not called from a
  /// handler (checked).
  void advance(std::chrono::nanoseconds by) noexcept;

  /// Moves the clock by `by` without a turn of the loop: a handler or a callback that blocks. May be called from a
  /// handler. One that is negative counts as zero.
  void block(std::chrono::nanoseconds by) noexcept { set_now(std::max(now(), detail::add_saturating(now(), by))); }

  /// Moves the clock by `by` as by waiting for I/O, without a turn of the loop: a poll that returns late. One that is negative
  /// counts as zero.
  void oversleep(std::chrono::nanoseconds by) noexcept { wait_until(detail::add_saturating(now(), by)); }

  /// One iteration of the loop: runs one pass when one is due or was left over, or when another thread asked for it.
  /// True when it did. Requires: not called from a handler (checked).
  bool turn() noexcept;

  /// How often the service was woken at a time it had asked for.
  std::size_t wakeups() const noexcept { return wakeups_; }
  /// When it asked to be woken next: now, while a zero delay is armed. `time_point::max()`: not at all, or another pass is to
  /// follow first (`carrying`).
  clock::time_point next_wakeup() const noexcept {
    return soon_ ? clock::time_point{now_.load(std::memory_order_relaxed)} : wake_;
  }
  /// True while a loop would be kept alive.
  bool alive() const noexcept { return alive_; }
  /// True while the last pass has asked for another: it was cut short, or something was posted while it ran. Not for what is
  /// posted between passes, which rings.
  bool carrying() const noexcept { return again_; }

  clock::time_point now() noexcept override { return clock::time_point{now_.load(std::memory_order_relaxed)}; }
  const std::uint64_t* epoch() const noexcept override { return &epoch_; }
  clock::time_point polled() const noexcept override { return polled_; }

 private:
  void wake_at(clock::time_point when) noexcept override;
  void pass_soon() noexcept override { soon_ = true; }
  void pass_again() noexcept override;
  void ring() noexcept override { rung_.store(true, std::memory_order_release); }
  void rest() noexcept override;
  void hold(bool alive) noexcept override { alive_ = alive; }
  bool owns(const uv_handle_s*) const noexcept override { return false; }
  void on_unbind() noexcept override;

  bool turn_until_done() noexcept;

  // how long a poll takes that does not wait
  static constexpr std::chrono::microseconds short_poll{100};

  void set_now(clock::time_point to) noexcept { now_.store(to.time_since_epoch(), std::memory_order_relaxed); }
  void wait_until(clock::time_point to) noexcept {
    polled_ += std::max(now(), to) - now();
    set_now(std::max(now(), to));
    ++epoch_;
  }

  std::atomic<clock::duration> now_;  // since the clock's epoch; other threads read it to say when they posted
  std::atomic<bool> rung_{false};
  clock::time_point polled_;  // the last turn, or where the clock was moved to since as by waiting
  std::uint64_t epoch_ = 0;
  bool passing_ = false;
  clock::time_point wake_ = clock::time_point::max();
  bool soon_ = false;
  bool again_ = false;
  bool alive_ = false;
  std::size_t wakeups_ = 0;
};

}  // namespace tickwheel
