// When the wheel asks to be advanced next: never too late, and not often.
#include "../support/wheel_cases.hpp"

namespace tickwheel::test {
namespace {

constexpr tick an_hour = 3'600'000'000'000 >> 17;  // at 2^17 ns a tick

class next_expiry : public wheel_fixture {
 protected:
  probe timer{timers};
};

TEST_P(next_expiry, is_never_while_nothing_is_armed) {
  EXPECT_EQ(timers.next_expiry(), never);
  timers.arm(timer, origin + 10);
  timers.cancel(timer);
  EXPECT_EQ(timers.next_expiry(), never);
  timers.arm(timer, origin + 10);
  timers.advance(origin + 10);
  EXPECT_EQ(timers.next_expiry(), never);
}

TEST_P(next_expiry, is_exact_within_a_turn_of_the_finest_level) {
  for (tick delay = 1; delay < geometry.slots; delay += std::max(1U, geometry.slots / 16)) {
    wheel fresh{geometry, origin};
    probe one{fresh};
    fresh.arm(one, origin + delay);
    EXPECT_EQ(fresh.next_expiry(), origin + delay);
  }
}

TEST_P(next_expiry, is_not_after_now_while_timers_are_left_over) {
  probes all{timers, 10};
  all.arm(origin + 3);
  ASSERT_FALSE(timers.advance(origin + 7, 4).done);
  EXPECT_LE(timers.next_expiry(), timers.now());
  ASSERT_TRUE(timers.advance(origin + 7).done);
  EXPECT_EQ(timers.next_expiry(), never);
}

TEST_P(next_expiry, decreases_from_never_and_arm_returns_true) {
  EXPECT_TRUE(timers.arm(timer, last_tick));
  timers.cancel(timer);
  EXPECT_TRUE(timers.arm(timer, origin + 100));
  timers.cancel(timer);
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_TRUE(timers.arm(timer, origin + 100));
  EXPECT_LE(timers.next_expiry(), origin + 100);
}

TEST_P(next_expiry, decreases_if_a_timer_is_armed_or_moved_before_it) {
  for (const bool move : {false, true}) {
    wheel fresh{geometry, origin};
    probes two{fresh, 2};
    fresh.arm(two[0], origin + delays.back());
    fresh.next_expiry();
    fresh.arm(two[move ? 0 : 1], origin + 2);
    EXPECT_EQ(fresh.next_expiry(), origin + 2);
  }
}

TEST_P(next_expiry, reaches_a_timer_in_at_most_one_step_a_level) {
  for_each_delay([&](auto& fresh, tick delay) {
    probe one{fresh};
    fresh.arm(one, origin + delay);
    unsigned steps = 0;
    for (; one.fired() == 0; ++steps) {
      const tick next = fresh.next_expiry();
      ASSERT_LE(next, origin + delay);
      ASSERT_GT(next, fresh.now());
      fresh.advance(next);
    }
    EXPECT_LE(steps, geometry.levels);
  });
}

INSTANTIATE_TEST_SUITE_P(all, next_expiry, testing::ValuesIn(few_cases()), case_name);

class wakeups : public wheel_fixture {
 protected:
  // Links a hundred cancelled timers.
  wakeups() {
    for (std::size_t i = 0; i < 100; ++i) timers.arm(cancelled[i], 1 + i * i * i);
    cancelled.cancel();
  }

  probes cancelled{timers, 100};
  probe timer{timers};
};

TEST_P(wakeups, are_few_in_an_hour_from_any_tick) {
  std::mt19937_64 random{17};
  for (int i = 0; i < 200; ++i) {
    const tick now = random() >> 20;
    const tick deadline = now + an_hour - random() % 5000;
    wheel fresh{geometry, now};
    probe one{fresh};
    fresh.arm(one, deadline);
    ASSERT_LE(run_until(fresh, deadline), 8U) << now << " to " << deadline;
    ASSERT_EQ(one.fired_at(), ticks{deadline});
  }
}

TEST_P(wakeups, are_at_most_one_for_each_cancelled_timer) {
  timers.arm(timer, an_hour);
  EXPECT_LE(run_until(timers, an_hour), 100U + 8U);
  EXPECT_EQ(timer.fired(), 1U);
}

TEST_P(wakeups, are_none_for_cancelled_timers_after_an_idle_advance) {
  timers.advance(1);
  EXPECT_TRUE(timers.empty());
  timers.arm(timer, an_hour);
  EXPECT_LE(run_until(timers, an_hour), 8U);
}

TEST_P(wakeups, depend_on_the_delay_and_not_on_moves) {
  wheel fresh{geometry};
  probe idle{fresh};
  const tick limit = 1 << 13;  // about a second
  fresh.arm(idle, limit);
  std::size_t count = 0;
  for (tick t = 1; t <= 60 * limit; t += 7) {  // a wakeup is an advance that the wheel asked for
    count += fresh.next_expiry() <= t;
    fresh.advance(t);
    fresh.arm(idle, t + limit);
  }
  EXPECT_EQ(idle.fired(), 0U);
  EXPECT_LE(count, 60U * 8U);
}

// More slots of later rounds than a wheel examines by itself. If it examined all of them because it was asked, it must
// still see what is armed in between.
TEST_P(wakeups, are_on_time_before_many_timers_of_later_rounds) {
  const tick width = tick{1} << geometry.width_bits(geometry.levels - 1);
  const tick turn = width * geometry.slots;
  wheel fresh{geometry};
  probes two{fresh, 2};
  probes far{fresh, std::min(geometry.slots, 100U)};
  fresh.arm(two[0], 3 * width);
  for (std::size_t i = 0; i < far.size(); ++i) fresh.arm(far[i], 2 * turn + (i + 5) * width);
  fresh.advance(3 * width);
  ASSERT_GT(fresh.next_expiry(), turn / 2);
  const tick deadline = 3 * width + turn / 2 + width / 2;
  EXPECT_TRUE(fresh.arm(two[1], deadline));
  EXPECT_LE(fresh.next_expiry(), deadline);
  EXPECT_TRUE(valid(fresh));
  run_until(fresh, deadline);
  EXPECT_EQ(two[1].fired_at(), ticks{deadline});
}

INSTANTIATE_TEST_SUITE_P(all, wakeups,
                         testing::ValuesIn(cases_from(0, {{}, {1, 4096}, {1, 256}, {1, 8192}, {4, 16}, {7, 64}})),
                         case_name);

constexpr tick width = 1024;  // of a slot of the second level

// The result of `arm`: whether a caller that waits for `next_expiry` must ask again.
class arm_result : public testing::Test {
 protected:
  void expect_next(tick expected) const { EXPECT_EQ(timers.next_expiry(), expected); }

  checked_wheel timers{wheel_geometry::hierarchical(2, width)};
  probes all{timers, 9};
};

TEST_F(arm_result, is_true_for_the_first_timer_on_any_level) {
  for (const tick deadline : {tick{1}, tick{100}, 2 * width, 5 * width + 3, 5000 * width}) {
    EXPECT_TRUE(timers.arm(all[0], deadline)) << deadline;
    expect_next(deadline);
    clear(timers);
  }
}

TEST_F(arm_result, is_true_only_for_an_earlier_timer) {
  for (const tick first : {tick{100}, 5 * width + 3}) {
    ASSERT_TRUE(timers.arm(all[0], first));
    expect_next(first);  // a wheel that was not asked does not know
    EXPECT_FALSE(timers.arm(all[1], first + 2 * width)) << first;
    EXPECT_FALSE(timers.arm(all[2], first + 1 + 7 * width)) << first;
    EXPECT_TRUE(timers.arm(all[3], first - 1)) << first;
    clear(timers);
  }
}

TEST_F(arm_result, is_false_for_the_same_tick_or_a_move_to_later) {
  timers.arm(all[0], 100);
  expect_next(100);
  EXPECT_FALSE(timers.arm(all[1], 100));
  EXPECT_FALSE(timers.arm(all[0], 200));
  expect_next(100);
}

TEST_F(arm_result, is_true_for_a_timer_that_moves_earlier) {
  for (const tick deadline : {9 * width, 7 * width + 7, 5 * width + 6, tick{100}, tick{99}}) {
    EXPECT_TRUE(timers.arm(all[0], deadline)) << deadline;
    expect_next(deadline);
  }
}

// A sparse slot is visited when its first timer is due, and others when they begin.
TEST_F(arm_result, is_true_if_a_ninth_timer_needs_an_earlier_visit) {
  EXPECT_TRUE(timers.arm(all[0], 5 * width + 500));
  expect_next(5 * width + 500);
  EXPECT_FALSE(timers.arm(all[1], 5 * width + 600));
  expect_next(5 * width + 500);
  EXPECT_TRUE(timers.arm(all[2], 5 * width + 400));
  expect_next(5 * width + 400);
  for (std::size_t i = 3; i < 8; ++i) EXPECT_FALSE(timers.arm(all[i], 5 * width + 400 + i)) << i;
  expect_next(5 * width + 400);
  EXPECT_TRUE(timers.arm(all[8], 5 * width + 600));
  expect_next(5 * width);
}

// More slots of a later round than the wheel examines by itself. After an advance it only knows that nothing is due before them.
TEST_F(arm_result, is_true_before_slots_that_were_not_examined) {
  constexpr std::size_t slots = 128;
  constexpr tick earliest = 2 * slots + 2;
  for (tick deadline = 2; deadline < earliest; ++deadline) {
    wheel hashed{wheel_geometry::hashed(slots)};
    probes others{hashed, 100};
    others.arm(earliest, 100);
    probes two{hashed, 2};
    hashed.arm(two[0], 1);
    hashed.advance(1);  // looks for the next slot
    EXPECT_TRUE(hashed.arm(two[1], deadline)) << deadline;
    EXPECT_EQ(hashed.next_expiry(), deadline);
  }
}

TEST_F(arm_result, is_true_each_time_a_crowd_needs_an_earlier_visit) {
  probes crowd{timers, 1000};
  timers.arm(crowd[0], 5 * width);
  std::size_t times = 0;
  for (std::size_t i = 1; i < crowd.size(); ++i) {
    const tick before = timers.next_expiry();
    const bool result = timers.arm(crowd[i], 5 * width + i);
    ASSERT_LE(timers.next_expiry(), before);
    ASSERT_EQ(result, timers.next_expiry() < before) << i;
    times += result;
  }
  EXPECT_GT(times, 5U);
}

TEST_F(arm_result, is_false_for_a_crowd_behind_an_earlier_slot) {
  probes crowd{timers, 2000};
  timers.arm(crowd[0], 5 * width);
  expect_next(5 * width);
  std::size_t i = 1;
  while (i < crowd.size() && !timers.arm(crowd[i], 6 * width + i % 8)) ++i;
  EXPECT_EQ(i, crowd.size());
  expect_next(5 * width);
  EXPECT_TRUE(valid(timers));
}

// A level of many slots does not examine all of them by itself. Until it is asked, anything may be sooner than it knows.
TEST_F(arm_result, is_true_until_next_expiry_is_asked) {
  wheel hashed{wheel_geometry::hashed(256)};
  probes near{hashed, 3};
  probes far{hashed, 100};
  hashed.arm(near[0], 3);
  far.arm(2 * 256 + 10, 100);
  hashed.advance(3);
  EXPECT_TRUE(hashed.arm(near[1], 3 * 256 + 200));
  ASSERT_EQ(hashed.next_expiry(), 2U * 256 + 10);
  EXPECT_FALSE(hashed.arm(near[1], 3 * 256 + 199));
  EXPECT_EQ(hashed.next_expiry(), 2U * 256 + 10);
  EXPECT_TRUE(hashed.arm(near[2], 150));
  EXPECT_EQ(hashed.next_expiry(), 150U);
}

// Asks for `next_expiry` only if `arm` says so, and after each advance.
void expect_a_caller_never_to_wait_too_long(const wheel_geometry& geometry, std::mt19937_64& random) {
  const ticks delays = delays_of_interest(geometry);
  wheel timers{geometry};
  probes all{timers, 151};
  probe& keeper = all[150];  // so that a timer is always armed
  tick waits_until = never;
  const auto arm = [&](probe& p, tick deadline) {
    if (timers.arm(p, deadline)) waits_until = timers.next_expiry();
  };
  const auto advance = [&](tick now) {
    timers.advance(now);
    waits_until = timers.next_expiry();
  };
  arm(keeper, tick{1} << 60);
  for (int step = 0; step < 400; ++step) {
    probe& p = all[static_cast<std::size_t>(random() % 150)];
    const auto what = random() % 16;
    const tick delay = delays[static_cast<std::size_t>(random() % delays.size())] + random() % 4;
    if (what < 11)
      arm(p, timers.now() + delay);
    else if (what < 13)
      timers.cancel(p);
    else if (what < 14)
      advance(timers.now() + 1 + random() % 3);
    else if (waits_until < keeper.deadline())
      advance(std::max(timers.now(), waits_until));
    tick earliest = never;
    for (const probe& q : all) earliest = std::min(earliest, q.deadline());
    ASSERT_LE(waits_until, earliest) << "at " << timers.now();
  }
  ASSERT_TRUE(valid(timers));
}

TEST_F(arm_result, keeps_a_caller_from_waiting_too_long) {
  for (const wheel_geometry& geometry :
       {wheel_geometry{1, 8}, {1, 256}, {1, 8192}, {2, 4}, {2, 128}, {4, 16}, wheel_geometry{}}) {
    SCOPED_TRACE(testing::PrintToString(geometry));
    std::mt19937_64 random{geometry.slots};
    for (int run = 0; run < 20; ++run) expect_a_caller_never_to_wait_too_long(geometry, random);
  }
}

}  // namespace
}  // namespace tickwheel::test
