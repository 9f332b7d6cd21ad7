// When the wheel asks to be called next: never too late, and not often.
#include "../support/probe.hpp"
#include "../support/wheel_cases.hpp"

#include <algorithm>
#include <random>

namespace tickwheel::test {
namespace {

constexpr tick an_hour = 3'600'000'000'000 >> 17;  // at 2^17 ns a tick

class wheel_next_expiry_test : public testing::TestWithParam<wheel_case> {
 protected:
  const wheel_geometry geometry = GetParam().geometry;
  const tick origin = GetParam().origin;
  wheel timers{geometry, origin};
};

TEST_P(wheel_next_expiry_test, is_never_when_nothing_is_armed) {
  EXPECT_EQ(timers.next_expiry(), never);
  probe timer{timers};
  timers.arm(timer, origin + 10);
  timers.cancel(timer);
  EXPECT_EQ(timers.next_expiry(), never);
  timers.arm(timer, origin + 10);
  timers.advance(origin + 10);
  EXPECT_EQ(timers.next_expiry(), never);
}

TEST_P(wheel_next_expiry_test, is_exact_for_a_timer_within_a_turn_of_the_finest_level) {
  for (tick delay = 1; delay < geometry.slots; delay += std::max(1U, geometry.slots / 16)) {
    wheel fresh{geometry, origin};
    probe timer{fresh};
    fresh.arm(timer, origin + delay);
    EXPECT_EQ(fresh.next_expiry(), origin + delay);
  }
}

TEST_P(wheel_next_expiry_test, is_at_or_before_now_when_work_is_left) {
  probes all{timers, 10};
  for (probe& p : all) timers.arm(p, origin + 3);
  ASSERT_FALSE(timers.advance(origin + 7, 4).done);
  EXPECT_LE(timers.next_expiry(), timers.now());
  ASSERT_TRUE(timers.advance(origin + 7).done);
  EXPECT_EQ(timers.next_expiry(), never);
}

TEST_P(wheel_next_expiry_test, comes_down_from_never_and_arm_says_so) {
  probe timer{timers};
  EXPECT_TRUE(timers.arm(timer, last_tick));
  timers.cancel(timer);
  EXPECT_TRUE(timers.arm(timer, origin + 100));
  timers.cancel(timer);
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_TRUE(timers.arm(timer, origin + 100));
  EXPECT_LE(timers.next_expiry(), origin + 100);
}

TEST_P(wheel_next_expiry_test, comes_down_when_an_earlier_timer_is_armed) {
  probe late{timers};
  probe soon{timers};
  timers.arm(late, origin + delays_of_interest(geometry).back());
  timers.next_expiry();
  timers.arm(soon, origin + 2);
  EXPECT_EQ(timers.next_expiry(), origin + 2);
}

TEST_P(wheel_next_expiry_test, comes_down_when_a_timer_is_moved_to_an_earlier_deadline) {
  probe timer{timers};
  timers.arm(timer, origin + delays_of_interest(geometry).back());
  timers.next_expiry();
  timers.arm(timer, origin + 2);
  EXPECT_EQ(timers.next_expiry(), origin + 2);
}

TEST_P(wheel_next_expiry_test, is_never_late_and_converges_in_a_step_a_level) {
  for (const tick delay : delays_of_interest(geometry)) {
    SCOPED_TRACE(delay);
    wheel fresh{geometry, origin};
    probe timer{fresh};
    fresh.arm(timer, origin + delay);
    unsigned steps = 0;
    while (timer.fired() == 0) {
      const tick next = fresh.next_expiry();
      ASSERT_LE(next, origin + delay);
      ASSERT_GT(next, fresh.now());
      fresh.advance(next);
      ++steps;
    }
    EXPECT_LE(steps, geometry.levels);
  }
}

TEST_P(wheel_next_expiry_test, is_never_late_whatever_else_is_linked) {
  std::mt19937 random{static_cast<unsigned>(origin) + geometry.slots};
  const auto delays = delays_of_interest(geometry);
  probes all{timers, 64};
  for (int step = 0; step < 300 && timers.now() < last_tick - 4 * geometry.slots; ++step) {
    probe& p = all[random() % all.size()];
    if (random() % 4 == 0)
      timers.cancel(p);
    else
      timers.arm(p, timers.now() + delays[random() % delays.size()]);
    tick earliest = never;
    for (probe& q : all) earliest = std::min(earliest, q.deadline());
    const tick next = timers.next_expiry();
    ASSERT_LE(next, earliest);
    ASSERT_GT(next, timers.now());
    if (random() % 2 == 0 && next != never) {
      timers.advance(next);
      ASSERT_EQ(timers.lateness().max(), 0U);
    }
  }
  EXPECT_TRUE(valid(timers));
}

// A lone timer of this round, and a crowd of the next in its slot: the bound comes down with what the crowd needs.
TEST(wheel_expiry_bound, is_never_above_the_earliest_deadline) {
  constexpr tick width = tick{1} << 19;
  constexpr tick turn = tick{1} << 29;
  wheel timers;
  probe lone{timers};
  probe first{timers};
  probes all{timers, 6400};
  timers.arm(lone, 4 * width + 1000);
  timers.arm(first, 10);
  timers.advance(10);
  const tick before = timers.next_expiry();
  bool sooner = false;
  for (probe& p : all) sooner |= timers.arm(p, turn + 4 * width + 5);
  EXPECT_TRUE(sooner || timers.next_expiry() == before);
  timers.arm(first, 20);
  timers.advance(20);
  EXPECT_LE(timers.expiry_bound(), timers.next_expiry());
  EXPECT_LE(timers.expiry_bound(), lone.deadline());
}

INSTANTIATE_TEST_SUITE_P(all, wheel_next_expiry_test, testing::ValuesIn(few_cases()), case_name);

class wheel_wakeups_test : public testing::TestWithParam<wheel_geometry> {
 protected:
  const wheel_geometry geometry = GetParam();
};

TEST_P(wheel_wakeups_test, an_hour_takes_few_wakeups_from_any_position) {
  std::mt19937_64 random{17};
  for (int i = 0; i < 200; ++i) {
    const tick origin = random() >> 20;
    const tick delay = an_hour - random() % 5000;
    wheel timers{geometry, origin};
    probe timer{timers};
    timers.arm(timer, origin + delay);
    ASSERT_LE(run_until(timers, origin + delay), 8U) << origin << " + " << delay;
    ASSERT_EQ(timer.fired_at(), std::vector<tick>{origin + delay});
  }
}

TEST_P(wheel_wakeups_test, cancelled_timers_cost_at_most_one_wakeup_each) {
  wheel timers{geometry};
  probes cancelled{timers, 100};
  for (std::size_t i = 0; i < 100; ++i) {
    timers.arm(cancelled[i], 1 + i * i * i);
    timers.cancel(cancelled[i]);
  }
  probe far{timers};
  timers.arm(far, an_hour);
  EXPECT_LE(run_until(timers, an_hour), 100U + 8U);
  EXPECT_EQ(far.fired(), 1U);
}

TEST_P(wheel_wakeups_test, cancelled_timers_are_forgotten_once_the_wheel_is_advanced_with_nothing_armed) {
  wheel timers{geometry};
  probes cancelled{timers, 100};
  for (std::size_t i = 0; i < 100; ++i) {
    timers.arm(cancelled[i], 1 + i * i * i);
    timers.cancel(cancelled[i]);
  }
  timers.advance(1);
  EXPECT_TRUE(timers.empty());
  probe far{timers};
  timers.arm(far, an_hour);
  EXPECT_LE(run_until(timers, an_hour), 8U);
}

TEST_P(wheel_wakeups_test, a_timer_moved_later_again_and_again_costs_a_wakeup_a_delay_and_not_a_move) {
  wheel timers{geometry};
  probe idle{timers};
  const tick limit = 1 << 13;  // about a second
  timers.arm(idle, limit);
  std::size_t wakeups = 0;
  for (tick t = 1; t <= 60 * limit; t += 7) {  // a wakeup is an advance that the wheel asked for
    wakeups += timers.next_expiry() <= t;
    timers.advance(t);
    timers.arm(idle, t + limit);
  }
  EXPECT_EQ(idle.fired(), 0U);
  EXPECT_LE(wakeups, 60U * 8U);
}

TEST(wheel_next_expiry, of_near_timers_is_exact_after_time_has_passed) {
  wheel timers;
  probes all{timers, 3};
  timers.arm(all[0], 10);
  timers.advance(5000);
  timers.arm(all[1], 5100);
  timers.arm(all[2], 5101);
  EXPECT_EQ(timers.next_expiry(), 5100U);
}

// More slots of later rounds than a wheel looks at by itself: where it looked at all of them because it was asked, it must still
// see what is armed in between.
TEST_P(wheel_wakeups_test, what_is_armed_before_many_timers_of_later_rounds_is_not_late) {
  const tick width = tick{1} << geometry.width_bits(geometry.levels - 1);
  const tick turn = width * geometry.slots;
  wheel timers{geometry};
  probe first{timers};
  probes far{timers, std::min(geometry.slots, 100U)};
  timers.arm(first, 3 * width);
  for (std::size_t i = 0; i < far.size(); ++i) timers.arm(far[i], 2 * turn + (i + 5) * width);
  timers.advance(3 * width);
  ASSERT_GT(timers.next_expiry(), turn / 2);
  const tick deadline = 3 * width + turn / 2 + width / 2;
  probe between{timers};
  EXPECT_TRUE(timers.arm(between, deadline));
  EXPECT_LE(timers.next_expiry(), deadline);
  EXPECT_TRUE(valid(timers));
  run_until(timers, deadline);
  EXPECT_EQ(between.fired_at(), std::vector<tick>{deadline});
}

INSTANTIATE_TEST_SUITE_P(all, wheel_wakeups_test,
                         testing::Values(wheel_geometry{}, wheel_geometry::hashed(4096), wheel_geometry{1, 256},
                                         wheel_geometry{1, 8192}, wheel_geometry{4, 16}, wheel_geometry{7, 64}),
                         geometry_name);

// The visits that cancelled links had called for are off once these are gone.
TEST(wheel_sweep_test, next_expiry_is_in_the_future_after_cancelled_links_were_dropped) {
  wheel timers{wheel_geometry::hierarchical(2, 64)};
  probes cancelled{timers, 1000};
  for (probe& p : cancelled) timers.arm(p, 3200);
  for (probe& p : cancelled) timers.cancel(p);
  timers.advance(3190);
  ASSERT_TRUE(timers.empty());
  probe timer{timers};
  timers.arm(timer, 3300);
  EXPECT_GT(timers.next_expiry(), timers.now());
}

}  // namespace
}  // namespace tickwheel::test
