// libuv's own timers, in the connection.
#pragma once

#include "../../support/connection.hpp"
#include "simulated_loop.hpp"

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

namespace tickwheel::bench {

class libuv_subject {
 public:
  using connection = bench::connection<uv_timer_t>;
  static constexpr std::string_view name = "libuv";

  explicit libuv_subject(std::size_t n) : connections_{n} {
    for (const auto& c : connections_) uv_timer_init(&loop_->get(), c.get());
  }
  ~libuv_subject() {
    for (const auto& c : connections_) uv_close(reinterpret_cast<uv_handle_t*>(static_cast<uv_timer_t*>(c.get())), {});
    loop_.reset();  // while the handles are still there
  }
  libuv_subject(const libuv_subject&) = delete;
  libuv_subject& operator=(const libuv_subject&) = delete;

  connection& operator[](std::size_t i) const noexcept { return connections_[i]; }

  // it knows only milliseconds; uv_timer_start first stops an active timer
  void arm(connection& c, std::chrono::microseconds delay) noexcept {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(delay).count();
    uv_timer_start(&c, &run, static_cast<std::uint64_t>(ms), 0);
  }

  bool cancel(connection& c) noexcept {
    const bool was_armed = active(c);
    uv_timer_stop(&c);
    return was_armed;
  }

  void advance_to(std::chrono::nanoseconds now) noexcept { loop_->advance_to(now); }
  void jump_to(std::chrono::nanoseconds now) noexcept { loop_->jump_to(now); }
  void run_out(std::chrono::nanoseconds end) noexcept { loop_->run_out(end); }
  std::size_t step_out() noexcept { return loop_->run_out(); }

  std::optional<std::chrono::nanoseconds> due(const connection& c) const noexcept {
    if (!active(c)) return {};
    const auto ms = static_cast<std::int64_t>(uv_now(&loop_->get()) + uv_timer_get_due_in(&c));
    return simulated_loop::time_of(std::chrono::milliseconds{ms});
  }

 private:
  static bool active(const uv_timer_t& t) noexcept { return uv_is_active(reinterpret_cast<const uv_handle_t*>(&t)); }
  static void run(uv_timer_t* t) noexcept { expired.add(static_cast<connection*>(t)->id); }

  std::unique_ptr<simulated_loop> loop_ = std::make_unique<simulated_loop>();
  connections<connection> connections_;
};

}  // namespace tickwheel::bench
