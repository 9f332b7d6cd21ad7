// The timers of tickwheel.h, for C, on a libuv loop.
#pragma once

#include "../../support/connection.hpp"
#include "simulated_loop.hpp"

#include <tickwheel/tickwheel.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

namespace tickwheel::bench {

/// `tw_timer_start_ns(delay)` and `tw_timer_stop`: each start reads the clock.
class c_timer_subject {
 public:
  using connection = bench::connection<tw_timer_t>;
  static constexpr std::string_view name = "timer_c";

  explicit c_timer_subject(std::size_t n) : connections_{n} {
    // without bounds, for the reasons that subjects/timer.hpp gives
    tw_service_options_t options{};
    options.work_per_pass = options.time_per_pass_ns = options.stall_grace_ns = UINT64_MAX;
    options.io_wait = TW_IO_WAIT_NONE;
    require(tw_service_init_with(&loop_->get(), &service_, &options, sizeof options));
    for (const auto& c : connections_) require(tw_timer_init(&service_, c.get()));
  }
  ~c_timer_subject() {
    for (const auto& c : connections_) tw_timer_close(c.get(), nullptr);
    tw_service_close(&service_, nullptr);
    loop_.reset();  // while the timers are still there
  }
  c_timer_subject(const c_timer_subject&) = delete;
  c_timer_subject& operator=(const c_timer_subject&) = delete;

  connection& operator[](std::size_t i) const noexcept { return connections_[i]; }

  void arm(connection& c, std::chrono::microseconds delay) noexcept {
    if (tw_timer_start_ns(&c, &run, static_cast<std::uint64_t>(std::chrono::nanoseconds{delay}.count()), 0) != 0)
      std::abort();
  }
  bool cancel(connection& c) noexcept {
    const bool was_armed = tw_timer_is_active(&c) != 0;
    tw_timer_stop(&c);
    return was_armed;
  }

  void advance_to(std::chrono::nanoseconds now) noexcept { loop_->advance_to(now); }
  void jump_to(std::chrono::nanoseconds now) noexcept { loop_->jump_to(now); }
  void run_out(std::chrono::nanoseconds end) noexcept { loop_->run_out(end); }
  std::size_t step_out() noexcept { return loop_->run_out(); }

  std::optional<std::chrono::nanoseconds> due(const connection& c) const noexcept {
    if (tw_timer_is_active(&c) == 0) return {};
    return simulated_loop::time_of(simulated_clock::now() + std::chrono::nanoseconds{tw_timer_get_due_in_ns(&c)});
  }

 private:
  static void require(int error) noexcept {
    if (error != 0) std::abort();
  }
  static void run(tw_timer_t* t) noexcept { expired.add(static_cast<connection*>(t)->id); }

  std::unique_ptr<simulated_loop> loop_ = std::make_unique<simulated_loop>();
  tw_service_t service_{};
  connections<connection> connections_;
};

}  // namespace tickwheel::bench
