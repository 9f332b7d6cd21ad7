// The ends of time: what is too far saturates, nothing wraps.
#include "../support/probe.hpp"
#include "../support/wheel_cases.hpp"

#include <gmock/gmock.h>

namespace tickwheel::test {
namespace {

using testing::ElementsAre;

class wheel_limits_test : public testing::TestWithParam<wheel_geometry> {
 protected:
  const wheel_geometry geometry = GetParam();
};

TEST_P(wheel_limits_test, a_deadline_beyond_the_last_tick_is_due_at_the_last_tick) {
  wheel timers{geometry};
  probe timer{timers};
  timers.arm(timer, never);
  EXPECT_TRUE(timer.armed());
  EXPECT_EQ(timer.deadline(), last_tick);
  EXPECT_TRUE(valid(timers));
  timers.advance(last_tick - 1);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timer.fired(), 0U);
  timers.advance(last_tick);
  EXPECT_TRUE(valid(timers));
  EXPECT_THAT(timer.fired_at(), ElementsAre(last_tick));
}

TEST_P(wheel_limits_test, time_stops_at_the_last_tick) {
  wheel timers{geometry};
  timers.advance(never);
  EXPECT_EQ(timers.now(), last_tick);
  timers.advance(never);
  EXPECT_EQ(timers.now(), last_tick);
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel_limits_test, an_origin_beyond_the_last_tick_is_the_last_tick) {
  EXPECT_EQ((wheel{geometry, never}.now()), last_tick);
}

TEST_P(wheel_limits_test, a_timer_armed_at_the_last_tick_is_due_at_it) {
  wheel timers{geometry, last_tick};
  probe timer{timers};
  timers.arm(timer, 0);
  EXPECT_EQ(timer.deadline(), last_tick);
  EXPECT_LE(timers.next_expiry(), last_tick);
  EXPECT_EQ(timers.advance(last_tick).ran, 1U);
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel_limits_test, advance_to_an_earlier_tick_runs_what_is_due_at_the_last) {
  for (const tick origin : {last_tick, last_tick - 5}) {
    wheel timers{geometry, origin};
    timers.advance(last_tick);
    probe timer{timers};
    timers.arm(timer, last_tick);
    const advance_result result = timers.advance(last_tick - 1);
    EXPECT_EQ(result.ran, 1U);
    EXPECT_TRUE(result.done);
    EXPECT_EQ(timers.now(), last_tick);
    EXPECT_TRUE(valid(timers));
  }
}

TEST_P(wheel_limits_test, a_timer_that_arms_itself_at_the_last_tick_runs_once_a_pass) {
  wheel timers{geometry, last_tick - 1};
  probe timer{timers, [&](probe& self) { timers.arm(self, timers.now() + 1); }};
  timers.arm(timer, last_tick);
  for (std::size_t pass = 1; pass <= 3; ++pass) {
    EXPECT_EQ(timers.advance(last_tick).ran, 1U);
    EXPECT_EQ(timer.fired(), pass);
    EXPECT_TRUE(timer.armed());
    EXPECT_TRUE(valid(timers));
  }
}

TEST_P(wheel_limits_test, cancel_and_move_work_at_the_last_tick) {
  wheel timers{geometry, last_tick};
  probe cancelled{timers};
  probe moved{timers};
  timers.arm(cancelled, never);
  timers.arm(moved, never);
  EXPECT_TRUE(timers.cancel(cancelled));
  timers.arm(moved, 5);
  EXPECT_EQ(timers.advance(last_tick).ran, 1U);
  EXPECT_EQ(moved.fired(), 1U);
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_EQ(timers.next_expiry(), never);
}

TEST_P(wheel_limits_test, dead_links_of_earlier_rounds_do_not_hold_up_the_last_tick) {
  for (tick away = 1; away <= 4 * geometry.slots; away += 1 + away / 8) {
    SCOPED_TRACE(away);
    wheel timers{geometry, last_tick - away - 1};
    probes dead{timers, 3};
    for (probe& p : dead) timers.arm(p, last_tick - away);
    for (probe& p : dead) timers.cancel(p);
    timers.advance(last_tick, 0);  // no work is allowed, so that they stay linked
    probe timer{timers};
    timers.arm(timer, last_tick);
    timers.advance(last_tick);
    EXPECT_EQ(timer.fired(), 1U);
    EXPECT_TRUE(valid(timers));
  }
}

TEST_P(wheel_limits_test, the_whole_of_time_is_crossed_in_one_call) {
  wheel timers{geometry};
  probes all{timers, 64};
  for (unsigned bit = 0; bit < 64; ++bit) timers.arm(all[bit], tick{1} << bit);
  EXPECT_EQ(timers.advance(last_tick).ran, 64U);
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel_limits_test, the_whole_of_time_is_crossed_from_one_expiry_to_the_next) {
  wheel timers{geometry};
  probes all{timers, 64};
  for (unsigned bit = 0; bit < 64; ++bit) timers.arm(all[bit], tick{1} << bit);
  const std::size_t wakeups = run_until(timers, last_tick);
  for (unsigned bit = 0; bit < 64; ++bit) EXPECT_THAT(all[bit].fired_at(), ElementsAre(tick{1} << bit));
  EXPECT_LE(wakeups, 64U * geometry.levels);
}

TEST_P(wheel_limits_test, a_timer_at_every_one_of_the_last_ticks_fires_on_it) {
  constexpr std::size_t count = 300;
  wheel timers{geometry, last_tick - count};
  probes all{timers, count};
  for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], last_tick - count + 1 + i);
  run_until(timers, last_tick);
  for (std::size_t i = 0; i < count; ++i) EXPECT_THAT(all[i].fired_at(), ElementsAre(last_tick - count + 1 + i));
  EXPECT_EQ(timers.armed(), 0U);
}

INSTANTIATE_TEST_SUITE_P(all, wheel_limits_test, testing::ValuesIn(all_geometries()), geometry_name);

}  // namespace
}  // namespace tickwheel::test
