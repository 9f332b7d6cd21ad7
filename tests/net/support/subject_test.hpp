// A test of one timer on manual time.
#pragma once

#include "../../uv/support/probe.hpp"
#include "owner.hpp"

/// A service, and on it a `Subject`, which counts the calls of its handler in `fired`.
template <class Subject>
class subject_test : public testing::Test {
 protected:
  /// Begins anew with these options. Requires: nothing was started.
  void reopen(const tickwheel::service_options& options) {
    service.timers.close();
    ASSERT_EQ(service.timers.open(service.time, options), 0);
  }

  void advance(std::chrono::nanoseconds by) { service.advance(by); }
  std::chrono::nanoseconds tick() const { return service.tick(); }

  /// Advances time, and returns how often the handler has run.
  int fired_after(std::chrono::nanoseconds time) {
    advance(time);
    return c.fired;
  }
  /// Pauses the timer for that time.
  void pause_for(std::chrono::nanoseconds time) {
    c.timer.pause();
    advance(time);
    c.timer.resume();
  }

  /// Runs an iteration with input each millisecond, until `time` has passed or the handler has run. A verdict after a block waits for
  /// the input.
  void turn_with_input(std::chrono::nanoseconds time) {
    const int before = c.fired;
    for (; time.count() > 0 && c.fired == before; time -= std::chrono::milliseconds{1}) {
      service.time.turn();
      static_cast<void>(service.timers.now());  // as a read does that touches an idle timeout
      service.time.oversleep(std::chrono::milliseconds{1});
    }
  }

  /// Advances time. True if the handler ran for the first time `after` from now, at most `ticks` later, and not before.
  testing::AssertionResult fires_in(std::chrono::nanoseconds after, int ticks = 1) {
    return fires_in(c.fired, after, ticks);
  }
  testing::AssertionResult fires_in(const int& fired, std::chrono::nanoseconds after, int ticks = 1) {
    service.advance(after - std::chrono::nanoseconds{1});
    if (fired != 0) return testing::AssertionFailure() << "the handler ran early, " << fired << " times";
    service.advance(std::chrono::nanoseconds{1} + ticks * tick());
    if (fired != 1) return testing::AssertionFailure() << "the handler ran " << fired << " times";
    return testing::AssertionSuccess();
  }

  manual_service service;
  Subject c{service.timers};
};
