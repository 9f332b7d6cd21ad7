// libevent's timers in their usual way: microseconds, from the base's time.
#pragma once

#include "live.hpp"

#include <event2/event.h>
#include <event2/event_struct.h>

#include <sys/time.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <memory>

namespace tickwheel::bench {

/// By default libevent reads the kernel's coarse clock, and waits in epoll's milliseconds. With EVENT_BASE_FLAG_PRECISE_TIMER it
/// reads the exact clock, and is woken by a timerfd.
enum class libevent_clock { coarse, precise };

class live_libevent final : public live_subject {
 public:
  live_libevent(std::size_t n, live_listener& listener, libevent_clock clock = libevent_clock::coarse)
      : base_{make_base(clock)}, listener_{listener} {
    for (std::size_t i = 0; i < n; ++i) {
      one& o = all_.emplace_back(one{{}, i, &listener});
      event_assign(&o.timer, base_.get(), -1, 0, &due, &o);
    }
  }
  ~live_libevent() override {
    for (one& o : all_) event_del(&o.timer);
    if (watched_) event_del(&watch_);
  }

  void arm(std::size_t timer, std::chrono::nanoseconds delay) noexcept override {
    const auto us = std::chrono::ceil<std::chrono::microseconds>(delay).count();
    const timeval after{static_cast<time_t>(us / 1'000'000), static_cast<suseconds_t>(us % 1'000'000)};
    event_add(&all_[timer].timer, &after);
  }
  void watch(int fd) noexcept override {
    event_assign(
        &watch_, base_.get(), fd, EV_READ | EV_PERSIST,
        [](evutil_socket_t, short, void* to) { static_cast<live_listener*>(to)->on_readable(); }, &listener_);
    event_add(&watch_, nullptr);
    watched_ = true;
  }
  void run() noexcept override { event_base_dispatch(base_.get()); }
  void stop() noexcept override { event_base_loopbreak(base_.get()); }

 private:
  struct one {
    event timer;
    std::size_t id;
    live_listener* listener;
  };
  struct free_base {
    void operator()(event_base* base) const noexcept { event_base_free(base); }
  };
  using base = std::unique_ptr<event_base, free_base>;

  static base make_base(libevent_clock clock) {
    const std::unique_ptr<event_config, decltype(&event_config_free)> config{event_config_new(), &event_config_free};
    event_config_set_flag(config.get(), EVENT_BASE_FLAG_NOLOCK);
    if (clock == libevent_clock::precise) event_config_set_flag(config.get(), EVENT_BASE_FLAG_PRECISE_TIMER);
    base made{event_base_new_with_config(config.get())};
    if (!made) std::abort();
    return made;
  }
  static void due(evutil_socket_t, short, void* at) noexcept {
    const one& o = *static_cast<one*>(at);
    o.listener->on_due(o.id);
  }

  base base_;
  live_listener& listener_;
  std::deque<one> all_;
  event watch_{};
  bool watched_ = false;
};

}  // namespace tickwheel::bench
