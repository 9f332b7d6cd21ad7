// libev: timers in a four-ary heap, by the loop's cached time.
#pragma once

#include "polled_loop.hpp"

#include <ev.h>

#include <chrono>
#include <optional>
#include <string_view>

namespace tickwheel::bench {

class libev_loop {
 public:
  static constexpr std::string_view name = "libev";

  struct timer : ev_timer {
    explicit timer(struct ev_loop*) noexcept { ev_timer_init(this, nullptr, 0., 0.); }
  };
  using connection = bench::connection<timer>;

  template <class Begin>
  explicit libev_loop(Begin) noexcept
      : loop_{ev_loop_new(static_cast<unsigned>(EVBACKEND_EPOLL) | static_cast<unsigned>(EVFLAG_NOENV))} {}
  ~libev_loop() { ev_loop_destroy(loop_); }
  libev_loop(const libev_loop&) = delete;
  libev_loop& operator=(const libev_loop&) = delete;

  struct ev_loop* context() const noexcept {
    return loop_;
  }

  // ev_timer_again moves an active timer within the heap, which is cheaper than stopping and starting it
  void arm(connection& c, std::chrono::microseconds delay) noexcept {
    const ev_tstamp seconds = std::chrono::duration<ev_tstamp>(delay).count();
    if (ev_is_active(&c)) {
      c.repeat = seconds;
      ev_timer_again(loop_, &c);
      return;
    }
    ev_timer_init(&c, &run, seconds, 0.);
    ev_timer_start(loop_, &c);
  }

  bool cancel(connection& c) noexcept {
    const bool was_armed = ev_is_active(&c) != 0;
    ev_timer_stop(loop_, &c);
    return was_armed;
  }

  void poll() noexcept { ev_run(loop_, EVRUN_NOWAIT); }
  // A timer is due only when its time is over. Exactly at that time libev polls, which does not move the clock.
  bool wait() noexcept {
    const std::chrono::nanoseconds before = simulated_clock::now();
    const bool more = ev_run(loop_, EVRUN_ONCE) != 0;
    if (simulated_clock::now() == before) simulated_clock::set(before + std::chrono::microseconds{1});
    return more;
  }

  std::optional<std::chrono::nanoseconds> due(const connection& c) const noexcept {
    if (!ev_is_active(&c)) return {};
    // by the loop's time, which is the steady clock's; the meaning of `at` in an active timer
    return std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<ev_tstamp>(c.at));
  }

 private:
  static void run(struct ev_loop* loop, ev_timer* t, int) noexcept {
    if (t->repeat > 0.) ev_timer_stop(loop, t);  // it was moved
    expired.add(static_cast<connection*>(t)->id);
  }

  struct ev_loop* loop_;
};

using libev_subject = polled_subject<libev_loop>;

}  // namespace tickwheel::bench
