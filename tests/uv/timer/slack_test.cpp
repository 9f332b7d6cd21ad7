// Timers that may be somewhat late, to share a wakeup.
#include "../support/probe.hpp"

namespace {

using slack = manual_test;

TEST_F(slack, deadline_is_within_slack) {
  std::mt19937 random{7};
  for (int i = 0; i < 3000; ++i) {
    const std::chrono::nanoseconds after{random() % 100'000'000};
    const std::chrono::nanoseconds allowed{random() % 20'000'000};
    const auto begin = service.time.now();
    p.arm(after, allowed);
    // when the slack holds no beginning of a tick, the next one has to do
    EXPECT_GE(p.timeout.deadline(), begin + after);
    EXPECT_LT(p.timeout.deadline(), begin + after + std::max(allowed, service.tick()) + 1ns);
    service.time.advance(std::chrono::nanoseconds{random() % 30'000'000});
    if (i % 3 == 0) p.timeout.cancel();
  }
  service.check();
}

TEST_F(slack, timer_fires_within_slack) {
  std::mt19937 random{8};
  for (int i = 0; i < 500; ++i) {
    probe own{timers};
    const std::chrono::nanoseconds after{random() % 50'000'000};
    const std::chrono::nanoseconds allowed{1'000'000 + random() % 20'000'000};
    const auto begin = service.time.now();
    own.arm(after, allowed);
    service.advance(200ms);
    ASSERT_EQ(own.fired, 1);
    EXPECT_GE(own.at, begin + after);
    EXPECT_LE(own.at, begin + after + allowed);
  }
}

std::size_t wakeups_of_a_hundred(std::chrono::nanoseconds allowed) {
  manual_service service;
  std::deque<probe> all;
  for (int i = 0; i < 100; ++i) all.emplace_back(service.timers).arm(100ms + i * 1ms, allowed);
  service.advance(2s);
  for (const probe& each : all) EXPECT_EQ(each.fired, 1);
  return service.time.wakeups();
}

TEST_F(slack, overlapping_ranges_share_wakeups) {
  const std::size_t without = wakeups_of_a_hundred(0ns);
  const std::size_t with = wakeups_of_a_hundred(100ms);
  EXPECT_GE(without, 100U);
  EXPECT_LE(with, 12U);
}

TEST_F(slack, timer_stays_if_its_deadline_still_fits) {
  p.arm(100ms);
  const auto deadline = p.timeout.deadline();
  service.advance(10ms);
  p.arm(85ms, 10ms);
  EXPECT_EQ(p.timeout.deadline(), deadline);
}

TEST_F(slack, negative_slack_is_none) {
  p.arm(100ms);
  const auto deadline = p.timeout.deadline();
  p.arm(100ms, -1h);
  EXPECT_EQ(p.timeout.deadline(), deadline);
}

TEST_F(slack, endless_slack_is_not_early) {
  const auto begin = service.time.now();
  p.arm(100ms, std::chrono::hours::max());
  service.check();
  EXPECT_TRUE(p.timeout.armed());
  EXPECT_GE(p.timeout.deadline(), begin + 100ms);
}

TEST_F(slack, negative_delay_is_due_within_slack) {
  service.advance(3333us);
  p.arm(-1s, 2ms);
  service.advance(2ms);
  EXPECT_EQ(p.fired, 1);
}

}  // namespace
