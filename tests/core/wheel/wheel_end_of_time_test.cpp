// The last ticks: later deadlines saturate, and nothing wraps.
#include "../support/wheel_cases.hpp"

namespace tickwheel::test {
namespace {

class end_of_time : public wheel_fixture {
 protected:
  checked_wheel at_end{geometry, last_tick};
};

TEST_P(end_of_time, later_deadline_is_due_at_the_last_tick) {
  probe timer{timers};
  timers.arm(timer, never);
  EXPECT_TRUE(timer.armed());
  EXPECT_EQ(timer.deadline(), last_tick);
  EXPECT_TRUE(valid(timers));
  expect_fires_at(timers, timer, last_tick);
}

TEST_P(end_of_time, time_stops_at_the_last_tick) {
  for (int times = 0; times < 2; ++times) {
    timers.advance(never);
    EXPECT_EQ(timers.now(), last_tick);
  }
}

TEST_P(end_of_time, later_origin_is_the_last_tick) { EXPECT_EQ((wheel{geometry, never}.now()), last_tick); }

TEST_P(end_of_time, advance_to_an_earlier_tick_runs_due_timers) {
  for (const tick start : {last_tick, last_tick - 5}) {
    checked_wheel fresh{geometry, start};
    fresh.advance(last_tick);
    probe timer{fresh};
    fresh.arm(timer, last_tick);
    EXPECT_EQ(fresh.advance(last_tick - 1), ran(1U));
    EXPECT_EQ(fresh.now(), last_tick);
  }
}

// As above, with a crowd, which is armed while earlier work is left over.
TEST_P(end_of_time, advance_to_an_earlier_tick_runs_a_late_timer_and_a_crowd) {
  checked_wheel fresh{geometry, 0};
  probe late{fresh};
  probes crowd{fresh, 100};
  fresh.arm(late, 5);
  EXPECT_EQ(fresh.advance(last_tick, 0), cut_after(0U));
  crowd.arm(last_tick);
  std::size_t all = 0;
  for (int passes = 0; passes < 200 && all < 101; ++passes) all += fresh.advance(last_tick - 1).ran;
  EXPECT_EQ(all, 101U);
}

TEST_P(end_of_time, timer_that_arms_itself_runs_once_a_pass) {
  checked_wheel fresh{geometry, last_tick - 1};
  probe timer{fresh, [&](probe& self) { fresh.arm(self, fresh.now() + 1); }};
  fresh.arm(timer, last_tick);
  for (std::size_t pass = 1; pass <= 3; ++pass) {
    EXPECT_EQ(fresh.advance(last_tick).ran, 1U);
    EXPECT_EQ(timer.fired(), pass);
    EXPECT_TRUE(timer.armed());
  }
}

TEST_P(end_of_time, timers_can_be_cancelled_and_moved) {
  probes two{at_end, 2};
  two.arm(never);
  EXPECT_TRUE(at_end.cancel(two[0]));
  at_end.arm(two[1], 0);
  EXPECT_EQ(two[1].deadline(), last_tick);
  EXPECT_LE(at_end.next_expiry(), last_tick);
  EXPECT_EQ(at_end.advance(last_tick).ran, 1U);
  EXPECT_EQ(two[1].fired(), 1U);
  EXPECT_EQ(at_end.armed(), 0U);
  EXPECT_EQ(at_end.next_expiry(), never);
}

TEST_P(end_of_time, dead_links_of_earlier_rounds_delay_no_timer) {
  for (tick away = 1; away <= 4 * geometry.slots; away += 1 + away / 8) {
    SCOPED_TRACE(away);
    checked_wheel fresh{geometry, last_tick - away - 1};
    probes dead{fresh, 3};
    dead.arm(last_tick - away);
    dead.cancel();
    fresh.advance(last_tick, 0);  // no work is allowed, so that they stay linked
    probe timer{fresh};
    fresh.arm(timer, last_tick);
    fresh.advance(last_tick);
    EXPECT_EQ(timer.fired(), 1U);
  }
}

TEST_P(end_of_time, whole_of_time_is_crossed_by_calls_or_in_one) {
  for (const bool in_one_call : {true, false}) {
    checked_wheel fresh{geometry};
    probes all{fresh, 64};
    for (unsigned bit = 0; bit < 64; ++bit) fresh.arm(all[bit], tick{1} << bit);
    if (in_one_call) {
      EXPECT_EQ(fresh.advance(last_tick).ran, 64U);
      continue;
    }
    EXPECT_LE(run_until(fresh, last_tick), 64U * geometry.levels);
    for (unsigned bit = 0; bit < 64; ++bit) EXPECT_EQ(all[bit].fired_at(), ticks{tick{1} << bit});
  }
}

TEST_P(end_of_time, timers_of_each_of_the_last_ticks_are_on_time) {
  constexpr std::size_t count = 300;
  constexpr tick first = last_tick - count + 1;
  wheel fresh{geometry, first - 1};
  probes all{fresh, count};
  all.arm(first, count);
  run_until(fresh, last_tick);
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(all[i].fired_at(), ticks{first + i});
  EXPECT_EQ(fresh.armed(), 0U);
}

INSTANTIATE_TEST_SUITE_P(all, end_of_time, testing::ValuesIn(cases_from(0, all_geometries())), case_name);

}  // namespace
}  // namespace tickwheel::test
