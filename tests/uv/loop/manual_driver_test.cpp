// The clock turned by hand itself, and how rarely a service asks to be woken.
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <sstream>
#include <string>

using namespace std::chrono_literals;
using time_point = tickwheel::clock::time_point;
using tickwheel::manual_driver;
using tickwheel::wheel_geometry;

namespace {

TEST(manual_driver, starts_where_it_is_told_and_moves_by_what_it_is_told) {
  manual_driver time{time_point{5s}};
  EXPECT_EQ(time.now(), time_point{5s});
  time.advance(3s);
  EXPECT_EQ(time.now(), time_point{8s});
  time.block(1s);
  EXPECT_EQ(time.now(), time_point{9s});
}

TEST(manual_driver, stops_at_each_wakeup_on_its_way) {
  manual_service service;
  std::deque<probe> all;
  const auto begin = service.time.now();
  for (int i = 1; i <= 20; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(i * 100ms), 0);
  service.advance(1h);
  for (int i = 1; i <= 20; ++i) {
    const probe& p = all[static_cast<std::size_t>(i - 1)];
    EXPECT_GE(p.at, begin + i * 100ms);
    EXPECT_LE(p.at, begin + i * 100ms + service.tick());
  }
  EXPECT_EQ(service.time.now(), begin + 1h);
}

TEST(manual_driver, runs_what_handlers_arm_on_its_way) {
  manual_service service;
  probe p{service.timers};
  p.then = [&] { p.arm(1s); };
  ASSERT_EQ(p.timeout.arm(1s), 0);
  service.advance(10s + 10 * service.tick());
  EXPECT_EQ(p.fired, 10);
}

TEST(manual_driver, does_not_run_anything_while_blocked) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(1s), 0);
  service.time.block(1h);
  EXPECT_EQ(p.fired, 0);
  EXPECT_TRUE(service.turn());  // after a block two polls are to bring nothing
  EXPECT_TRUE(service.turn());
  EXPECT_TRUE(service.turn());  // the first counted arming as activity
  EXPECT_EQ(p.fired, 1);
  EXPECT_FALSE(service.turn());
}

TEST(manual_driver, never_turns_its_clock_back) {
  manual_service service;
  const tickwheel::clock::time_point before = service.time.now();
  service.time.block(-1s);
  service.time.oversleep(-1s);
  service.advance(-1s);
  EXPECT_EQ(service.time.now(), before);
  service.time.block(std::chrono::nanoseconds::max());
  EXPECT_GE(service.time.now(), before);
}

TEST(manual_driver, stops_at_end_of_time) {
  using move = void (*)(manual_driver&, std::chrono::nanoseconds);
  constexpr move moves[] = {[](manual_driver& t, std::chrono::nanoseconds by) { t.block(by); },
                            [](manual_driver& t, std::chrono::nanoseconds by) { t.oversleep(by); },
                            [](manual_driver& t, std::chrono::nanoseconds by) { t.advance(by); }};
  for (const move first : moves) {
    for (const move then : moves) {
      manual_service service;
      probe p{service.timers};
      ASSERT_EQ(p.timeout.arm(1s), 0);
      first(service.time, std::chrono::nanoseconds::max());
      EXPECT_EQ(service.time.now(), time_point::max());
      then(service.time, std::chrono::nanoseconds::max());
      EXPECT_EQ(service.time.now(), time_point::max());
      service.advance(0s);
      EXPECT_EQ(p.fired, 1);
    }
  }
}

TEST(manual_driver, oversleeps_to_end_of_time_after_block) {
  manual_driver time;
  time.block(1s);
  time.oversleep(std::chrono::nanoseconds::max());
  EXPECT_EQ(time.now(), time_point::max());
  EXPECT_EQ(time.poll_ended_at(), time_point::max() - 1s);
}

TEST(manual_driver, lets_a_handler_block_past_the_end_of_an_advance) {
  manual_service service;
  probe next{service.timers};
  probe p{service.timers, [&] { service.time.block(1min); }};
  ASSERT_EQ(p.timeout.arm(1s), 0);
  ASSERT_EQ(next.timeout.arm(2s), 0);
  const auto begin = service.time.now();
  service.advance(10s);
  service.advance(0s);
  EXPECT_EQ(next.fired, 1);
  EXPECT_GE(service.time.now(), begin + 1min);
}

TEST(manual_driver, ends_an_advance_though_a_handler_takes_longer_than_it_is_armed_for) {
  manual_service service;
  probe p{service.timers};
  p.then = [&] {
    if (p.fired < 1000) p.arm(1ms);
    service.time.block(2ms);
  };
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  service.advance(20ms);
  EXPECT_LE(p.fired, 11);
}

TEST(manual_driver, is_alive_while_a_timer_is_armed) {
  manual_service service;
  probe p{service.timers};
  EXPECT_FALSE(service.time.alive());
  ASSERT_EQ(p.timeout.arm(1s), 0);
  EXPECT_TRUE(service.time.alive());
  p.timeout.cancel();
  EXPECT_FALSE(service.time.alive());
  ASSERT_EQ(p.timeout.arm(1s), 0);
  service.advance(2s);
  EXPECT_FALSE(service.time.alive());
}

TEST(manual_driver, asks_for_no_wakeup_later_than_the_earliest_deadline) {
  manual_service service;
  probe far{service.timers};
  probe near{service.timers};
  EXPECT_EQ(service.time.next_wakeup(), time_point::max());
  ASSERT_EQ(far.timeout.arm(10h), 0);
  EXPECT_LE(service.time.next_wakeup(), far.timeout.deadline());
  ASSERT_EQ(near.timeout.arm(10ms), 0);
  EXPECT_LE(service.time.next_wakeup(), near.timeout.deadline());
}

TEST(manual_driver, ends_an_advance_to_the_end_of_time) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(std::chrono::hours::max()), 0);
  service.advance(std::chrono::nanoseconds::max());
  EXPECT_EQ(service.time.now(), time_point::max());
}

TEST(manual_driver, without_a_service_only_moves_its_clock) {
  manual_driver time;
  time.advance(std::chrono::nanoseconds::max());
  EXPECT_EQ(time.now(), time_point::max());
}

TEST(manual_driver, owns_no_handle) {
  manual_service service;
  EXPECT_FALSE(service.timers.owns(nullptr));
}

TEST(manual_driver, goes_on_in_the_child_of_a_fork) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  service.timers.after_fork();
  service.advance(20ms);
  EXPECT_EQ(p.fired, 1);
}

TEST(manual_driver, tells_no_wakeup_when_nothing_is_armed) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  service.time.block(20ms);
  service.advance(0s);
  EXPECT_EQ(p.fired, 1);
  EXPECT_EQ(service.time.next_wakeup(), time_point::max());
}

TEST(manual_driver_death, names_a_turn_from_within_a_handler) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  manual_service service;
  probe p{service.timers, [&] { service.time.advance(1s); }};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  EXPECT_DEATH(service.time.advance(1s), "handler");
}

class geometries : public testing::TestWithParam<wheel_geometry> {};

TEST_P(geometries, wake_at_most_eight_times_for_one_timer_an_hour_away) {
  manual_service service{{.geometry = GetParam()}};
  probe p{service.timers};
  service.advance(12345678ns);
  ASSERT_EQ(p.timeout.arm(1h), 0);
  service.advance(1h - 1ns);
  EXPECT_EQ(p.fired, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(p.fired, 1);
  EXPECT_LE(service.time.wakeups(), 8U);
}

TEST_P(geometries, wake_at_most_eight_times_for_a_timer_days_away) {
  manual_service service{{.geometry = GetParam()}};
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(24h * 30), 0);
  service.advance(24h * 30 + service.tick());
  EXPECT_EQ(p.fired, 1);
  EXPECT_LE(service.time.wakeups(), 8U);
}

TEST_P(geometries, wake_no_more_often_for_a_timer_that_moves_ahead_of_time) {
  manual_service service{{.geometry = GetParam()}};
  probe p{service.timers};
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(p.timeout.arm(60s), 0);
    service.time.advance(100ms);
  }
  EXPECT_EQ(p.fired, 0);
  EXPECT_LE(service.time.wakeups(), 200U);  // 1,000 s, with a few wakeups for each minute
  service.check();
}

INSTANTIATE_TEST_SUITE_P(service, geometries,
                         testing::Values(wheel_geometry{}, wheel_geometry::hashed(4096), wheel_geometry::hashed(64),
                                         wheel_geometry::hierarchical(4, 256), wheel_geometry::hierarchical(3, 32)),
                         [](const auto& of) {
                           return std::to_string(of.param.levels) + "_levels_of_" + std::to_string(of.param.slots);
                         });

TEST(an_idle_service, asks_for_no_wakeup) {
  manual_service service;
  service.advance(24h);
  EXPECT_EQ(service.time.wakeups(), 0U);
}

TEST(an_idle_service, is_woken_at_most_once_for_what_was_cancelled) {
  manual_service service;
  std::deque<probe> all;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(10ms * i), 0);
  for (probe& p : all) p.timeout.cancel();
  service.advance(24h);
  EXPECT_LE(service.time.wakeups(), 1U);
}

TEST(cancelled_timers, are_dropped_while_the_loop_is_awake_so_that_a_new_one_is_not_held_up) {
  manual_service service;
  std::deque<probe> all;
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(1min + 1ms * (i % 100)), 0);
  for (probe& p : all) p.timeout.cancel();
  for (int i = 0; i < 100; ++i) service.turn();
  service.advance(2h);
  probe fresh{service.timers};
  const auto begin = service.time.now();
  ASSERT_EQ(fresh.timeout.arm(10ms), 0);
  service.advance(20ms);
  ASSERT_EQ(fresh.fired, 1);
  EXPECT_LE(fresh.at, begin + 10ms + service.tick());
  EXPECT_EQ(service.timers.stats().carried, 0U);
}

TEST(cancelled_timers, are_dropped_some_a_turn_until_no_slot_is_occupied) {
  manual_service service;
  std::deque<probe> all;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(1min), 0);
  for (probe& p : all) p.timeout.cancel();
  const auto occupied = [&] {
    std::ostringstream text;
    service.timers.dump(text);
    return text.str().find(" slot ") != std::string::npos;
  };
  service.turn();
  EXPECT_TRUE(occupied());
  for (int i = 0; i < 9; ++i) service.turn();
  EXPECT_FALSE(occupied());
}

TEST(cancelled_timers, cost_their_one_visit_and_no_wakeup_after_it) {
  manual_service service;
  probe far{service.timers};
  ASSERT_EQ(far.timeout.arm(1h), 0);
  std::deque<probe> all;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(1s), 0);
  for (probe& p : all) p.timeout.cancel();
  service.advance(2s);
  const auto visited = service.time.wakeups();
  EXPECT_LE(visited, 100U);  // their slot is emptied in steps, none of them for fewer than ten
  service.advance(1h - 3s);
  EXPECT_LE(service.time.wakeups() - visited, 8U);
}

}  // namespace
