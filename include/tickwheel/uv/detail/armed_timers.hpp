// The timers of one loop, and the wakeup that the loop's driver is asked for.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/core/wheel.hpp>
#include <tickwheel/uv/detail/liveness.hpp>
#include <tickwheel/uv/detail/loop_clock.hpp>
#include <tickwheel/uv/detail/this_thread.hpp>
#include <tickwheel/uv/detail/timeline.hpp>
#include <tickwheel/uv/driver.hpp>
#include <tickwheel/uv/service_options.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace tickwheel::detail {

/// The meaning of arming a timer for a time that has passed.
enum class past_time {
  zero_delay,  ///< it is due in the next pass, and does not wait for input
  verdict,     ///< it is due as of the next stamp that is taken after the call, and waits for input after a block
};

/// A wheel on a driver's clock. Arming a timer moves the driver's wakeup if the timer is due before it, and holds the loop.
///
/// Each entry is the base of a `timer`.
///
/// *Thread safety:* the loop thread, checked when a timer is armed or cancelled. *Complexity:* O(1), except `make_wheel` and
/// `drop_wheel`. *Lifetime:* the driver outlives the time between `open` and `close`.
class TICKWHEEL_API armed_timers {
 public:
  armed_timers() noexcept = default;
  armed_timers(const armed_timers&) = delete;
  armed_timers& operator=(const armed_timers&) = delete;

  /// Allocates the wheel. Returns 0 or UV_ENOMEM.
  [[nodiscard]] int make_wheel(wheel_geometry) noexcept;
  /// Frees the wheel, and detaches what is left in it.
  void drop_wheel() noexcept { wheel_.reset(); }
  /// Returns true between `make_wheel` and `drop_wheel`.
  bool has_wheel() const noexcept { return wheel_.has_value(); }

  /// All timers are forwarding ones from now on: probes tell their targets. Requires: closed.
  void identify_by_target() noexcept { forwards_ = true; }
  /// Returns true after `identify_by_target`.
  bool forwards() const noexcept { return forwards_; }

  /// Begins to use `on`. Requires: there is a wheel, and nothing is armed.
  void open(driver& on, const service_options&) noexcept;
  /// From here on, arming answers UV_ECANCELED. The driver is not used any more.
  void close() noexcept;
  bool is_open() const noexcept { return driver_ != nullptr; }
  /// `open` is about to be called, and may fail. Arming before that stops a debug build; afterwards it answers UV_ECANCELED.
  void expect_open() noexcept { open_expected_ = true; }
  /// Returns UV_ECANCELED, the answer to arming while it is closed. Stops a debug build if `expect_open` was never called.
  [[nodiscard]] int refuse_when_closed() const noexcept;

  driver& source() const noexcept { return *driver_; }
  const loop_clock& time() const noexcept { return clock_; }
  loop_clock& time() noexcept { return clock_; }
  const liveness& alive() const noexcept { return alive_; }
  liveness& alive() noexcept { return alive_; }
  const wheel& entries() const noexcept { return *wheel_; }
  wheel& entries() noexcept { return *wheel_; }

  /// Returns the tick that runs at `now`, and notes `now` as a time that the wheel may reach. Call it before each advance: arming for
  /// a time up to `now` then takes the slow path.
  tick tick_to_reach(clock::time_point now) noexcept {
    clock_.note_reached(now);
    return timeline_.floor(now);
  }

  /// Conversions between the driver's clock and the wheel's ticks.
  const timeline& ticks() const noexcept { return timeline_; }

  /// The calling thread runs the loop. Does nothing if it is closed.
  void use_on_this_thread() noexcept {
    if (is_open()) thread_and_shift_ = reinterpret_cast<std::uintptr_t>(this_thread()) ^ timeline_.length().shift();
  }
  /// Stops the process with the line `violated` if another thread runs the loop, or if it is closed.
  void check_thread(const char* violated = wrong_thread) const noexcept {
    require(shift_on_this_thread() < no_shift, violated);
  }
  /// As `check_thread` in a debug build; nothing in a release build, or if it is closed.
  void check_thread_in_debug() const noexcept {
#ifndef NDEBUG
    if (is_open()) check_thread();
#endif
  }
  static constexpr const char* wrong_thread =
      "wrong thread: a service, or a timer of it, was used on a thread that does not run its loop "
      "(post to it by timer_service::remote; if no thread runs the loop now, use_on_this_thread hands it over)";

  /// Arms a timer for a delay from now. With a `slack`, it may be due up to that much later. `steady` is `clock::now()`, which was
  /// just read; a driver on another clock is asked for its time. Returns 0, UV_ENOBUFS or UV_ECANCELED, as `arm_at` and `arm_tick` do.
  [[nodiscard]] int arm_after(wheel_entry&, clock::time_point steady, std::chrono::nanoseconds after,
                              std::chrono::nanoseconds slack) noexcept;
  /// Arms a timer for a time.
  [[nodiscard]] int arm_at(wheel_entry&, clock::time_point when, past_time = past_time::zero_delay) noexcept;
  /// As `arm_at`. The fast path. Requires: `entry` has a reference.
  [[nodiscard]] int arm_plain_at(wheel_entry& entry, clock::time_point when,
                                 past_time passed = past_time::zero_delay) noexcept {
    const std::uintptr_t shift = shift_on_this_thread();
    if (shift >= no_shift || when <= clock_.latest_reached()) [[unlikely]]
      return arm_at(entry, when, passed);
    // That time is not before the stamp, the origin of the ticks or the wheel's time.
    return arm_plain(entry, timeline_.ceil_after_origin(when, static_cast<unsigned>(shift)));
  }
  /// Arms `entry` for a tick. The fast path. Requires: `entry` has a reference.
  [[nodiscard]] int arm_tick(wheel_entry& entry, tick deadline) noexcept {
    if (shift_on_this_thread() >= no_shift || deadline < wheel_->earliest_deadline()) [[unlikely]]
      return arm_slow_path(entry, deadline);
    return arm_plain(entry, deadline);
  }
  /// Arms a timer that is armed, or has just expired, before its handler is called. It cannot be refused, so more than `max_armed`
  /// may be armed meanwhile. Requires: open.
  void arm_again(wheel_entry&, tick deadline) noexcept;

  /// Cancels `entry`, an armed timer that has a reference.
  void cancel(wheel_entry& entry) noexcept {
    check_thread();
    wheel_->cancel(entry);
    if (liveness::is_to_check_end(*wheel_)) [[unlikely]]
      update_hold();
  }
  /// Cancels any armed timer.
  void cancel_slow_path(wheel_entry&) noexcept;

  /// An armed timer holds the loop from now on, or no longer.
  void change_ref(bool on) noexcept;

  /// Asks the driver for the wakeup that the wheel needs next. Ends a pass.
  void schedule() noexcept;
  /// As `schedule()`. `now` is the true time, which was just read.
  void schedule(clock::time_point now) noexcept;
  /// Holds the loop, or releases it, if that has changed.
  void update_hold() noexcept;

  /// A pass with this stamp runs from now on. The wakeup is asked for by `schedule`, after this pass or the last of those that go on
  /// with it.
  void begin_pass(clock::time_point stamp) noexcept {
    wake_ = 0;
    pass_runs_ = true;
    pass_before_ = std::exchange(pass_, timeline_.floor(stamp));
  }
  /// The pass has ended. Another one may go on with its work.
  void end_pass() noexcept { pass_runs_ = false; }
  /// Returns true if a pass runs or is to go on.
  bool in_pass() const noexcept { return wake_ == 0; }
  /// Returns when the driver will wake us; `never` if it will not. Requires: no pass runs or is to go on.
  tick wakes_at() const noexcept { return wake_; }

  /// Returns true if a timer was armed with a delay since the last call.
  bool take_armed_after() noexcept { return std::exchange(armed_after_, false); }

  /// Returns how many arms were refused since `open`.
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  // Returns the shift of a tick's length on the thread that runs the loop, and `no_shift` or more on any other, or if it is closed.
  // The addresses of two threads are at least 64 bytes apart, so they differ above the lowest six bits, which hold the shift.
  std::uintptr_t shift_on_this_thread() const noexcept {
    return thread_and_shift_ ^ reinterpret_cast<std::uintptr_t>(this_thread());
  }
  static constexpr std::uintptr_t no_shift = 64;

  // The end of the fast paths. Requires: the right thread, and a deadline that the wheel's time has not reached.
  [[nodiscard]] int arm_plain(wheel_entry& entry, tick deadline) noexcept {
    // in this order: moving an armed timer then uses no count
    if (!entry.armed() && !liveness::count_plain_arm(*wheel_)) [[unlikely]]
      return arm_uncounted(entry, deadline);
    if (wheel_->arm_counted(entry, deadline)) [[unlikely]]  // the first one armed takes the slow path
      wake_sooner();
    return 0;
  }
  // as `arm_tick`, for any timer in any state
  [[nodiscard]] int arm_slow_path(wheel_entry&, tick deadline) noexcept;
  // as `arm_slow_path`, for a timer that the fast path has counted
  [[nodiscard]] int arm_uncounted(wheel_entry&, tick deadline) noexcept;
  // what both do; `caller` is for the probe
  [[nodiscard]] int admit_and_place(wheel_entry&, tick deadline, const void* caller) noexcept;
  [[nodiscard]] int arm_immediate(wheel_entry&, clock::time_point since) noexcept;
  [[nodiscard]] int admit(wheel_entry&) noexcept;
  void place(wheel_entry&, tick deadline, const void* caller) noexcept;  // arms one that was admitted
  void trace_arm(wheel_entry&, tick deadline, const void* caller) const noexcept;
  void skip_idle_time() noexcept;
  void wake_sooner() noexcept;
  bool find_next_wakeup() noexcept;

  // In this order, so that what arm, cancel and touch use is close together: from the end of `clock_` to the start of `wheel_`.
  liveness alive_;
  loop_clock clock_;
  std::uintptr_t thread_and_shift_ = 0;  // `this_thread` xor the shift of a tick, which is one load for both; 0: closed
  timeline timeline_;
  driver* driver_ = nullptr;  // null: closed
  tick wake_ = never;         // 0: see begin_pass
  bool pass_runs_ = false;
  bool armed_after_ = false;
  bool on_steady_clock_ = false;
  bool open_expected_ = false;
  bool forwards_ = false;
  alignas(8) std::optional<wheel> wheel_;  // so that timers can tag the address of a service in three bits
  std::uint64_t refused_ = 0;
  tick pass_ = 0;         // the stamp of the pass that began last
  tick pass_before_ = 0;  // the stamp of the one before it
};

}  // namespace tickwheel::detail
