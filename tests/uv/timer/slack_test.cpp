// Timers that may be somewhat late, to share a wakeup.
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <random>

using namespace std::chrono_literals;

namespace {

TEST(slack, never_makes_a_timer_early_nor_later_than_what_it_allows) {
  manual_service service;
  std::mt19937 random{7};
  probe p{service.timers};
  for (int i = 0; i < 3000; ++i) {
    const std::chrono::nanoseconds after{random() % 100'000'000};
    const std::chrono::nanoseconds slack{random() % 20'000'000};
    const auto begin = service.time.now();
    ASSERT_EQ(p.timeout.arm(after, slack), 0);
    // when the slack holds no beginning of a tick, the next one has to do
    EXPECT_GE(p.timeout.deadline(), begin + after);
    EXPECT_LT(p.timeout.deadline(), begin + after + std::max(slack, service.tick()) + 1ns);
    service.time.advance(std::chrono::nanoseconds{random() % 30'000'000});
    if (i % 3 == 0) p.timeout.cancel();
  }
  service.check();
}

TEST(slack, of_a_timer_that_fires_is_kept) {
  manual_service service;
  std::mt19937 random{8};
  for (int i = 0; i < 500; ++i) {
    probe p{service.timers};
    const std::chrono::nanoseconds after{random() % 50'000'000};
    const std::chrono::nanoseconds slack{1'000'000 + random() % 20'000'000};
    const auto begin = service.time.now();
    ASSERT_EQ(p.timeout.arm(after, slack), 0);
    service.advance(200ms);
    ASSERT_EQ(p.fired, 1);
    EXPECT_GE(p.at, begin + after);
    EXPECT_LE(p.at, begin + after + slack);
  }
}

std::size_t wakeups_of_a_hundred(std::chrono::nanoseconds slack) {
  manual_service service;
  std::deque<probe> all;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(all.emplace_back(service.timers).timeout.arm(100ms + i * 1ms, slack), 0);
  service.advance(2s);
  for (const probe& p : all) EXPECT_EQ(p.fired, 1);
  return service.time.wakeups();
}

TEST(slack, gathers_timers_with_overlapping_ranges_on_few_wakeups) {
  const std::size_t without = wakeups_of_a_hundred(0ns);
  const std::size_t with = wakeups_of_a_hundred(100ms);
  EXPECT_GE(without, 100U);
  EXPECT_LE(with, 12U);
}

TEST(slack, leaves_a_timer_where_it_is_when_its_deadline_still_suits) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(100ms), 0);
  const auto deadline = p.timeout.deadline();
  service.advance(10ms);
  ASSERT_EQ(p.timeout.arm(85ms, 10ms), 0);
  EXPECT_EQ(p.timeout.deadline(), deadline);
}

TEST(slack, that_is_negative_counts_as_none) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(100ms), 0);
  const auto deadline = p.timeout.deadline();
  ASSERT_EQ(p.timeout.arm(100ms, -1h), 0);
  EXPECT_EQ(p.timeout.deadline(), deadline);
}

TEST(slack, that_is_endless_still_lets_the_timer_come_after_its_delay) {
  manual_service service;
  probe p{service.timers};
  const auto begin = service.time.now();
  ASSERT_EQ(p.timeout.arm(100ms, std::chrono::hours::max()), 0);
  service.check();
  EXPECT_TRUE(p.timeout.armed());
  EXPECT_GE(p.timeout.deadline(), begin + 100ms);
}

TEST(slack, does_not_delay_what_is_due_at_once_beyond_it) {
  manual_service service;
  probe p{service.timers};
  service.advance(3333us);
  ASSERT_EQ(p.timeout.arm(-1s, 2ms), 0);
  service.advance(2ms);
  EXPECT_EQ(p.fired, 1);
}

}  // namespace
