// libev's timers in their usual way: seconds as a double, from the loop's time.
#pragma once

#include "live.hpp"

#include <ev.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <deque>

namespace tickwheel::bench {

class live_libev final : public live_subject {
 public:
  live_libev(std::size_t n, live_listener& listener)
      : loop_{ev_loop_new(static_cast<unsigned>(EVBACKEND_EPOLL) | static_cast<unsigned>(EVFLAG_NOENV))},
        listener_{listener} {
    if (loop_ == nullptr) std::abort();
    for (std::size_t i = 0; i < n; ++i) {
      one& o = all_.emplace_back();
      ev_timer_init(&o, &due, 0., 0.);
      o.id = i;
      o.listener = &listener;
    }
  }
  ~live_libev() override {
    for (one& o : all_) ev_timer_stop(loop_, &o);
    if (watched_) ev_io_stop(loop_, &watch_);
    ev_loop_destroy(loop_);
  }

  void arm(std::size_t timer, std::chrono::nanoseconds delay) noexcept override {
    one& o = all_[timer];
    ev_timer_set(&o, std::chrono::duration<ev_tstamp>(delay).count(), 0.);
    ev_timer_start(loop_, &o);
  }
  void watch(int fd) noexcept override {
    const auto on_event = [](struct ev_loop*, ev_io* io, int) noexcept {
      static_cast<live_listener*>(io->data)->on_readable();
    };
    ev_io_init(&watch_, on_event, fd, EV_READ);
    watch_.data = &listener_;
    ev_io_start(loop_, &watch_);
    watched_ = true;
  }
  void run() noexcept override { ev_run(loop_, 0); }
  void stop() noexcept override { ev_break(loop_, EVBREAK_ALL); }

 private:
  struct one : ev_timer {
    std::size_t id;
    live_listener* listener;
  };
  static void due(struct ev_loop*, ev_timer* t, int) noexcept {
    const one& o = *static_cast<one*>(t);
    o.listener->on_due(o.id);
  }

  struct ev_loop* loop_;
  live_listener& listener_;
  std::deque<one> all_;
  ev_io watch_{};
  bool watched_ = false;
};

}  // namespace tickwheel::bench
