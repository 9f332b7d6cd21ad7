// Each timer-like class behind one small interface: start it, and `fired` counts the calls of its handler.
#pragma once

#include <tickwheel/tickwheel.hpp>

#include <chrono>
#include <functional>

namespace subjects {

using std::chrono::nanoseconds;
using tickwheel::deadline;
using tickwheel::timer_service;

/// The owner of a timer: notes how often and when its handler ran, then does what the test wants.
struct owner {
  explicit owner(timer_service& service) : timers{service} {}

  void on_time() noexcept {
    ++fired;
    at = timers.read_clock();
    const auto call = then;  // a copy, because the call may destroy this
    if (call) call();
  }
  /// The time `after` from now, if the service can say what time it is.
  tickwheel::clock::time_point in(nanoseconds after) const {
    return timers.is_open() ? timers.read_clock() + after : at;
  }
  void on_phase(tickwheel::request_phase) noexcept { on_time(); }

  timer_service& timers;
  int fired = 0;
  tickwheel::clock::time_point at{};
  std::function<void()> then;
};

/// An owner with a `Timer`, which it starts by `start(after)`.
template <class Timer>
struct owner_of : owner {
  explicit owner_of(timer_service& service) : owner{service}, timer{service, *this} {}
  static constexpr bool repeats = false;
  Timer timer;
};

struct plain_timer : owner {
  explicit plain_timer(timer_service& service) : owner{service}, timer{service, *this} {}
  static constexpr bool repeats = false;
  int start(nanoseconds after) { return timer.arm(after); }

  struct plain : tickwheel::timer {
    plain(timer_service& service, owner& self) : timer{service, &run}, of{self} {}
    static void run(tickwheel::wheel_entry& entry) noexcept { static_cast<plain&>(from(entry)).of.on_time(); }
    owner& of;
  } timer;
};

struct plain_timer_at : plain_timer {
  using plain_timer::plain_timer;
  int start(nanoseconds after) { return timer.arm_at(in(after)); }
};

struct callback_timer : owner {
  explicit callback_timer(timer_service& service) : owner{service}, timer{service, {*this}} {}
  static constexpr bool repeats = false;
  int start(nanoseconds after) { return timer.arm(after); }

  struct call {
    owner& of;
    void operator()() const noexcept { of.on_time(); }
  };
  tickwheel::callback_timer<call> timer;
};

struct member_timer : owner_of<tickwheel::member_timer<&owner::on_time>> {
  using owner_of::owner_of;
  int start(nanoseconds after) { return timer.arm(after); }
};

struct interval_timer : owner_of<tickwheel::interval_timer<&owner::on_time>> {
  using owner_of::owner_of;
  static constexpr bool repeats = true;
  int start(nanoseconds period) { return timer.start(period); }
};

struct deadline_timer : owner_of<tickwheel::deadline_timer<&owner::on_time>> {
  using owner_of::owner_of;
  int start(nanoseconds after) { return timer.start(deadline::at(in(after))); }
};

struct idle_timeout : owner_of<tickwheel::idle_timeout<&owner::on_time>> {
  using owner_of::owner_of;
  int start(nanoseconds limit) { return timer.start(limit); }
};

struct write_idle_timeout : owner_of<tickwheel::write_idle_timeout<&owner::on_time>> {
  using owner_of::owner_of;
  int start(nanoseconds limit) {
    const int error = timer.start(limit);
    if (error == 0) timer.add_queued(1);
    return error;
  }
};

struct all_idle_timeout : owner_of<tickwheel::all_idle_timeout<&owner::on_time>> {
  using owner_of::owner_of;
  int start(nanoseconds limit) { return timer.start(limit); }
};

struct minimum_rate : owner_of<tickwheel::minimum_rate<&owner::on_time>> {
  using owner_of::owner_of;
  int start(nanoseconds grace) { return timer.start({.grace = grace, .interval = grace}); }
};

struct phase_timeouts : owner_of<tickwheel::phase_timeouts<&owner::on_phase>> {
  using owner_of::owner_of;
  int start(nanoseconds header) { return timer.start({.header = header}); }
};

/// Waits for its second attempt.
struct retry_timer : owner {
  explicit retry_timer(timer_service& service) : owner{service}, timer{service, *this, {.backoff = none}} {}
  static constexpr bool repeats = false;
  int start(nanoseconds after) {
    if (const int error = timer.start()) return error;
    switch (timer.retry(after)) {
      case tickwheel::retry_result::scheduled:
        return 0;
      case tickwheel::retry_result::limit_reached:
        return UV_ENOBUFS;
      default:
        return UV_EINVAL;
    }
  }

  static constexpr tickwheel::backoff_options none{
      .base = nanoseconds{1}, .cap = nanoseconds{1}, .kind = tickwheel::jitter_kind::none};
  tickwheel::retry_timer<&owner::on_time> timer;
};

}  // namespace subjects
