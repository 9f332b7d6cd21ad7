#include <tickwheel/uv/detail/armed_timers.hpp>

#include "probes.hpp"

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/detail/forwarding_timer.hpp>
#include <tickwheel/uv/timer.hpp>

#include <algorithm>
#include <bit>
#include <new>

namespace tickwheel::detail {

namespace {

// Returns the earliest tick of [from, to] that is a multiple of the largest power of two. Many ranges share such ticks, so
// deadlines with slack gather on few ticks.
tick most_shared(tick from, tick to) noexcept {
  if (from == 0 || from >= to) return from;
  const tick unit = std::bit_floor((from - 1) ^ to);
  return to & ~(unit - 1);
}

}  // namespace

// To be called before a timer is armed. While somebody traces, every unarmed timer comes here: `update_hold` sends it.
inline void armed_timers::trace_arm(wheel_entry& entry, tick deadline, const void* caller) const noexcept {
  if (!probes::traced() || entry.armed()) [[likely]]
    return;
  probes::arm(&entry, forwards_ ? forwarding_timer::target_of(timer::from(entry)) : entry.handler(),
              timeline_.begin_of(deadline), caller);
}

[[gnu::cold]] int armed_timers::make_wheel(wheel_geometry geometry) noexcept {
#if defined(__cpp_exceptions)
  try {
    wheel_.emplace(geometry);
  } catch (const std::bad_alloc&) {
    return UV_ENOMEM;
  }
#else
  wheel_.emplace(geometry);
#endif
  return 0;
}

[[gnu::cold]] void armed_timers::open(driver& on, const service_options& options) noexcept {
  alive_.restart(options.max_armed, *wheel_);
  wake_ = never;
  pass_ = pass_before_ = 0;
  pass_runs_ = false;
  refused_ = 0;
  driver_ = &on;
  on_steady_clock_ = on.on_steady_clock();
  clock_.open(on, options.stall_grace);
  timeline_ = {clock_.stamp(), tick_length::at_most(options.tick)};
  use_on_this_thread();
}

void armed_timers::close() noexcept {
  driver_ = nullptr;
  thread_and_shift_ = 0;
  clock_.close();
}

int armed_timers::arm_after(wheel_entry& entry, clock::time_point steady, std::chrono::nanoseconds after,
                            std::chrono::nanoseconds slack) noexcept {
  if (!is_open()) return refuse_when_closed();
  armed_after_ = true;
  const clock::time_point now = on_steady_clock_ ? steady : driver_->now();
  if (after.count() <= 0 && slack.count() <= 0) return arm_immediate(entry, now);
  const auto due = add_saturating(now, after);
  tick deadline = timeline_.ceil(due);
  if (slack.count() > 0) {
    const tick latest = std::max(deadline, timeline_.floor(add_saturating(due, slack)));
    const tick armed = entry.deadline();
    deadline = deadline <= armed && armed <= latest ? armed : most_shared(deadline, latest);
  }
  return timer::from(entry).has_ref() ? arm_tick(entry, deadline) : arm_slow_path(entry, deadline);
}

int armed_timers::arm_at(wheel_entry& entry, clock::time_point when, past_time passed) noexcept {
  if (passed == past_time::verdict)  // no stamp that was taken before the call is later than the time that was reached
    when = std::max(when, add_saturating(clock_.latest_reached(), std::chrono::nanoseconds{1}));
  else if (when <= clock_.stamp())
    return arm_immediate(entry, clock_.stamp());
  return arm_slow_path(entry, timeline_.ceil(when));
}

[[gnu::noinline]] int armed_timers::arm_slow_path(wheel_entry& entry, tick deadline) noexcept {
  return admit_and_place(entry, deadline, __builtin_return_address(0));
}

// Here and not in the fast path, which would otherwise keep the count in a register.
[[gnu::noinline]] int armed_timers::arm_uncounted(wheel_entry& entry, tick deadline) noexcept {
  liveness::take_back_arm(*wheel_);
  return admit_and_place(entry, deadline, __builtin_return_address(0));
}

[[gnu::noinline]] int armed_timers::admit_and_place(wheel_entry& entry, tick deadline, const void* caller) noexcept {
  if (const int error = admit(entry)) return error;
  if (wheel_->armed() == 0) skip_idle_time();
  place(entry, deadline, caller);
  return 0;
}

[[gnu::noinline]] void armed_timers::place(wheel_entry& entry, tick deadline, const void* caller) noexcept {
  trace_arm(entry, deadline, caller);
  wheel_->arm(entry, deadline);
  update_hold();
  wake_sooner();
}

// An immediate has no tick, because a tick ahead of the clock would make its neighbours early. `since` may be of an earlier
// iteration. The time of the last poll is then nearer, though it may be later than the true time.
//
// A read of each iteration, or handlers of each pass, may arm anew one that is armed. It must run nevertheless. So it keeps the time of
// its first call, and once its pass is known only a handler moves it to the next one. If it has waited since before the stamp of the
// pass before, no call moves it.
int armed_timers::arm_immediate(wheel_entry& entry, clock::time_point since) noexcept {
  if (const int error = admit(entry)) return error;
  const clock::time_point polled = driver_->poll_ended_at() - driver_->poll_ended_error();
  tick begin = std::max(timeline_.floor(std::max(since, polled)), pass_);
  if (wheel::is_immediate(entry)) {
    if (wheel_->immediates_wait() && (!pass_runs_ || entry.deadline() < pass_before_)) return 0;
    begin = entry.deadline();
  }
  trace_arm(entry, begin, __builtin_return_address(0));
  wheel_->arm_immediate(entry, begin);
  update_hold();
  if (wake_ == never)
    schedule();
  else if (wake_ != 0)
    driver_->pass_soon();
  return 0;
}

// If `open` was never called, the program forgot it.
int armed_timers::refuse_when_closed() const noexcept {
#ifndef NDEBUG
  require(open_expected_, "a timer was armed on a service that was never opened (call timer_service::open first)");
#endif
  return UV_ECANCELED;
}

// Finds a place for a timer that is to be armed. Returns 0, or why there is none.
int armed_timers::admit(wheel_entry& entry) noexcept {
  if (!is_open()) return refuse_when_closed();
  check_thread();
  if (entry.armed()) return 0;
  if (alive_.keeps_place(entry)) {
    alive_.give_up_place();
  } else if (alive_.places_left(*wheel_) == 0) {
    ++refused_;
    return UV_ENOBUFS;
  }
  if (!timer::from(entry).has_ref()) alive_.add_unref();
  return 0;
}

// Timers of other threads are never refused once they were accepted. They may have taken the place of a timer that has expired.
void armed_timers::arm_again(wheel_entry& entry, tick deadline) noexcept {
  check_thread();
  if (!entry.armed() && !timer::from(entry).has_ref()) alive_.add_unref();
  place(entry, deadline, __builtin_return_address(0));
}

void armed_timers::cancel_slow_path(wheel_entry& entry) noexcept {
  check_thread();
  if (!timer::from(entry).has_ref()) alive_.remove_unref();
  cancel(entry);
}

[[gnu::cold]] void armed_timers::change_ref(bool on) noexcept {
  check_thread();
  if (on)
    alive_.remove_unref();
  else
    alive_.add_unref();
  update_hold();
}

// While no timer is armed, the wheel's time stands still. It is brought up to date before the next timer is placed. A running or
// pending pass does that itself.
void armed_timers::skip_idle_time() noexcept {
  if (!in_pass()) wheel_->advance(tick_to_reach(clock_.now()), 0);
}

void armed_timers::schedule() noexcept {
  if (find_next_wakeup()) driver_->wake_at(timeline_.begin_of(wake_));
}

void armed_timers::schedule(clock::time_point now) noexcept {
  if (find_next_wakeup()) driver_->wake_at_as_of(now, timeline_.begin_of(wake_));
}

// Returns false if none is needed. Out of line, as `update_hold`: inlined, they took a kilobyte.
[[gnu::noinline]] bool armed_timers::find_next_wakeup() noexcept {
  if (wheel_->next_expiry() <= wheel_->now()) driver_->pass_soon();
  wake_ = wheel_->next_in_slots();
  if (wake_ == never) driver_->cancel_wakeup();
  return wake_ != never;
}

// At once, and not in the loop's next iteration: without an active libuv timer the loop may end before that.
void armed_timers::wake_sooner() noexcept {
  if (wheel_->expiry_bound() < wake_) schedule();
}

[[gnu::noinline]] void armed_timers::update_hold() noexcept {
  if (!is_open()) return;
  const bool changed = alive_.update(*wheel_);
  if (probes::traced()) [[unlikely]]
    liveness::check_every_arm(*wheel_);
  if (changed) driver_->hold_loop(alive_.held());
}

}  // namespace tickwheel::detail
