// A descriptor that a libuv loop watches for a live_listener.
#pragma once

#include "live.hpp"

#include <uv.h>

#include <cstdlib>

namespace tickwheel::bench {

class live_watch {
 public:
  explicit live_watch(live_listener& listener) noexcept : listener_{listener} {}
  live_watch(const live_watch&) = delete;
  live_watch& operator=(const live_watch&) = delete;

  void start(uv_loop_t& loop, int fd) noexcept {
    if (uv_poll_init(&loop, &handle_, fd) != 0) std::abort();
    handle_.data = &listener_;
    const auto on_event = [](uv_poll_t* handle, int, int) noexcept {
      static_cast<live_listener*>(handle->data)->on_readable();
    };
    if (uv_poll_start(&handle_, UV_READABLE, on_event) != 0) std::abort();
    started_ = true;
  }

  /// The loop must run one more iteration before this is destroyed.
  void close() noexcept {
    if (started_) uv_close(reinterpret_cast<uv_handle_t*>(&handle_), nullptr);
  }

 private:
  live_listener& listener_;
  uv_poll_t handle_{};
  bool started_ = false;
};

}  // namespace tickwheel::bench
