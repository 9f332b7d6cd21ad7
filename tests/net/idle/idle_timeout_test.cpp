// Idle peers on a clock turned by hand.
#include <tickwheel/net/idle_timeout.hpp>

#include "../support/connection.hpp"

namespace {

class idle_timeout : public subject_test<connection> {};

// They were put off without a word to the wheel, which asks when it moves them down.
TEST_F(idle_timeout, touched_crowd_does_not_expire_at_old_deadline) {
  constexpr int count = 5000;
  std::deque<connection> all;
  for (int i = 0; i < count; ++i) all.emplace_back(service.timers);
  for (connection& each : all) ASSERT_EQ(each.timer.start(60s), 0);
  int live = 0;
  tickwheel::callback_timer other{service.timers, [&]() noexcept { ++live; }};
  ASSERT_EQ(other.arm(60s), 0);
  service.time.advance(30s);
  for (connection& each : all) each.timer.touch();
  service.time.advance(30s + tick());
  EXPECT_EQ(live, 1);
  EXPECT_EQ(service.timers.stats().fired, 1U);
  advance(30s);
  for (const connection& each : all) ASSERT_EQ(each.fired, 1);
}

TEST(idle_timeout_at_the_end_of_time, is_started_and_never_due) {
  tickwheel::manual_driver time{tickwheel::clock::time_point::max() - 1s};
  tickwheel::timer_service timers;
  ASSERT_EQ(timers.open(time), 0);
  connection c{timers};
  time.advance(2s);
  EXPECT_EQ(timers.now(), tickwheel::clock::time_point::max());
  EXPECT_EQ(c.timer.start(1ns), 0);
  time.turn();
  EXPECT_TRUE(c.timer.armed());
  EXPECT_EQ(c.fired, 0);
}

TEST_F(idle_timeout, iterations_within_grace_count) {
  reopen({.stall_grace = 10ms});
  ASSERT_EQ(c.timer.start(50ms), 0);
  for (int i = 0; i < 5; ++i) {
    service.time.block(10ms);
    advance(0ns);
  }
  EXPECT_EQ(fired_after(tick()), 1);
}

TEST_F(idle_timeout, silent_peer_gains_no_more_than_all_stalls) {
  reopen({.stall_grace = 10ms});
  const auto begin = service.time.now();
  ASSERT_EQ(c.timer.start(1s), 0);
  for (int i = 0; i < 10; ++i) {
    service.time.block(60ms);
    advance(50ms);
  }
  ASSERT_EQ(fired_after(1s), 1);
  EXPECT_GE(c.at, begin + 1s);
  EXPECT_LE(c.at, begin + 1s + 10 * 50ms + 2 * tick());
}

TEST_F(idle_timeout, endless_grace_counts_on_plain_clock) {
  reopen({.stall_grace = std::chrono::nanoseconds::max()});
  ASSERT_EQ(c.timer.start(50ms), 0);
  service.time.block(51ms);
  EXPECT_EQ(fired_after(0ns), 1);
}

TEST_F(idle_timeout, start_forgets_touch_pause_and_count_of_earlier_use) {
  std::vector<unsigned> notices;
  c.then = [&] {
    notices.push_back(c.timer.consecutive_timeouts());
    if (notices.size() < 2) {
      EXPECT_EQ(c.timer.notify_again(), 0);
    }
  };
  for (int use = 0; use < 3; ++use) {
    notices.clear();
    ASSERT_EQ(c.timer.start(10s), 0);
    EXPECT_EQ(c.timer.consecutive_timeouts(), 0U);
    EXPECT_FALSE(c.timer.paused());
    advance(10s - 1ns);
    EXPECT_EQ(notices, std::vector<unsigned>{});
    advance(1ns + tick());
    EXPECT_EQ(notices, std::vector{1U});
    c.timer.pause();
    advance(5s);
    c.timer.touch();
    if (use == 1) c.timer.cancel();  // handed back, or not: the next start begins anew in any case
    advance(1h);
    EXPECT_EQ(notices, std::vector{1U});
  }
}

TEST_F(idle_timeout, limit_may_change_with_each_start) {
  ASSERT_EQ(c.timer.start(5min), 0);  // waits in the pool
  advance(1min);
  ASSERT_EQ(c.timer.start(10s), 0);  // has a request
  advance(9s);
  c.timer.touch();
  ASSERT_EQ(c.timer.start(5min), 0);  // is back
  EXPECT_EQ(c.timer.limit(), 5min);
  EXPECT_TRUE(fires_in(5min));
}

TEST_F(idle_timeout, start_counts_anew_on_driver_with_earlier_clock) {
  tickwheel::manual_driver late{tickwheel::clock::time_point{100h}};
  tickwheel::manual_driver early{tickwheel::clock::time_point{1h}};
  tickwheel::timer_service timers;
  ASSERT_EQ(timers.open(late), 0);
  connection moved{timers};
  ASSERT_EQ(moved.timer.start(10s), 0);
  late.advance(11s);
  ASSERT_EQ(moved.fired, 1);
  timers.close();
  ASSERT_EQ(timers.open(early), 0);
  ASSERT_EQ(moved.timer.start(10s), 0);
  EXPECT_EQ(moved.timer.consecutive_timeouts(), 0U);
  early.advance(11s);
  EXPECT_EQ(moved.fired, 2);
  EXPECT_EQ(moved.timer.consecutive_timeouts(), 1U);
}

}  // namespace
