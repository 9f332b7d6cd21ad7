// A driver that does nothing by itself: a test sets its clock, its epoch and when it polled.
#pragma once

#include <tickwheel/uv/driver.hpp>

#include <chrono>
#include <cstdint>

struct still_driver final : tickwheel::driver {
  using time_point = tickwheel::clock::time_point;

  time_point time{std::chrono::hours{1}};
  time_point last_poll = time;
  std::uint64_t polls = 0;
  bool early = false;
  int reads = 0;

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
  time_point polled() const noexcept override { return last_poll; }
  bool turns_early() const noexcept override { return early; }
  void wake_at(time_point) noexcept override {}
  void pass_again() noexcept override {}
  void ring() noexcept override {}
  void rest() noexcept override {}
  void hold(bool) noexcept override {}
  bool owns(const uv_handle_s*) const noexcept override { return false; }
};
