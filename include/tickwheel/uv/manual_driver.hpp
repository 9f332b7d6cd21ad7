// A clock that a test moves by hand: timeouts are tested without sleeping.
//
//   tickwheel::manual_driver time;
//   tickwheel::timer_service timers;
//   ASSERT_EQ(timers.open(time), 0);
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

/// Drives one `timer_service` from the test's own thread, without a loop. The next `turn` delivers calls that other threads have
/// posted; `advance(0ns)` delivers them without moving the clock.
///
/// *Thread safety:* one thread, except `now`, and the functions of a `remote_handle`. *Complexity:* O(1) for each wakeup, plus the
/// handlers; nothing allocates. *Errors:* none. *Lifetime:* outlives the open service.
class TICKWHEEL_API manual_driver final : public driver {
 public:
  /// The clock starts at `start`.
  explicit manual_driver(clock::time_point start = clock::time_point{}) noexcept
      : now_{start.time_since_epoch()}, polled_{start} {}

  /// Moves the clock by `by`. Stops at each wakeup that the service asks for on the way and runs what is due, as a loop without I/O
  /// does. A zero delay that a handler arms on the way takes 0.1 ms. Zero moves nothing, and runs what is due and the zero delays
  /// that were armed before. A negative `by` does nothing.
  ///
  /// Delivering posted calls takes no time, so a handler that posts itself again without a delay keeps this from returning: use
  /// `turn` for such handlers. Requires: not called from a handler (checked).
  void advance(std::chrono::nanoseconds by) noexcept;

  /// Moves the clock by `by` without an iteration of the loop, as a handler or a callback that blocks does. May be called from a
  /// handler. A negative `by` counts as zero.
  void block(std::chrono::nanoseconds by) noexcept { set_now(std::max(now(), detail::add_saturating(now(), by))); }

  /// Moves the clock by `by` without an iteration of the loop, as a poll that returns late does. A negative `by` counts as zero.
  void oversleep(std::chrono::nanoseconds by) noexcept { wait_until(detail::add_saturating(now(), by)); }

  /// Runs one iteration of the loop: one pass if one is due, was left over, or was requested by another thread. Returns true if a
  /// pass ran. Requires: not called from a handler (checked).
  bool turn() noexcept;

  /// Returns how often the service was woken at a time that it had asked for.
  std::size_t wakeups() const noexcept { return wakeups_; }
  /// Returns when the service asked to be woken next: now, if a zero delay is armed. `time_point::max()`: never, or after another
  /// pass (`carrying`).
  clock::time_point next_wakeup() const noexcept {
    return soon_ ? clock::time_point{now_.load(std::memory_order_relaxed)} : wake_;
  }
  /// Returns true while a loop would be kept alive.
  bool alive() const noexcept { return alive_; }
  /// Returns true if the last pass has asked for another: it was cut short, or a call was posted while it ran.
  bool carrying() const noexcept { return continues_; }

  clock::time_point now() noexcept override { return clock::time_point{now_.load(std::memory_order_relaxed)}; }
  const std::uint64_t* epoch() const noexcept override { return &epoch_; }
  clock::time_point poll_ended_at() const noexcept override { return polled_; }

 private:
  void wake_at(clock::time_point when) noexcept override;
  void pass_soon() noexcept override { soon_ = true; }
  void continue_pass() noexcept override;
  void request_pass() noexcept override { pass_requested_.store(true, std::memory_order_release); }
  void cancel_wakeup() noexcept override;
  void hold_loop(bool alive) noexcept override { alive_ = alive; }
  bool owns(const uv_handle_s*) const noexcept override { return false; }
  void on_bind() noexcept override { polled_ = now(); }
  void on_unbind() noexcept override;

  bool turn_until_done() noexcept;

  // A poll that does not wait takes so long.
  static constexpr std::chrono::microseconds short_poll{100};

  void set_now(clock::time_point to) noexcept { now_.store(to.time_since_epoch(), std::memory_order_relaxed); }
  void wait_until(clock::time_point to) noexcept {
    polled_ += std::max(now(), to) - now();
    set_now(std::max(now(), to));
    ++epoch_;
  }

  std::atomic<clock::duration> now_;  // since the clock's epoch; other threads read it to say when they posted
  std::atomic<bool> pass_requested_{false};
  // When the last turn began, or a client was bound, or until when the clock has waited since.
  clock::time_point polled_;
  std::uint64_t epoch_ = 0;
  bool passing_ = false;
  clock::time_point wake_ = clock::time_point::max();
  bool soon_ = false;
  bool continues_ = false;
  bool alive_ = false;
  std::size_t wakeups_ = 0;
};

}  // namespace tickwheel
