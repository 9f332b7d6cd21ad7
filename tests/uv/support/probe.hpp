// For most tests: a timer that records that it fired, and a service whose invariants are checked at each step.
#pragma once

#include <tickwheel/testing.hpp>
#include <tickwheel/uv/timer.hpp>

#include "../../support/prelude.hpp"

#include <concepts>
#include <numeric>

/// Arms `t` and fails the test at the line of the call if that is refused.
template <class D, class S = tickwheel::clock::duration>
void expect_arm(tickwheel::timer& t, D after, S slack = {}, const char* file = __builtin_FILE(),
                int line = __builtin_LINE()) {
  if (const int answer = t.arm(after, slack)) ADD_FAILURE_AT(file, line) << "arm answered " << uv_err_name(answer);
}

/// Notes how often and when its timer fired, then does what the test wants done in the handler.
class probe {
 public:
  explicit probe(tickwheel::timer_service& timers, std::function<void()> what = {})
      : timeout{timers, *this}, then{std::move(what)}, timers_{timers} {}
  /// An armed one. The test fails if arming is refused.
  probe(tickwheel::timer_service& timers, std::chrono::nanoseconds after, std::function<void()> what = {},
        const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : probe{timers, std::move(what)} {
    expect_arm(timeout, after, {}, file, line);
  }

  /// Arms it and fails the test at the line of the call if that is refused.
  template <class D, class S = tickwheel::clock::duration>
  void arm(D after, S slack = {}, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    expect_arm(timeout, after, slack, file, line);
  }

  int fired = 0;
  tickwheel::clock::time_point at{};  // when it fired last, by the service's clock

 private:
  void on_timeout() noexcept {
    ++fired;
    at = timers_.read_clock();
    const auto call = then;  // a copy, since the call may destroy this probe
    if (call) call();
  }

 public:
  tickwheel::member_timer<&probe::on_timeout> timeout;
  std::function<void()> then;

 private:
  tickwheel::timer_service& timers_;
};

/// Several probes, all armed.
class probes : public std::deque<probe> {
 public:
  probes(tickwheel::timer_service& timers, int count, std::chrono::nanoseconds after,
         const std::function<void()>& then = {}, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    for (int i = 0; i < count; ++i) emplace_back(timers, after, then, file, line);
  }
  /// Arms the one of index `i` with `after(i)`.
  template <std::invocable<int> After>
  probes(tickwheel::timer_service& timers, int count, After after, const std::function<void()>& then = {},
         const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    for (int i = 0; i < count; ++i) emplace_back(timers, after(i), then, file, line);
  }

  /// Returns how often all of them fired.
  int fired() const {
    return std::accumulate(begin(), end(), 0, [](int sum, const probe& p) { return sum + p.fired; });
  }
  bool each_fired_once() const {
    return std::all_of(begin(), end(), [](const probe& p) { return p.fired == 1; });
  }
  void cancel() {
    for (probe& p : *this) p.timeout.cancel();
  }
};

/// As a `probe`, but allocates nothing itself.
struct counter {
  explicit counter(tickwheel::timer_service& timers) : timeout{timers, *this} {}
  void arm(std::chrono::nanoseconds after, std::chrono::nanoseconds slack = {}) { expect_arm(timeout, after, slack); }
  void on_timeout() noexcept { ++fired; }

  int fired = 0;
  tickwheel::member_timer<&counter::on_timeout> timeout;
};

/// Returns true if a timer of the service fires while `run` runs.
template <class Run>
bool fires(tickwheel::timer_service& timers, Run run) {
  probe p{timers, std::chrono::milliseconds{1}};
  run();
  return p.fired == 1;
}

inline testing::AssertionResult is_valid(const tickwheel::timer_service& timers) {
  std::string why;
  if (timers.validate(&why)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << why;
}

inline testing::AssertionResult adds_up(const tickwheel::timer_service& timers) {
  const auto& s = timers.stats();
  if (s.armed == s.fired + s.cancelled + s.pending) return testing::AssertionSuccess();
  return testing::AssertionFailure() << s.armed << " armed, but " << s.fired << " fired, " << s.cancelled
                                     << " cancelled and " << s.pending << " pending";
}

inline testing::AssertionResult adds_up(const tickwheel::expiry_report& r) {
  if (r.late != r.rounding + r.poll + r.carried + r.stall)
    return testing::AssertionFailure() << "the parts of the lateness are not the whole";
  if (r.due + r.late - r.rounding != r.ran)
    return testing::AssertionFailure() << "due and late do not make up when it ran";
  if (r.poll < std::chrono::nanoseconds{} || r.carried < std::chrono::nanoseconds{} ||
      r.stall < std::chrono::nanoseconds{} || r.by_for > r.stall)
    return testing::AssertionFailure() << "a part is impossible";
  return testing::AssertionSuccess();
}

/// The users' manual_service, which reports what is broken as a failure of the test.
class manual_service : public tickwheel::manual_service {
 public:
  explicit manual_service(const tickwheel::service_options& options = {})
      : tickwheel::manual_service{options, [](const char* why) noexcept { ADD_FAILURE() << why; }} {}

  std::chrono::nanoseconds tick() const { return timers.tick_duration(); }
};

/// An open service that a test destroys, and its driver.
struct mortal_service {
  mortal_service() { EXPECT_EQ(timers->open(time), 0); }

  tickwheel::manual_driver time;
  std::unique_ptr<tickwheel::timer_service> timers = std::make_unique<tickwheel::timer_service>();
};

/// A test on manual time: a service, whose invariants hold in the end, and a timer that notes that it fired.
class manual_test : public testing::Test {
 protected:
  /// Opens the service anew with options.
  void reopen(const tickwheel::service_options& options) {
    timers.close();
    ASSERT_EQ(timers.open(service.time, options), 0);
  }

  manual_service service;
  tickwheel::timer_service& timers = service.timers;
  probe p{timers};
};
