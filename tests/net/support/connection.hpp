// A connection with an idle timeout, for the tests that turn the clock by hand.
#pragma once

#include <tickwheel/net/idle_timeout.hpp>

#include <chrono>
#include <functional>
#include <utility>

/// A connection that notes when it was found idle.
class connection {
 public:
  explicit connection(tickwheel::timer_service& timers, std::function<void()> what = {})
      : idle{timers, *this}, then{std::move(what)}, timers_{timers} {}

  int evicted = 0;
  tickwheel::clock::time_point at{};

 private:
  void on_idle() noexcept {
    ++evicted;
    at = timers_.read_clock();
    const auto call = then;
    if (call) call();
  }

 public:
  tickwheel::idle_timeout<&connection::on_idle> idle;
  std::function<void()> then;

 private:
  tickwheel::timer_service& timers_;
};
