// Small wheels, with every position and every delay.
#include "../../support/long_runs.hpp"
#include "../support/wheel_cases.hpp"

namespace tickwheel::test {
namespace {

class small_wheel : public wheel_fixture {
 protected:
  // One timer that is armed at `now` for `deadline`, and does not fire before.
  struct single {
    single(const wheel_geometry& geometry, tick now, tick deadline) : timers{geometry, now} {
      timers.arm(timer, deadline);
    }
    void expect_to_fire_at(tick deadline) {
      while (timers.now() < deadline - 1) ASSERT_EQ(timers.advance(timers.now() + 1).ran, 0U);
      ASSERT_EQ(timers.advance(deadline).ran, 1U);
      ASSERT_EQ(timer.fired(), 1U);
      ASSERT_TRUE(timers.validate());
    }
    wheel timers;
    counter timer{timers};
  };

  // the wheel is the same after a turn of its highest level; two turns of delay see each slot in two rounds
  const tick period = turn_of(geometry, geometry.levels - 1);
  const tick longest = 2 * period + 1;
};

TEST_P(small_wheel, fires_each_delay_from_each_position_on_time) {
  for (tick now = 0; now < period; ++now)
    for (tick delay = 1; delay <= longest; ++delay) {
      SCOPED_TRACE(testing::Message() << now << " + " << delay);
      single{geometry, now, now + delay}.expect_to_fire_at(now + delay);
    }
}

// on one wheel whose time goes on, with a timer of each delay armed at each tick
TEST_P(small_wheel, fires_each_delay_on_time_among_all_others) {
  const tick arming = 2 * period;
  const tick end = arming + longest;
  counters all{timers, static_cast<std::size_t>(arming * longest)};
  std::uint64_t ran = 0;
  for (tick now = 0; now <= end; ++now) {
    ran += timers.advance(now).ran;
    // the timer of delay d armed at tick a has fired when a + d <= now
    std::uint64_t expected = 0;
    for (tick a = 0; a < arming && a < now; ++a) expected += std::min(longest, now - a);
    ASSERT_EQ(ran, expected) << now;
    if (now < arming)
      for (tick delay = 1; delay <= longest; ++delay)
        timers.arm(all[static_cast<std::size_t>(now * longest + delay - 1)], now + delay);
    ASSERT_TRUE(valid(timers));
  }
  EXPECT_EQ(ran, arming * longest);
  EXPECT_EQ(timers.lateness().max(), 0U);
}

TEST_P(small_wheel, fires_the_delays_that_a_jump_covers) {
  for (tick now = 0; now < period; ++now)
    for (tick jump = 1; jump <= longest; ++jump) {
      wheel fresh{geometry, now};
      counters all{fresh, static_cast<std::size_t>(longest)};
      all.arm(now + 1, longest);
      ASSERT_EQ(fresh.advance(now + jump).ran, jump) << now << " + " << jump;
      for (std::size_t delay = 1; delay <= longest; ++delay) ASSERT_EQ(all[delay - 1].fired(), delay <= jump ? 1U : 0U);
      ASSERT_TRUE(fresh.validate());
    }
}

TEST_P(small_wheel, fires_each_moved_timer_on_time) {
  // each position takes the cube of the period
  const tick step = period <= 16 ? 1 : is_long_run() ? 3 : under_address_sanitizer ? 29 : 13;
  for (tick now = 0; now < period; now += step)
    for (tick first = 1; first <= period; ++first)
      for (tick after = 0; after < first; ++after)
        for (tick second = 1; second <= period; ++second) {
          single moved{geometry, now, now + first};
          ASSERT_EQ(moved.timers.advance(now + after).ran, 0U);
          moved.timers.arm(moved.timer, now + after + second);
          ASSERT_EQ(moved.timers.advance(now + after + second - 1).ran, 0U) << now << ' ' << first << ' ' << after;
          ASSERT_EQ(moved.timers.advance(now + after + second).ran, 1U) << now << ' ' << first << ' ' << after;
          ASSERT_EQ(moved.timer.fired(), 1U);
        }
}

TEST_P(small_wheel, fires_each_delay_that_ends_at_the_last_tick) {
  for (tick delay = 1; delay <= longest; ++delay) {
    SCOPED_TRACE(delay);
    single{geometry, last_tick - delay, last_tick}.expect_to_fire_at(last_tick);
  }
}

INSTANTIATE_TEST_SUITE_P(all, small_wheel,
                         testing::ValuesIn(cases_from(0, {{1, 1}, {1, 2}, {1, 8}, {2, 4}, {3, 4}, {4, 4}, {2, 8}})),
                         case_name);

}  // namespace
}  // namespace tickwheel::test
