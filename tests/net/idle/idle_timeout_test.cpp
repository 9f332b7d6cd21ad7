// Idle peers on a clock turned by hand.
#include <tickwheel/net/idle_timeout.hpp>

#include "../../support/allocation_probe.hpp"
#include "../support/connection.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <vector>

using namespace std::chrono_literals;

namespace {

class idle_timeout : public subject_test<connection> {};

TEST_F(idle_timeout, does_not_expire_while_touched) {
  ASSERT_EQ(c.timer.start(60s), 0);
  for (int i = 0; i < 1000; ++i) {
    service.time.advance(59s);
    c.timer.touch();
  }
  EXPECT_EQ(c.fired, 0);
  service.check();
}

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

TEST_F(idle_timeout, counts_from_last_touch) {
  ASSERT_EQ(c.timer.start(60s), 0);
  advance(20s);
  c.timer.touch();
  advance(30s);
  c.timer.touch();
  const auto touched = service.time.now();
  EXPECT_TRUE(fires_in(60s));
  EXPECT_GE(c.at, touched + 60s);
}

TEST_F(idle_timeout, touch_at_last_moment_keeps_peer) {
  ASSERT_EQ(c.timer.start(60s), 0);
  advance(60s - 1ns);
  c.timer.touch();
  EXPECT_EQ(fired_after(60s - 1ns), 0);
}

TEST_F(idle_timeout, wakes_loop_about_once_per_limit_however_often_touched) {
  ASSERT_EQ(c.timer.start(60s), 0);
  for (int i = 0; i < 60'000; ++i) {
    service.time.advance(10ms);
    c.timer.touch();
  }
  EXPECT_LE(service.time.wakeups(), 60U);  // 600 s: ten limits, with the few steps each that a far timer takes
}

TEST_F(idle_timeout, touch_does_not_start_it) {
  c.timer.touch();
  EXPECT_FALSE(c.timer.armed());
  EXPECT_EQ(fired_after(1h), 0);
}

TEST_F(idle_timeout, touch_after_cancel_does_not_start_it) {
  ASSERT_EQ(c.timer.start(1s), 0);
  c.timer.cancel();
  c.timer.touch();
  EXPECT_EQ(fired_after(1h), 0);
}

TEST_F(idle_timeout, start_of_started_one_counts_anew) {
  ASSERT_EQ(c.timer.start(60s), 0);
  advance(59s);
  ASSERT_EQ(c.timer.start(60s), 0);
  EXPECT_EQ(fired_after(60s - 1ns), 0);
  EXPECT_EQ(fired_after(1ms), 1);
}

TEST_F(idle_timeout, start_forgets_touches_of_earlier_use) {
  ASSERT_EQ(c.timer.start(60s), 0);
  c.timer.cancel();
  advance(1h);
  c.timer.touch();
  advance(1h);
  ASSERT_EQ(c.timer.start(60s), 0);
  EXPECT_EQ(fired_after(59s), 0);
  EXPECT_EQ(fired_after(2s), 1);
}

TEST_F(idle_timeout, limit_is_that_of_last_start) {
  ASSERT_EQ(c.timer.start(1h), 0);
  ASSERT_EQ(c.timer.start(1s), 0);
  EXPECT_EQ(c.timer.limit(), 1s);
  EXPECT_EQ(fired_after(1s + tick()), 1);
}

TEST_F(idle_timeout, limit_of_zero_or_less_is_refused) {
  EXPECT_EQ(c.timer.start(0s), UV_EINVAL);
  EXPECT_EQ(c.timer.start(-1ns), UV_EINVAL);
  EXPECT_EQ(c.timer.start(std::chrono::duration<double>{std::nan("")}), UV_EINVAL);
  EXPECT_STREQ(tickwheel::idle_limit{0s}.problem(), "idle_limit: limit is not positive");
  EXPECT_FALSE(c.timer.armed());
}

TEST_F(idle_timeout, refused_start_keeps_earlier_limit) {
  ASSERT_EQ(c.timer.start(60s), 0);
  EXPECT_EQ(c.timer.start(0s), UV_EINVAL);
  EXPECT_EQ(c.timer.limit(), 60s);
  EXPECT_EQ(fired_after(60s - 1ns), 0);
  EXPECT_EQ(fired_after(1s), 1);
}

TEST_F(idle_timeout, longest_limit_never_expires) {
  ASSERT_EQ(c.timer.start(std::chrono::hours::max()), 0);
  advance(24h * 365 * 100);
  c.timer.touch();
  advance(24h * 365 * 100);
  EXPECT_TRUE(c.timer.armed());
  EXPECT_EQ(c.fired, 0);
}

TEST_F(idle_timeout, touch_by_handler_of_same_pass_counts) {
  for (const bool first : {false, true}) {
    connection a{service.timers}, b{service.timers};
    a.then = [&] { b.timer.touch(); };
    b.then = [&] { a.timer.touch(); };
    ASSERT_EQ((first ? a : b).timer.start(1s), 0);
    ASSERT_EQ((first ? b : a).timer.start(1s), 0);
    advance(1s + tick());
    EXPECT_EQ(a.fired + b.fired, 1) << "whichever came first touched the other";
    advance(1s + tick());
    EXPECT_EQ(a.fired + b.fired, 2);
  }
}

TEST_F(idle_timeout, keeps_its_place_among_max_armed_when_touched) {
  reopen({.max_armed = 1});
  ASSERT_EQ(c.timer.start(1s), 0);
  for (int i = 0; i < 10; ++i) {
    advance(900ms);
    c.timer.touch();
  }
  EXPECT_EQ(fired_after(2s), 1);
}

TEST_F(idle_timeout, waiting_for_rest_of_limit_takes_no_reference) {
  c.timer.unref();
  ASSERT_EQ(c.timer.start(1s), 0);
  EXPECT_FALSE(service.time.alive());
  advance(900ms);
  c.timer.touch();
  advance(900ms);  // the visit that waits for the rest must not take a reference
  EXPECT_FALSE(service.time.alive());
  c.timer.ref();
  EXPECT_TRUE(service.time.alive());
  EXPECT_EQ(fired_after(1s), 1);
  EXPECT_FALSE(service.time.alive());
}

TEST_F(idle_timeout, stall_beyond_grace_does_not_count) {
  reopen({.stall_grace = 10ms});
  const auto begin = service.time.now();
  ASSERT_EQ(c.timer.start(50ms), 0);
  service.time.block(100ms);  // 90 ms of it are ours
  EXPECT_EQ(fired_after(39ms), 0);
  EXPECT_EQ(fired_after(1ms + 2 * tick()), 1);
  EXPECT_LE(c.at, begin + 50ms + 90ms + 2 * tick());
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

TEST_F(idle_timeout, stall_in_handler_of_same_pass_does_not_count) {
  reopen({.stall_grace = 10ms});
  probe blocker{service.timers, [&] { service.time.block(200ms); }};
  ASSERT_EQ(c.timer.start(50ms), 0);
  ASSERT_EQ(blocker.timeout.arm(20ms), 0);
  EXPECT_EQ(fired_after(30ms), 0);
  EXPECT_EQ(fired_after(50ms), 1);
}

TEST_F(idle_timeout, endless_grace_counts_on_plain_clock) {
  reopen({.stall_grace = std::chrono::nanoseconds::max()});
  ASSERT_EQ(c.timer.start(50ms), 0);
  service.time.block(51ms);
  EXPECT_EQ(fired_after(0ns), 1);
}

TEST_F(idle_timeout, silent_half_of_ten_thousand_expires) {
  std::deque<connection> all;
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(all.emplace_back(service.timers).timer.start(60s), 0);
  for (int second = 0; second < 70; ++second) {
    for (std::size_t i = 0; i < all.size(); i += 2) all[i].timer.touch();
    service.time.advance(1s);
  }
  service.check();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i].fired, static_cast<int>(i % 2)) << i;
}

TEST_F(idle_timeout, touching_allocates_nothing) {
  const auto before = allocations::count();
  for (int i = 0; i < 1000; ++i) {
    (void)c.timer.start(50ms);
    c.timer.touch();
    service.time.advance(20ms);
    c.timer.touch();
    service.time.advance(40ms);
    if (i % 5 == 0) c.timer.cancel();
    service.time.advance(40ms);
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_EQ(c.fired, 800);
}

TEST_F(idle_timeout, touch_after_close_has_no_effect) {
  ASSERT_EQ(c.timer.start(1s), 0);
  service.timers.close();
  c.timer.touch();
  EXPECT_FALSE(c.timer.armed());
  ASSERT_EQ(service.timers.open(service.time), 0);
  ASSERT_EQ(c.timer.start(1s), 0);
  EXPECT_EQ(fired_after(2s), 1);
}

TEST_F(idle_timeout, touch_after_late_start_counts_from_start) {
  reopen({.stall_grace = 10ms});
  service.timers.now();  // the time of the iteration, 8 ms before the start
  service.time.block(8ms);
  ASSERT_EQ(c.timer.start(100ms), 0);
  c.timer.touch();
  EXPECT_EQ(fired_after(100ms - 1ns), 0);
  EXPECT_EQ(fired_after(2 * tick()), 1);
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
