// Each timer-like class behind one small interface: start it, and `fired` counts the calls of its handler.
#pragma once

#include <tickwheel/tickwheel.hpp>

#include "../support/owner.hpp"

namespace subjects {

using std::chrono::nanoseconds;
using tickwheel::deadline;
using tickwheel::timer_service;

/// The time `after` from now, if the service can say what time it is.
inline tickwheel::clock::time_point in(const timer_service& timers, nanoseconds after) {
  return timers.is_open() ? timers.read_clock() + after : tickwheel::clock::time_point{};
}

struct plain_timer : owner {
  explicit plain_timer(timer_service& service) : owner{service}, timer{service, *this} {}
  int start(nanoseconds after) { return timer.arm(after); }

  struct plain : tickwheel::timer {
    plain(timer_service& service, owner& self) : timer{service, &run}, of{self} {}
    static void run(tickwheel::wheel_entry& entry) noexcept { static_cast<plain&>(from(entry)).of.on_time(); }
    owner& of;
  } timer;
};

struct plain_timer_at : plain_timer {
  using plain_timer::plain_timer;
  int start(nanoseconds after) { return timer.arm_at(in(timers, after)); }
};

struct callback_timer : owner {
  explicit callback_timer(timer_service& service) : owner{service}, timer{service, {*this}} {}
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
  int start(nanoseconds period) { return timer.start(period); }
};

struct deadline_timer : owner_of<tickwheel::deadline_timer<&owner::on_time>> {
  using owner_of::owner_of;
  int start(nanoseconds after) { return timer.start(deadline::at(in(timers, after))); }
};

struct idle_timeout : owner_of<tickwheel::idle_timeout<&owner::on_time>> {
  using owner_of::owner_of;
  int start(nanoseconds limit) { return timer.start(limit); }
  void heard() { timer.touch(); }
};

/// Its peer takes a byte of many.
struct write_idle_timeout : owner_of<tickwheel::write_idle_timeout<&owner::on_time>> {
  using owner_of::owner_of;
  int start(nanoseconds limit) {
    const int error = timer.start(limit);
    if (error == 0) timer.add_queued(queued);
    return error;
  }
  void heard() { timer.set_queued(--queued); }
  std::size_t queued = 1'000'000;
};

struct all_idle_timeout : owner_of<tickwheel::all_idle_timeout<&owner::on_time>> {
  using owner_of::owner_of;
  int start(nanoseconds limit) { return timer.start(limit); }
  void heard() { timer.touch(); }
};

struct minimum_rate : owner_of<tickwheel::minimum_rate<&owner::on_time>> {
  using owner_of::owner_of;
  int start(nanoseconds grace) { return timer.start({.grace = grace, .interval = grace}); }
  void heard() { timer.progress(1'000'000'000); }
};

/// Waits for headers. Its peer sends one, is answered, and begins the next.
struct phase_timeouts : owner_of<tickwheel::phase_timeouts<&owner::on_phase>> {
  using owner_of::owner_of;
  int start(nanoseconds header) { return timer.start({.header = header}); }
  void heard() {
    timer.on_request_end();
    timer.on_response_end();
    timer.on_bytes();
  }
};

/// Has an answer within the time, or fails.
struct pending_call : owner {
  explicit pending_call(timer_service& service) : owner{service}, timer{service, *this} { EXPECT_EQ(calls.open(1), 0); }
  int start(nanoseconds after) {
    timer.cancel();
    return calls.start(timer, 1, deadline::at(in(timers, after)));
  }

  /// A call that is pending on a closed service waits for no time.
  struct call : tickwheel::pending_call {
    call(timer_service& service, owner& self) : pending_call{service}, of{self} {}
    void on_failed(int) noexcept { of.on_time(); }
    bool armed() const { return expires_at() != tickwheel::clock::time_point::max(); }
    bool cancel() {
      const bool was_armed = armed();
      pending_call::cancel();
      return was_armed;
    }
    owner& of;
  } timer;
  tickwheel::pending_calls<&call::on_failed> calls;
};

/// Has an answer within the time, or fails: there is one attempt, whose only limit is the deadline.
struct call_policy : owner {
  explicit call_policy(timer_service& service) : owner{service}, timer{service, *this} {
    constexpr auto unlimited = nanoseconds::max();
    EXPECT_EQ(calls.open({.capacity = 1, .max_attempts = 1, .attempt_timeout = unlimited, .total_timeout = unlimited}),
              0);
  }
  int start(nanoseconds after) {
    timer.cancel();
    return calls.start(timer, deadline::at(in(timers, after)));
  }

  /// A call that is pending on a closed service waits for no time.
  struct call : tickwheel::policy_call {
    call(timer_service& service, owner& self) : policy_call{service}, of{self} {}
    int send(tickwheel::call_attempt) noexcept { return 0; }
    void on_failed(int) noexcept { of.on_time(); }
    bool armed() const { return due_at() != tickwheel::clock::time_point::max(); }
    bool cancel() {
      const bool was_armed = armed();
      policy_call::cancel();
      return was_armed;
    }
    owner& of;
  } timer;
  tickwheel::call_policy<&call::send, &call::on_failed> calls;
};

/// Has one entry, which expires.
struct map_entry : owner {
  explicit map_entry(timer_service& service) : owner{service}, timer{service, *this} {}
  void on_expired(int, int) noexcept { on_time(); }
  int start(nanoseconds limit) {
    timer.close();
    if (const int error = timer.open({.capacity = 1, .limit = limit})) return error;
    return timer.insert(1, 1);
  }

  struct map : tickwheel::expiring_map<int, int, &map_entry::on_expired> {
    using base = tickwheel::expiring_map<int, int, &map_entry::on_expired>;
    using base::base;
    bool armed() const { return contains(1); }
    bool cancel() {
      const bool was_armed = armed();
      close();
      return was_armed;
    }
  } timer;
};

/// On a closed pool, which refuses the work when it is due.
struct offload : owner {
  explicit offload(timer_service& service) : owner{service}, timer{service, pool, *this} {}
  void on_done(int error) noexcept {
    EXPECT_EQ(error, UV_ECANCELED);
    on_time();
  }
  int start(nanoseconds after) {
    return timer.arm(after, []() noexcept {});
  }

  tickwheel::offload_pool pool;
  tickwheel::offload<&offload::on_done> timer;
};

/// Waits for its second attempt.
struct retry_timer : owner {
  explicit retry_timer(timer_service& service) : owner{service}, timer{service, *this, {.backoff = none}} {}
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

/// The names of suites.
struct names {
  template <class Subject>
  static std::string GetName(int) {
    const std::string name = testing::internal::GetTypeName<Subject>();
    return name.substr(name.rfind(':') + 1);
  }
};

/// True for a timer that starts itself again.
template <class Subject>
inline constexpr bool repeats = std::is_same_v<Subject, interval_timer>;

/// True for a timer that checks for activity once per limit, and so may be a limit late.
template <class Subject>
inline constexpr bool checks_per_limit = std::is_same_v<Subject, minimum_rate>;

}  // namespace subjects
