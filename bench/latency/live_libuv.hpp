// libuv's own timers in their usual way: milliseconds, rounded up, from the loop's time.
#pragma once

#include "live.hpp"
#include "live_watch.hpp"

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>

namespace tickwheel::bench {

class live_libuv final : public live_subject {
 public:
  live_libuv(std::size_t n, live_listener& listener) : watch_{listener} {
    if (uv_loop_init(&loop_) != 0) std::abort();
    for (std::size_t i = 0; i < n; ++i) {
      one& o = all_.emplace_back(one{{}, i, &listener});
      uv_timer_init(&loop_, &o.handle);
      o.handle.data = &o;
    }
  }
  ~live_libuv() override {
    for (one& o : all_) uv_close(reinterpret_cast<uv_handle_t*>(&o.handle), nullptr);
    watch_.close();
    uv_run(&loop_, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop_) != 0) std::abort();
  }

  void arm(std::size_t timer, std::chrono::nanoseconds delay) noexcept override {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(delay).count();
    uv_timer_start(&all_[timer].handle, &due, static_cast<std::uint64_t>(ms), 0);
  }
  void watch(int fd) noexcept override { watch_.start(loop_, fd); }
  void run() noexcept override { uv_run(&loop_, UV_RUN_DEFAULT); }
  void stop() noexcept override { uv_stop(&loop_); }

 private:
  struct one {
    uv_timer_t handle;
    std::size_t id;
    live_listener* listener;
  };
  static void due(uv_timer_t* t) noexcept {
    const one& o = *static_cast<one*>(t->data);
    o.listener->on_due(o.id);
  }

  uv_loop_t loop_{};
  live_watch watch_;
  std::deque<one> all_;
};

}  // namespace tickwheel::bench
