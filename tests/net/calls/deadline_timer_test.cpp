// Deadlines that come, on a clock turned by hand.
#include <tickwheel/net/deadline_timer.hpp>

#include "../support/subject_test.hpp"

namespace {

using tickwheel::deadline;

class deadline_timer : public subject_test<owner_of<tickwheel::deadline_timer<&owner::on_time>>> {};

TEST_F(deadline_timer, passed_deadline_is_refused) {
  EXPECT_EQ(c.timer.start(deadline::after(0s, service.timers)), UV_ETIMEDOUT);
  EXPECT_EQ(c.timer.start(deadline::after(-1s, service.timers)), UV_ETIMEDOUT);
  EXPECT_FALSE(c.timer.armed());
  EXPECT_EQ(service.timers.stats().armed, 0U);
  EXPECT_EQ(fired_after(1h), 0);
}

TEST_F(deadline_timer, deadline_passed_in_this_iteration_is_refused) {
  const auto until = deadline::after(10ms, service.timers);
  service.time.block(10ms);
  EXPECT_EQ(c.timer.start(until), UV_ETIMEDOUT);
  EXPECT_FALSE(c.timer.armed());
}

TEST_F(deadline_timer, judges_by_time_it_is_told) {
  const auto now = service.timers.now();
  const auto until = deadline::after(10ms, now);
  EXPECT_EQ(c.timer.start(until, now + 10ms), UV_ETIMEDOUT);
  EXPECT_EQ(c.timer.start(until, now + 10ms - 1ns), 0);
}

TEST_F(deadline_timer, refused_start_keeps_earlier_deadline) {
  ASSERT_EQ(c.timer.start(deadline::after(1s, service.timers)), 0);
  EXPECT_EQ(c.timer.start(deadline::after(0s, service.timers)), UV_ETIMEDOUT);
  EXPECT_TRUE(c.timer.armed());
  EXPECT_EQ(fired_after(1s + tick()), 1);
}

TEST_F(deadline_timer, never_is_armed_and_does_not_fire) {
  ASSERT_EQ(c.timer.start(deadline::never()), 0);
  EXPECT_TRUE(c.timer.armed());
  EXPECT_TRUE(service.time.alive());
  EXPECT_EQ(fired_after(24h * 365 * 100), 0);
  EXPECT_TRUE(c.timer.cancel());
}

TEST_F(deadline_timer, handler_cannot_start_it_with_passed_deadline) {
  const auto until = deadline::after(1s, service.timers);
  int answer = 0;
  c.then = [&] { answer = c.timer.start(until); };
  ASSERT_EQ(c.timer.start(until), 0);
  advance(1h);
  EXPECT_EQ(answer, UV_ETIMEDOUT);
  EXPECT_EQ(c.fired, 1);
}

TEST_F(deadline_timer, closed_service_refuses_any_deadline) {
  const auto now = service.timers.now();
  service.timers.close();
  for (const auto until : {deadline::after(1s, now), deadline::after(-1s, now), deadline::never()}) {
    EXPECT_EQ(c.timer.start(until), UV_ECANCELED);
    EXPECT_EQ(c.timer.start(until, now), UV_ECANCELED);
  }
}

TEST_F(deadline_timer, tells_when_it_is_due) {
  const auto until = deadline::after(1s, service.timers);
  ASSERT_EQ(c.timer.start(until), 0);
  EXPECT_GE(c.timer.deadline(), until.when);
  EXPECT_LT(c.timer.deadline(), until.when + tick());
}

}  // namespace
