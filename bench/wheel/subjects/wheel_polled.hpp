// The bare wheel beside a libuv loop that has no timers.
#pragma once

#include "../../../tests/support/simulated_clock.hpp"
#include "simulated_loop.hpp"
#include "wheel.hpp"

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace tickwheel::bench {

/// Runs an iteration of the loop as often as `timer_subject` does. A poll is a system call, after which memory is slower for a while. So the
/// difference to `wheel` is what the loop costs, and the difference to `timer_at` is what the timer service costs.
class wheel_polled_subject : public wheel_subject<default_shape> {
  using wheel_alone = wheel_subject<default_shape>;

 public:
  static constexpr std::string_view name = "wheel_polled";

  explicit wheel_polled_subject(std::size_t n) : wheel_alone{n} {
    // libuv polls only while something keeps the loop alive.
    if (uv_async_init(&loop_.get(), &keeps_alive_, nullptr) != 0) std::abort();
  }
  ~wheel_polled_subject() { uv_close(reinterpret_cast<uv_handle_t*>(&keeps_alive_), nullptr); }

  void advance_to(std::chrono::nanoseconds now) noexcept {
    loop_.advance_to(now);
    wheel_alone::advance_to(now);
  }

 private:
  uv_async_t keeps_alive_;  // before the loop, which closes it
  simulated_loop loop_;
};

}  // namespace tickwheel::bench
