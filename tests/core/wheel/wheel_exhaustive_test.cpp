// Small wheels, and every position and every delay of them.
#include "../support/wheel_cases.hpp"

#include <tickwheel/core/wheel.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace tickwheel::test {
namespace {

struct mark : wheel_entry {
  mark() : wheel_entry{[](wheel_entry& e) noexcept { ++static_cast<mark&>(e).fired; }} {}
  unsigned fired = 0;
};

// in each test the entries come before their wheel, which is then destroyed first and detaches them
class wheel_exhaustive_test : public testing::TestWithParam<wheel_geometry> {
 protected:
  const wheel_geometry geometry = GetParam();
  // the wheel looks the same after a turn of its highest level; two turns of delay see each slot in two rounds
  const tick period = turn_of(geometry, geometry.levels - 1);
  const tick longest = 2 * period + 1;
};

TEST_P(wheel_exhaustive_test, every_delay_from_every_position_is_on_the_tick) {
  std::uint64_t ran = 0;
  for (tick now = 0; now < period; ++now) {
    for (tick delay = 1; delay <= longest; ++delay) {
      mark timer;
      wheel timers{geometry, now};
      timers.arm(timer, now + delay);
      for (tick t = now + 1; t < now + delay; ++t) ASSERT_EQ(timers.advance(t).ran, 0U) << now << " + " << delay;
      ASSERT_EQ(timers.advance(now + delay).ran, 1U) << now << " + " << delay;
      ASSERT_TRUE(timers.validate());
      ran += timer.fired;
    }
  }
  EXPECT_EQ(ran, period * longest);
}

// as above, on one wheel whose time goes on, with a timer of each delay armed at each tick
TEST_P(wheel_exhaustive_test, every_delay_from_every_position_is_on_the_tick_among_all_others) {
  const tick arming = 2 * period;
  const tick end = arming + longest;
  const auto all = std::make_unique<mark[]>(static_cast<std::size_t>(arming * longest));
  wheel timers{geometry};
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
    std::string why;
    ASSERT_TRUE(timers.validate(&why)) << why;
  }
  EXPECT_EQ(ran, arming * longest);
  EXPECT_EQ(timers.lateness().max(), 0U);
}

TEST_P(wheel_exhaustive_test, every_jump_from_every_position_fires_the_delays_it_covers) {
  std::uint64_t ran = 0;
  for (tick now = 0; now < period; ++now) {
    for (tick jump = 1; jump <= longest; ++jump) {
      const auto all = std::make_unique<mark[]>(static_cast<std::size_t>(longest));
      wheel timers{geometry, now};
      for (tick delay = 1; delay <= longest; ++delay) timers.arm(all[static_cast<std::size_t>(delay - 1)], now + delay);
      ASSERT_EQ(timers.advance(now + jump).ran, jump) << now << " + " << jump;
      ran += jump;
      for (std::size_t delay = 1; delay <= longest; ++delay) ASSERT_EQ(all[delay - 1].fired, delay <= jump ? 1U : 0U);
      ASSERT_TRUE(timers.validate());
    }
  }
  EXPECT_EQ(ran, period * longest * (longest + 1) / 2);
}

TEST_P(wheel_exhaustive_test, every_move_ends_on_the_tick) {
  const tick step = period > 16 ? 3 : 1;  // each position takes the cube of the period
  std::uint64_t ran = 0;
  // armed at `now` with a first delay, moved after some of it to a second one
  for (tick now = 0; now < period; now += step)
    for (tick first = 1; first <= period; ++first)
      for (tick after = 0; after < first; ++after)
        for (tick second = 1; second <= period; ++second) {
          mark timer;
          wheel timers{geometry, now};
          timers.arm(timer, now + first);
          ASSERT_EQ(timers.advance(now + after).ran, 0U);
          timers.arm(timer, now + after + second);
          ASSERT_EQ(timers.advance(now + after + second - 1).ran, 0U) << now << ' ' << first << ' ' << after;
          ASSERT_EQ(timers.advance(now + after + second).ran, 1U) << now << ' ' << first << ' ' << after;
          ran += timer.fired;
        }
  EXPECT_EQ(ran, (period + step - 1) / step * (period * (period + 1) / 2) * period);
}

TEST_P(wheel_exhaustive_test, every_delay_that_ends_at_the_last_tick_is_on_it) {
  for (tick delay = 1; delay <= longest; ++delay) {
    mark timer;
    wheel timers{geometry, last_tick - delay};
    timers.arm(timer, last_tick);
    for (tick t = last_tick - delay; t < last_tick; ++t) ASSERT_EQ(timers.advance(t).ran, 0U) << delay;
    ASSERT_EQ(timers.advance(last_tick).ran, 1U) << delay;
    ASSERT_TRUE(timers.validate());
  }
}

INSTANTIATE_TEST_SUITE_P(all, wheel_exhaustive_test,
                         testing::Values(wheel_geometry{1, 1}, wheel_geometry{1, 2}, wheel_geometry{1, 8},
                                         wheel_geometry{2, 4}, wheel_geometry{3, 4}, wheel_geometry{4, 4},
                                         wheel_geometry{2, 8}),
                         geometry_name);

}  // namespace
}  // namespace tickwheel::test
