// A driver that does nothing by itself. A test sets its clock, its epoch and when it polled, and sees what it is asked for.
#pragma once

#include <tickwheel/uv/driver.hpp>

#include "../../support/prelude.hpp"

struct still_driver final : tickwheel::driver {
  using time_point = tickwheel::clock::time_point;

  time_point time{std::chrono::hours{1}};
  time_point last_poll = time;
  std::uint64_t polls = 0;
  bool early = false;
  int reads = 0;

  std::optional<time_point> wakeup;  // the one that is asked for
  int wakeups_asked = 0;
  int passes_asked = 0;
  int passes_requested = 0;
  bool held = false;

  /// The loop comes back from a poll that took so long.
  void poll(std::chrono::nanoseconds taking) noexcept {
    time += taking;
    last_poll = time;
    ++polls;
  }

  time_point now() noexcept override {
    ++reads;
    return time;
  }
  const std::uint64_t* epoch() const noexcept override { return &polls; }
  time_point poll_ended_at() const noexcept override { return last_poll; }
  bool turns_early() const noexcept override { return early; }
  void wake_at(time_point when) noexcept override {
    ++wakeups_asked;
    wakeup = when;
  }
  void continue_pass() noexcept override { ++passes_asked; }
  void request_pass() noexcept override { ++passes_requested; }
  void cancel_wakeup() noexcept override { wakeup.reset(); }
  void hold_loop(bool alive) noexcept override { held = alive; }
  bool owns(const uv_handle_s*) const noexcept override { return false; }
};

/// A client that does nothing, for tests that only need a driver with a binding.
struct idle_client final : tickwheel::driver::client {
  using time_point = tickwheel::clock::time_point;

  void on_resumed(time_point, time_point) noexcept override {}
  bool on_iteration(time_point) noexcept override { return false; }
  bool on_wakeup(time_point) noexcept override { return false; }
  bool due(time_point) const noexcept override { return false; }
  void pass(time_point) noexcept override {}
  void on_pass_requested() noexcept override {}
  bool one_poll_is_enough(time_point) const noexcept override { return true; }
};
