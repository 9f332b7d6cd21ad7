// The owner of a timer, for the tests that turn the clock by hand.
#pragma once

#include <tickwheel/net/phase_timeouts.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include "../../support/prelude.hpp"

/// Notes how often and when its handler ran, then does what the test wants.
struct owner {
  explicit owner(tickwheel::timer_service& service) : timers{service} {}

  void on_time() noexcept {
    ++fired;
    at = timers.read_clock();
    const auto call = then;  // a copy, because the call may destroy this
    if (call) call();
  }
  void on_phase(tickwheel::request_phase phase) noexcept {
    which = phase;
    on_time();
  }

  tickwheel::timer_service& timers;
  int fired = 0;
  tickwheel::clock::time_point at{};
  tickwheel::request_phase which = tickwheel::request_phase::none;
  std::function<void()> then;
};

/// An owner with a `Timer`.
template <class Timer>
struct owner_of : owner {
  explicit owner_of(tickwheel::timer_service& service, std::function<void()> what = {})
      : owner{service}, timer{service, *this} {
    then = std::move(what);
  }
  Timer timer;
};
