// How many timers may be armed at once, and how much a pass does.
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>

using namespace std::chrono_literals;

namespace {

TEST(max_armed, refuses_one_more_and_changes_nothing) {
  manual_service service{{.max_armed = 2}};
  probe a{service.timers};
  probe b{service.timers};
  probe c{service.timers};
  ASSERT_EQ(a.timeout.arm(10ms), 0);
  ASSERT_EQ(b.timeout.arm(10ms), 0);
  const auto wakeup = service.time.next_wakeup();
  EXPECT_EQ(c.timeout.arm(1ms), UV_ENOBUFS);
  EXPECT_EQ(c.timeout.arm_at(service.timers.now()), UV_ENOBUFS);
  EXPECT_FALSE(c.timeout.armed());
  EXPECT_EQ(service.time.next_wakeup(), wakeup);
  EXPECT_EQ(service.timers.stats().refused, 2U);
  EXPECT_EQ(service.timers.stats().pending, 2U);
  service.advance(1s);
  EXPECT_EQ(a.fired + b.fired, 2);
  EXPECT_EQ(c.fired, 0);
}

TEST(max_armed, frees_a_place_by_cancel) {
  manual_service service{{.max_armed = 1}};
  probe a{service.timers};
  probe b{service.timers};
  ASSERT_EQ(a.timeout.arm(10ms), 0);
  EXPECT_EQ(b.timeout.arm(10ms), UV_ENOBUFS);
  a.timeout.cancel();
  EXPECT_EQ(b.timeout.arm(10ms), 0);
  service.check();
}

TEST(max_armed, frees_a_place_by_expiry) {
  manual_service service{{.max_armed = 1}};
  probe b{service.timers};
  probe a{service.timers, [&] { EXPECT_EQ(b.timeout.arm(1ms), 0); }};
  ASSERT_EQ(a.timeout.arm(10ms), 0);
  service.advance(20ms);
  EXPECT_EQ(a.fired, 1);
  EXPECT_EQ(b.fired, 1);
}

TEST(max_armed, frees_a_place_by_destruction) {
  manual_service service{{.max_armed = 1}};
  auto a = std::make_unique<probe>(service.timers);
  probe b{service.timers};
  ASSERT_EQ(a->timeout.arm(10ms), 0);
  a.reset();
  EXPECT_EQ(b.timeout.arm(10ms), 0);
}

TEST(max_armed, lets_an_armed_timer_be_moved_at_the_limit) {
  manual_service service{{.max_armed = 1}};
  probe a{service.timers};
  ASSERT_EQ(a.timeout.arm(10ms), 0);
  EXPECT_EQ(a.timeout.arm(5ms), 0);
  EXPECT_EQ(a.timeout.arm(20ms), 0);
  EXPECT_EQ(service.timers.stats().refused, 0U);
  service.advance(21ms);
  EXPECT_EQ(a.fired, 1);
}

TEST(max_armed, of_zero_refuses_every_timer) {
  manual_service service{{.max_armed = 0}};
  probe a{service.timers};
  EXPECT_EQ(a.timeout.arm(10ms), UV_ENOBUFS);
  service.check();
}

TEST(max_armed, counts_timers_that_do_not_hold_the_loop) {
  manual_service service{{.max_armed = 1}};
  probe a{service.timers};
  probe b{service.timers};
  a.timeout.unref();
  ASSERT_EQ(a.timeout.arm(10ms), 0);
  EXPECT_EQ(b.timeout.arm(10ms), UV_ENOBUFS);
}

TEST(a_pass, runs_no_more_callbacks_than_its_work_allows_and_the_rest_follows) {
  manual_service service{{.work_per_pass = 10}};
  std::deque<probe> all;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(1ms), 0);
  service.time.block(2ms);
  std::size_t fired = 0;
  std::size_t turns = 0;
  while (service.turn()) {
    ++turns;
    EXPECT_LE(service.timers.stats().fired - fired, 10U);
    fired = service.timers.stats().fired;
  }
  EXPECT_EQ(fired, 100U);
  EXPECT_GE(turns, 10U);
  EXPECT_GE(service.timers.stats().carried, 9U);
  EXPECT_FALSE(service.time.carrying());
}

TEST(a_pass, of_one_visit_at_a_time_still_gets_everything_done) {
  manual_service service{{.work_per_pass = 1}};
  std::deque<probe> all;
  for (int i = 0; i < 500; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(i * 7ms), 0);
  service.advance(10s);
  for (const probe& p : all) EXPECT_EQ(p.fired, 1);
}

// The clock is looked at after 1, 2 and 4 visits more: by the seventh, 1.4 ms have passed.
TEST(a_pass, that_runs_for_longer_than_its_time_is_cut_and_carried_on) {
  manual_service service{{.time_per_pass = 1ms}};
  std::deque<probe> all;
  for (int i = 0; i < 100; ++i) {
    all.emplace_back(service.timers, [&] { service.time.block(200us); });
    ASSERT_EQ(all.back().timeout.arm(1ms), 0);
  }
  service.time.block(2ms);
  for (std::size_t fired = 7; fired < 100; fired += 7) {
    EXPECT_TRUE(service.turn());
    EXPECT_EQ(service.timers.stats().fired, fired);
    EXPECT_TRUE(service.time.carrying());
  }
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(service.timers.stats().fired, 100U);
  EXPECT_FALSE(service.time.carrying());
  EXPECT_EQ(service.timers.stats().carried, 14U);
}

TEST(a_pass, of_slow_handlers_is_cut_after_the_first) {
  manual_service service{{.time_per_pass = 1ms}};
  std::deque<probe> all;
  for (int i = 0; i < 3; ++i) {
    all.emplace_back(service.timers, [&] { service.time.block(5ms); });
    ASSERT_EQ(all.back().timeout.arm(1ms), 0);
  }
  service.time.block(2ms);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(service.timers.stats().fired, 1U);
}

TEST(a_pass, that_is_quick_is_not_cut) {
  manual_service service;
  std::deque<probe> all;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(1ms), 0);
  service.time.block(2ms);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(service.timers.stats().fired, 1000U);
  EXPECT_EQ(service.timers.stats().carried, 0U);
}

TEST(moves_between_slots, count_as_work_so_that_no_pass_does_more_than_its_bound) {
  // a thousand timers far enough away to sit in coarse slots: emptying those must not crowd a pass
  manual_service service{{.work_per_pass = 20}};
  std::deque<probe> all;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(10min), 0);
  std::size_t fired = 0;
  service.time.block(11min);
  while (service.turn()) {
    EXPECT_LE(service.timers.stats().fired - fired, 20U);
    fired = service.timers.stats().fired;
  }
  EXPECT_EQ(fired, 1000U);
}

TEST(moves_between_slots, of_many_slots_count_together) {
  // a few timers a slot, each slot emptied in one step
  manual_service service{{.work_per_pass = 20}};
  std::deque<probe> all;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(10min + i * 10s), 0);
  std::size_t fired = 0;
  service.time.block(4h);
  while (service.turn()) {
    EXPECT_LE(service.timers.stats().fired - fired, 20U);
    fired = service.timers.stats().fired;
  }
  EXPECT_EQ(fired, 1000U);
}

}  // namespace
