// The clock turned by hand itself, and how rarely a service asks to be woken.
#include "../support/probe.hpp"

#include <array>
#include <chrono>

using time_point = tickwheel::clock::time_point;
using tickwheel::wheel_geometry;

namespace {

using manual_driver = manual_test;

TEST_F(manual_driver, moves_by_advance_and_block) {
  tickwheel::manual_driver time{time_point{5s}};
  EXPECT_EQ(time.now(), time_point{5s});
  time.advance(3s);
  EXPECT_EQ(time.now(), time_point{8s});
  time.block(1s);
  EXPECT_EQ(time.now(), time_point{9s});
}

TEST_F(manual_driver, advance_stops_at_each_wakeup) {
  std::deque<probe> all;
  const auto begin = service.time.now();
  for (int i = 1; i <= 20; ++i) all.emplace_back(timers).arm(i * 100ms);
  service.advance(1h);
  for (int i = 1; i <= 20; ++i) {
    const probe& each = all[static_cast<std::size_t>(i - 1)];
    EXPECT_GE(each.at, begin + i * 100ms);
    EXPECT_LE(each.at, begin + i * 100ms + service.tick());
  }
  EXPECT_EQ(service.time.now(), begin + 1h);
}

TEST_F(manual_driver, block_runs_nothing) {
  p.arm(1s);
  service.time.block(1h);
  EXPECT_EQ(p.fired, 0);
  EXPECT_TRUE(service.turn());  // after a block two polls are to bring nothing
  EXPECT_TRUE(service.turn());
  EXPECT_TRUE(service.turn());  // the first counted arming as activity
  EXPECT_EQ(p.fired, 1);
  EXPECT_FALSE(service.turn());
}

TEST_F(manual_driver, never_turns_its_clock_back) {
  const tickwheel::clock::time_point before = service.time.now();
  service.time.block(-1s);
  service.time.oversleep(-1s);
  service.advance(-1s);
  EXPECT_EQ(service.time.now(), before);
  service.time.block(std::chrono::nanoseconds::max());
  EXPECT_GE(service.time.now(), before);
}

TEST_F(manual_driver, stops_at_end_of_time) {
  using move = void (*)(tickwheel::manual_driver&, std::chrono::nanoseconds);
  constexpr move moves[] = {[](tickwheel::manual_driver& t, std::chrono::nanoseconds by) { t.block(by); },
                            [](tickwheel::manual_driver& t, std::chrono::nanoseconds by) { t.oversleep(by); },
                            [](tickwheel::manual_driver& t, std::chrono::nanoseconds by) { t.advance(by); }};
  for (const move first : moves) {
    for (const move then : moves) {
      manual_service each;
      probe late{each.timers, 1s};
      first(each.time, std::chrono::nanoseconds::max());
      EXPECT_EQ(each.time.now(), time_point::max());
      then(each.time, std::chrono::nanoseconds::max());
      EXPECT_EQ(each.time.now(), time_point::max());
      each.advance(0s);
      EXPECT_EQ(late.fired, 1);
    }
  }
}

TEST_F(manual_driver, oversleeps_to_end_of_time_after_block) {
  tickwheel::manual_driver time;
  time.block(1s);
  time.oversleep(std::chrono::nanoseconds::max());
  EXPECT_EQ(time.now(), time_point::max());
  EXPECT_EQ(time.poll_ended_at(), time_point::max() - 1s);
}

TEST_F(manual_driver, handler_may_block_past_the_end_of_advance) {
  probe next{timers};
  p.then = [&] { service.time.block(1min); };
  p.arm(1s);
  next.arm(2s);
  const auto begin = service.time.now();
  service.advance(10s);
  service.advance(0s);
  EXPECT_EQ(next.fired, 1);
  EXPECT_GE(service.time.now(), begin + 1min);
}

TEST_F(manual_driver, advance_ends_though_handlers_are_slow) {
  p.then = [&] {
    if (p.fired < 1000) p.arm(1ms);
    service.time.block(2ms);
  };
  p.arm(1ms);
  service.advance(20ms);
  EXPECT_LE(p.fired, 11);
}

TEST_F(manual_driver, next_wakeup_is_not_after_earliest_deadline) {
  probe far{timers}, near{timers};
  EXPECT_EQ(service.time.next_wakeup(), time_point::max());
  far.arm(10h);
  EXPECT_LE(service.time.next_wakeup(), far.timeout.deadline());
  near.arm(10ms);
  EXPECT_LE(service.time.next_wakeup(), near.timeout.deadline());
}

TEST_F(manual_driver, advance_to_end_of_time_ends) {
  p.arm(std::chrono::hours::max());
  service.advance(std::chrono::nanoseconds::max());
  EXPECT_EQ(service.time.now(), time_point::max());
}

TEST_F(manual_driver, without_a_service_only_moves_its_clock) {
  tickwheel::manual_driver time;
  time.advance(std::chrono::nanoseconds::max());
  EXPECT_EQ(time.now(), time_point::max());
}

TEST_F(manual_driver, owns_no_handle) { EXPECT_FALSE(timers.owns(nullptr)); }

TEST_F(manual_driver, timers_fire_after_fork) {
  p.arm(10ms);
  timers.after_fork();
  service.advance(20ms);
  EXPECT_EQ(p.fired, 1);
}

TEST_F(manual_driver, has_no_wakeup_when_nothing_is_armed) {
  p.arm(10ms);
  service.time.block(20ms);
  service.advance(0s);
  EXPECT_EQ(p.fired, 1);
  EXPECT_EQ(service.time.next_wakeup(), time_point::max());
}

TEST_F(manual_driver, advance_in_handler_stops_the_process) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  p.then = [&] { service.time.advance(1s); };
  p.arm(1ms);
  EXPECT_DEATH(service.time.advance(1s), "handler");
}

// The armed ones have more slots than one sweep examines. Each of those that are gone is in a turn of its own.
TEST_F(manual_driver, slots_of_armed_timers_do_not_hide_those_that_come_next) {
  constexpr int slots = 4096;
  reopen({.geometry = wheel_geometry::hashed(slots)});
  std::deque<probe> armed;
  for (int i = 1000; i < 4000; ++i) armed.emplace_back(timers).arm(service.tick() * (100 * slots + i));
  std::deque<probe> gone;
  for (int turn = 1; turn < 90; ++turn) gone.emplace_back(timers).arm(service.tick() * (turn * slots + 4002 + turn));
  for (probe& each : gone) each.timeout.cancel();
  service.advance(service.tick() * (100 * slots));
  EXPECT_LE(service.time.wakeups(), 2U);
}

class geometries : public manual_test, public testing::WithParamInterface<wheel_geometry> {
 protected:
  void SetUp() override { reopen({.geometry = GetParam()}); }
};

TEST_P(geometries, timer_an_hour_away_wakes_at_most_eight_times) {
  service.advance(12345678ns);
  p.arm(1h);
  service.advance(1h - 1ns);
  EXPECT_EQ(p.fired, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(p.fired, 1);
  EXPECT_LE(service.time.wakeups(), 8U);
}

TEST_P(geometries, timer_days_away_wakes_at_most_eight_times) {
  p.arm(24h * 30);
  service.advance(24h * 30 + service.tick());
  EXPECT_EQ(p.fired, 1);
  EXPECT_LE(service.time.wakeups(), 8U);
}

// Its former slots are empty.
TEST_P(geometries, timer_that_moved_nearer_and_away_again_wakes_at_most_eight_times) {
  for (int i = 0; i < 350; ++i) p.arm(1h - i * 10s);
  p.arm(1h);
  service.advance(1h + service.tick());
  EXPECT_EQ(p.fired, 1);
  EXPECT_LE(service.time.wakeups(), 8U);
}

// Each slot of these is a wakeup, but one that finds nothing drops more.
TEST_P(geometries, timer_an_hour_away_wakes_rarely_after_a_thousand_that_are_gone) {
  for (const bool are_destroyed : {true, false}) {
    reopen({.geometry = GetParam()});
    p.arm(1h);
    std::deque<probe> gone;
    for (int i = 0; i < 1000; ++i) gone.emplace_back(timers).arm(2s + i * 3s);
    for (probe& each : gone) each.timeout.cancel();
    if (are_destroyed) gone.clear();
    service.advance(1h + service.tick());
    EXPECT_EQ(p.fired, 1);
    EXPECT_LE(service.time.wakeups(), 8U + 1000U / 512U + 1U);
    p.fired = 0;
  }
}

TEST_P(geometries, timer_that_left_each_slot_wakes_at_most_eight_times) {
  const wheel_geometry shape = GetParam();
  for (unsigned level = shape.levels; level-- != 0;) {
    const std::chrono::nanoseconds width = service.tick() * (std::int64_t{1} << shape.width_bits(level));
    for (unsigned i = level == 0 ? shape.finest_slots() : shape.slots; --i > 1;) p.arm(width * i);
  }
  p.arm(1h);
  service.advance(1h + service.tick());
  EXPECT_EQ(p.fired, 1);
  EXPECT_LE(service.time.wakeups(), 8U);
}

TEST_P(geometries, timer_that_moves_ahead_wakes_rarely) {
  for (int i = 0; i < 10'000; ++i) {
    p.arm(60s);
    service.time.advance(100ms);
  }
  EXPECT_EQ(p.fired, 0);
  EXPECT_LE(service.time.wakeups(), 200U);  // 1,000 s, with a few wakeups for each minute
  service.advance(60s);
  EXPECT_EQ(p.fired, 1);
}

INSTANTIATE_TEST_SUITE_P(service, geometries,
                         testing::Values(wheel_geometry{}, wheel_geometry::hashed(4096), wheel_geometry::hashed(64),
                                         wheel_geometry::hashed(65536), wheel_geometry::hierarchical(4, 256),
                                         wheel_geometry::hierarchical(3, 32), wheel_geometry::hierarchical(2, 2048),
                                         wheel_geometry::hierarchical(3, 4096)),
                         [](const auto& of) {
                           return std::to_string(of.param.levels) + "_levels_of_" + std::to_string(of.param.slots);
                         });

TEST_F(manual_driver, idle_service_has_no_wakeup) {
  service.advance(24h);
  EXPECT_EQ(service.time.wakeups(), 0U);
}

TEST_F(manual_driver, cancelled_timers_wake_at_most_once) {
  probes all{timers, 1000, [](int i) { return 10ms * i; }};
  all.cancel();
  service.advance(24h);
  EXPECT_LE(service.time.wakeups(), 1U);
}

TEST_F(manual_driver, cancelled_timers_do_not_delay_a_new_one) {
  probes all{timers, 10'000, [](int i) { return 1min + 1ms * (i % 100); }};
  all.cancel();
  for (int i = 0; i < 100; ++i) service.turn();
  service.advance(2h);
  probe fresh{timers};
  const auto begin = service.time.now();
  fresh.arm(10ms);
  service.advance(20ms);
  ASSERT_EQ(fresh.fired, 1);
  EXPECT_LE(fresh.at, begin + 10ms + service.tick());
  EXPECT_EQ(timers.stats().carried, 0U);
}

TEST_F(manual_driver, cancelled_timers_are_dropped_turn_by_turn) {
  probes all{timers, 1000, 1min};
  all.cancel();
  const auto occupied = [&] {
    std::ostringstream text;
    timers.dump(text);
    return text.str().find(" slot ") != std::string::npos;
  };
  service.turn();
  EXPECT_TRUE(occupied());
  for (int i = 0; i < 9; ++i) service.turn();
  EXPECT_FALSE(occupied());
}

TEST_F(manual_driver, cancelled_timers_cost_one_visit) {
  probe far{timers, 1h};
  probes all{timers, 1000, 1s};
  all.cancel();
  service.advance(2s);
  const auto visited = service.time.wakeups();
  EXPECT_LE(visited, 100U);  // their slot is emptied in steps, none of them for fewer than ten
  service.advance(1h - 3s);
  EXPECT_LE(service.time.wakeups() - visited, 8U);
}

}  // namespace
