// Deadlines that come, on a clock turned by hand.
#include <tickwheel/net/deadline_timer.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

using namespace std::chrono_literals;

namespace {

using tickwheel::deadline;

/// A query that notes when it was too late.
class query {
 public:
  explicit query(tickwheel::timer_service& timers, std::function<void()> what = {})
      : timeout{timers, *this}, then{std::move(what)}, timers_{timers} {}

  int too_late = 0;
  tickwheel::clock::time_point at{};

 private:
  void on_too_late() noexcept {
    ++too_late;
    at = timers_.read_clock();
    const auto call = then;  // a copy, since the call may destroy this query
    if (call) call();
  }

 public:
  tickwheel::deadline_timer<&query::on_too_late> timeout;
  std::function<void()> then;

 private:
  tickwheel::timer_service& timers_;
};

TEST(deadline_timer, comes_when_the_deadline_passes_and_not_before) {
  manual_service service;
  query q{service.timers};
  const auto until = deadline::after(2s, service.timers.now());
  ASSERT_EQ(q.timeout.start(until), 0);
  EXPECT_TRUE(q.timeout.armed());
  service.advance(2s - 1ns);
  EXPECT_EQ(q.too_late, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(q.too_late, 1);
  EXPECT_TRUE(until.passed(q.at));
  EXPECT_FALSE(q.timeout.armed());
}

TEST(deadline_timer, refuses_a_deadline_that_has_passed_and_arms_nothing) {
  manual_service service;
  query q{service.timers};
  EXPECT_EQ(q.timeout.start(deadline::after(0s, service.timers.now())), UV_ETIMEDOUT);
  EXPECT_EQ(q.timeout.start(deadline::after(-1s, service.timers.now())), UV_ETIMEDOUT);
  EXPECT_FALSE(q.timeout.armed());
  EXPECT_EQ(service.timers.stats().armed, 0U);
  service.advance(1h);
  EXPECT_EQ(q.too_late, 0);
}

TEST(deadline_timer, refuses_a_deadline_that_passed_in_this_very_iteration) {
  manual_service service;
  query q{service.timers};
  const auto until = deadline::after(10ms, service.timers.now());
  service.time.block(10ms);
  EXPECT_EQ(q.timeout.start(until), UV_ETIMEDOUT);
  EXPECT_FALSE(q.timeout.armed());
}

TEST(deadline_timer, judges_by_the_time_it_is_told) {
  manual_service service;
  query q{service.timers};
  const auto now = service.timers.now();
  const auto until = deadline::after(10ms, now);
  EXPECT_EQ(q.timeout.start(until, now + 10ms), UV_ETIMEDOUT);
  EXPECT_EQ(q.timeout.start(until, now + 10ms - 1ns), 0);
}

TEST(deadline_timer, keeps_the_deadline_it_had_when_the_new_one_is_refused) {
  manual_service service;
  query q{service.timers};
  ASSERT_EQ(q.timeout.start(deadline::after(1s, service.timers.now())), 0);
  EXPECT_EQ(q.timeout.start(deadline::after(0s, service.timers.now())), UV_ETIMEDOUT);
  EXPECT_TRUE(q.timeout.armed());
  service.advance(1s + service.tick());
  EXPECT_EQ(q.too_late, 1);
}

TEST(deadline_timer, moves_when_it_is_started_again) {
  manual_service service;
  query q{service.timers};
  ASSERT_EQ(q.timeout.start(deadline::after(1h, service.timers.now())), 0);
  ASSERT_EQ(q.timeout.start(deadline::after(1s, service.timers.now())), 0);
  service.advance(1s + service.tick());
  EXPECT_EQ(q.too_late, 1);
  ASSERT_EQ(q.timeout.start(deadline::after(1s, service.timers.now())), 0);
  ASSERT_EQ(q.timeout.start(deadline::after(2s, service.timers.now())), 0);
  service.advance(2s - 1ns);
  EXPECT_EQ(q.too_late, 1);
}

TEST(deadline_timer, whose_deadline_is_never_is_armed_and_does_not_come) {
  manual_service service;
  query q{service.timers};
  ASSERT_EQ(q.timeout.start(deadline::never()), 0);
  EXPECT_TRUE(q.timeout.armed());
  EXPECT_TRUE(service.time.alive());
  service.advance(24h * 365 * 100);
  EXPECT_EQ(q.too_late, 0);
  EXPECT_TRUE(q.timeout.cancel());
}

TEST(deadline_timer, cancelled_does_not_come) {
  manual_service service;
  query q{service.timers};
  EXPECT_FALSE(q.timeout.cancel());
  ASSERT_EQ(q.timeout.start(deadline::after(1s, service.timers.now())), 0);
  EXPECT_TRUE(q.timeout.cancel());
  EXPECT_FALSE(q.timeout.cancel());
  service.advance(1h);
  EXPECT_EQ(q.too_late, 0);
}

TEST(deadline_timer, cancelled_by_another_of_the_same_pass_does_not_come) {
  manual_service service;
  query a{service.timers};
  query b{service.timers};
  a.then = [&] { b.timeout.cancel(); };
  b.then = [&] { a.timeout.cancel(); };
  const auto until = deadline::after(1s, service.timers.now());
  ASSERT_EQ(a.timeout.start(until), 0);
  ASSERT_EQ(b.timeout.start(until), 0);
  service.advance(1h);
  EXPECT_EQ(a.too_late + b.too_late, 1);
}

TEST(deadline_timer, may_be_destroyed_with_its_owner_in_its_handler) {
  manual_service service;
  auto q = std::make_unique<query>(service.timers);
  q->then = [&] { q.reset(); };
  ASSERT_EQ(q->timeout.start(deadline::after(1s, service.timers.now())), 0);
  service.advance(1h);
  EXPECT_EQ(q, nullptr);
}

TEST(deadline_timer, may_be_started_again_in_its_handler) {
  manual_service service;
  query q{service.timers};
  q.then = [&] { EXPECT_EQ(q.timeout.start(deadline::after(1s, service.timers.now())), 0); };
  ASSERT_EQ(q.timeout.start(deadline::after(1s, service.timers.now())), 0);
  service.advance(10s + 10 * service.tick());
  EXPECT_EQ(q.too_late, 10);
}

TEST(deadline_timer, cannot_be_started_in_its_handler_with_the_deadline_that_just_passed) {
  manual_service service;
  query q{service.timers};
  const auto until = deadline::after(1s, service.timers.now());
  int answer = 0;
  q.then = [&] { answer = q.timeout.start(until); };
  ASSERT_EQ(q.timeout.start(until), 0);
  service.advance(1h);
  EXPECT_EQ(answer, UV_ETIMEDOUT);
  EXPECT_EQ(q.too_late, 1);
}

TEST(deadline_timer, is_refused_at_the_limit_of_armed_timers) {
  manual_service service{{.max_armed = 1}};
  query a{service.timers};
  query b{service.timers};
  const auto until = deadline::after(1s, service.timers.now());
  ASSERT_EQ(a.timeout.start(until), 0);
  EXPECT_EQ(b.timeout.start(until), UV_ENOBUFS);
  EXPECT_FALSE(b.timeout.armed());
}

TEST(deadline_timer, is_refused_once_the_service_is_closed_whatever_the_deadline) {
  manual_service service;
  query q{service.timers};
  const auto now = service.timers.now();
  service.timers.close();
  for (const auto until : {deadline::after(1s, now), deadline::after(-1s, now), deadline::never()}) {
    EXPECT_EQ(q.timeout.start(until), UV_ECANCELED);
    EXPECT_EQ(q.timeout.start(until, now), UV_ECANCELED);
  }
}

TEST(deadline_timer, does_not_hold_the_loop_when_it_is_told_so) {
  manual_service service;
  query q{service.timers};
  q.timeout.unref();
  ASSERT_EQ(q.timeout.start(deadline::after(1s, service.timers.now())), 0);
  EXPECT_FALSE(service.time.alive());
}

TEST(deadline_timer, says_when_it_is_due) {
  manual_service service;
  query q{service.timers};
  const auto until = deadline::after(1s, service.timers.now());
  ASSERT_EQ(q.timeout.start(until), 0);
  EXPECT_GE(q.timeout.deadline(), until.when);
  EXPECT_LT(q.timeout.deadline(), until.when + service.tick());
}

TEST(deadline_timer, allocates_nothing) {
  manual_service service;
  query q{service.timers};
  const auto before = allocations::count();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(q.timeout.start(deadline::after(50ms, service.timers.now())), 0);
    service.time.advance(i % 2 == 0 ? 20ms : 60ms);
    q.timeout.cancel();
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_EQ(q.too_late, 500);
}

struct throwing {
  void may_throw() {}
  void on_too_late() noexcept {}
};
template <auto Member>
concept makes_a_deadline_timer = requires {
  sizeof(tickwheel::deadline_timer<Member>);
};
static_assert(makes_a_deadline_timer<&throwing::on_too_late>);
static_assert(!makes_a_deadline_timer<&throwing::may_throw>);
static_assert(sizeof(void*) != 8 || sizeof(tickwheel::deadline_timer<&throwing::on_too_late>) <= 56);

}  // namespace
