// A manual_service is a timer_service on a manual clock, for tests of your timeouts that do not sleep. It checks the
// service after each step.
//
//   tickwheel::manual_service manual;
//   my_session session{manual.timers};   // arms a 60 s idle timeout
//   manual.advance(59s);  EXPECT_TRUE(session.alive());
//   manual.advance(2s);   EXPECT_FALSE(session.alive());
//
// tickwheel.hpp does not include this header. It depends on no test framework.
#pragma once

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/uv/manual_driver.hpp>
#include <tickwheel/uv/service_options.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <chrono>
#include <string>

namespace tickwheel {

/// A manual clock, an open service on it, and a check of the service's invariants after each step.
///
/// *Thread safety:* one thread, except for what a `remote_handle` does.
///
/// *Complexity:* each check is O(slots + linked timers), so keep the number of steps below some hundred thousand.
///
/// *Errors:* a failed check calls the `reporter`, which stops the process by default. If `open` fails, the reporter gets the
/// reason, and the service stays closed.
///
/// *Lifetime:* outlives the objects under test, like any service. The destructor checks once more, then closes.
class manual_service {
 public:
  /// Takes a description of a failed check. With GoogleTest: `[](const char* why) noexcept { ADD_FAILURE() << why; }`.
  using reporter = void (*)(const char* why) noexcept;

  /// Opens the service with `options`, at one hour after the clock's epoch: a test that mistakes a time for a delay fails.
  explicit manual_service(const service_options& options = {}, reporter on_failure = &detail::fail) noexcept
      : on_failure_{on_failure} {
    const int error = timers.open(time, options);
    if (error == 0) return;
    const char* const why = options.problem();
    on_failure_(why != nullptr ? why : uv_strerror(error));
  }
  ~manual_service() { check(); }
  manual_service(const manual_service&) = delete;
  manual_service& operator=(const manual_service&) = delete;

  /// Moves the clock by `by`, runs all timers that expire on the way, each at its time, and checks the service.
  /// `manual_driver::advance` has the details.
  void advance(std::chrono::nanoseconds by) {
    time.advance(by);
    check();
  }

  /// Runs one iteration of the loop without moving the clock, and checks the service. Returns true if a pass ran.
  bool turn() {
    const bool ran = time.turn();
    check();
    return ran;
  }

  /// Checks all invariants of the service, and that each armed timer has fired, was cancelled or is pending. Call it in a
  /// handler to check in the middle of a step.
  void check() const {
    std::string why;
    if (!timers.validate(&why)) on_failure_(why.c_str());
    const service_stats& s = timers.stats();
    if (s.armed != s.fired + s.cancelled + s.pending)
      on_failure_("service_stats: armed is not the sum of fired, cancelled and pending");
  }

  /// The clock.
  manual_driver time{clock::time_point{std::chrono::hours{1}}};
  /// The service. Hand it to the code under test.
  timer_service timers;

 private:
  reporter on_failure_;
};

}  // namespace tickwheel
