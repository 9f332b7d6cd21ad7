// The public timer, on a libuv loop: with the loop's time stamp, with the true time, and with slack.
#pragma once

#include "../../support/connection.hpp"
#include "simulated_loop.hpp"

#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

namespace tickwheel::bench {

// Arming cannot fail here, because the service is open and has no limit. The cost of a check would also be measured.

/// `arm_at(service.now() + delay)`: reads the clock once per iteration.
struct stamped_time {
  static constexpr std::string_view name = "timer_at";
  static void arm(timer& t, timer_service& service, std::chrono::microseconds delay) noexcept {
    (void)t.arm_at(service.now() + delay);
  }
};

/// `arm(delay)`: reads the clock for each.
struct true_time {
  static constexpr std::string_view name = "timer";
  static void arm(timer& t, timer_service&, std::chrono::microseconds delay) noexcept { (void)t.arm(delay); }
};

/// `arm(delay, slack)`: may be a tenth of the delay later, to share a wakeup.
struct with_slack {
  static constexpr std::string_view name = "timer_slack";
  static void arm(timer& t, timer_service&, std::chrono::microseconds delay) noexcept {
    (void)t.arm(delay, delay / 10);
  }
};

/// `before`: so many bytes of a connection lie before its timer.
template <class Time, std::size_t before = 0>
class timer_subject {
 public:
  using connection = bench::connection<timer, before>;
  static constexpr std::string_view name = before == 0 ? Time::name : std::string_view{"timer_split"};

  explicit timer_subject(std::size_t n) : connections_{n, timers_, &run} {
    // The bounds of a pass keep I/O responsive, and here is none. With them the number of iterations would be measured. And time that
    // jumps from wait to wait would count as one stall after the other, and as blocks.
    if (timers_.open(loop_.get(), {.work_per_pass = unlimited,
                                   .stall_grace = std::chrono::nanoseconds::max(),
                                   .time_per_pass = std::chrono::nanoseconds::max(),
                                   .io_wait = 0}) != 0)
      std::abort();
  }

  connection& operator[](std::size_t i) const noexcept { return connections_[i]; }

  void arm(connection& c, std::chrono::microseconds delay) noexcept { Time::arm(c, timers_, delay); }
  bool cancel(connection& c) noexcept { return c.cancel(); }

  void renew(connection& c) noexcept {
    const auto id = c.id;
    std::destroy_at(&c);
    std::construct_at(&c, id, timers_, &run);
  }

  void advance_to(std::chrono::nanoseconds now) noexcept { loop_.advance_to(now); }
  void jump_to(std::chrono::nanoseconds now) noexcept { loop_.jump_to(now); }
  void run_out(std::chrono::nanoseconds end) noexcept { loop_.run_out(end); }
  std::size_t step_out() noexcept { return loop_.run_out(); }

  std::optional<std::chrono::nanoseconds> due(const connection& c) const noexcept {
    if (!c.armed()) return {};
    return simulated_loop::time_of(c.deadline().time_since_epoch());
  }

 private:
  static void run(wheel_entry& e) noexcept { expired.add(static_cast<connection&>(timer::from(e)).id); }

  simulated_loop loop_;
  timer_service timers_;
  connections<connection> connections_;
};

}  // namespace tickwheel::bench
