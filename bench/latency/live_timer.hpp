// The public timer, armed with the true time.
#pragma once

#include "live.hpp"
#include "live_watch.hpp"

#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <deque>

namespace tickwheel::bench {

class live_timer final : public live_subject {
 public:
  live_timer(std::size_t n, live_listener& listener, const service_options& options = {}) : watch_{listener} {
    if (uv_loop_init(&loop_) != 0 || timers_.open(loop_, options) != 0) std::abort();
    for (std::size_t i = 0; i < n; ++i) all_.emplace_back(timers_, i, listener);
  }
  ~live_timer() override {
    all_.clear();
    timers_.close();
    watch_.close();
    uv_run(&loop_, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop_) != 0) std::abort();
  }

  void arm(std::size_t timer, std::chrono::nanoseconds delay) noexcept override {
    if (all_[timer].arm(delay) != 0) std::abort();
  }
  void watch(int fd) noexcept override { watch_.start(loop_, fd); }
  void run() noexcept override { uv_run(&loop_, UV_RUN_DEFAULT); }
  void stop() noexcept override { uv_stop(&loop_); }

 private:
  struct one : timer {
    one(timer_service& service, std::size_t number, live_listener& to)
        : timer{service, &due}, id{number}, listener{to} {}
    static void due(wheel_entry& entry) noexcept {
      auto& self = static_cast<one&>(timer::from(entry));
      self.listener.on_due(self.id);
    }
    std::size_t id;
    live_listener& listener;
  };

  uv_loop_t loop_{};
  live_watch watch_;
  timer_service timers_;
  std::deque<one> all_;
};

}  // namespace tickwheel::bench
