// Idle peers on a clock turned by hand.
#include <tickwheel/net/idle_timeout.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"
#include "../support/connection.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <memory>

using namespace std::chrono_literals;

namespace {

TEST(idle_timeout, comes_when_nothing_was_touched_for_the_limit) {
  manual_service service;
  connection c{service.timers};
  const auto begin = service.time.now();
  ASSERT_EQ(c.idle.start(60s), 0);
  service.advance(60s - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.evicted, 1);
  EXPECT_GE(c.at, begin + 60s);
  EXPECT_FALSE(c.idle.armed());
}

TEST(idle_timeout, comes_once_until_started_again) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  service.advance(1h);
  EXPECT_EQ(c.evicted, 1);
  ASSERT_EQ(c.idle.start(1s), 0);
  service.advance(1h);
  EXPECT_EQ(c.evicted, 2);
}

TEST(idle_timeout, never_comes_while_it_is_touched) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(60s), 0);
  for (int i = 0; i < 1000; ++i) {
    service.time.advance(59s);
    c.idle.touch();
  }
  EXPECT_EQ(c.evicted, 0);
  service.check();
}

// They were put off without a word to the wheel, which asks when it moves them down.
TEST(idle_timeout, touched_crowd_does_not_come_up_at_its_old_deadline) {
  constexpr int count = 5000;
  manual_service service;
  std::deque<connection> all;
  for (int i = 0; i < count; ++i) all.emplace_back(service.timers);
  for (connection& c : all) ASSERT_EQ(c.idle.start(60s), 0);
  int live = 0;
  tickwheel::callback_timer other{service.timers, [&]() noexcept { ++live; }};
  ASSERT_EQ(other.arm(60s), 0);
  service.time.advance(30s);
  for (connection& c : all) c.idle.touch();
  service.time.advance(30s + service.tick());
  EXPECT_EQ(live, 1);
  EXPECT_EQ(service.timers.stats().fired, 1U);
  service.advance(30s);
  for (const connection& c : all) ASSERT_EQ(c.evicted, 1);
}

TEST(idle_timeout, counts_from_the_last_touch) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(60s), 0);
  service.advance(20s);
  c.idle.touch();
  service.advance(30s);
  c.idle.touch();
  const auto touched = service.time.now();
  service.advance(60s - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.evicted, 1);
  EXPECT_GE(c.at, touched + 60s);
}

TEST(idle_timeout, is_kept_by_a_touch_at_the_last_moment) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(60s), 0);
  service.advance(60s - 1ns);
  c.idle.touch();
  service.advance(60s - 1ns);
  EXPECT_EQ(c.evicted, 0);
}

TEST(idle_timeout, wakes_the_loop_about_once_a_limit_however_often_it_is_touched) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(60s), 0);
  for (int i = 0; i < 60'000; ++i) {
    service.time.advance(10ms);
    c.idle.touch();
  }
  EXPECT_LE(service.time.wakeups(), 60U);  // 600 s: ten limits, with the few steps each that a far timer takes
}

TEST(idle_timeout, cancelled_does_not_come) {
  manual_service service;
  connection c{service.timers};
  EXPECT_FALSE(c.idle.cancel());
  ASSERT_EQ(c.idle.start(1s), 0);
  EXPECT_TRUE(c.idle.cancel());
  EXPECT_FALSE(c.idle.cancel());
  EXPECT_FALSE(c.idle.armed());
  service.advance(1h);
  EXPECT_EQ(c.evicted, 0);
}

TEST(idle_timeout, that_is_not_started_is_not_started_by_a_touch) {
  manual_service service;
  connection c{service.timers};
  c.idle.touch();
  EXPECT_FALSE(c.idle.armed());
  service.advance(1h);
  EXPECT_EQ(c.evicted, 0);
}

TEST(idle_timeout, that_was_cancelled_is_not_started_by_a_touch) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  c.idle.cancel();
  c.idle.touch();
  service.advance(1h);
  EXPECT_EQ(c.evicted, 0);
}

TEST(idle_timeout, counts_anew_when_a_pooled_connection_is_used_again) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(60s), 0);
  service.advance(59s);
  ASSERT_EQ(c.idle.start(60s), 0);
  service.advance(60s - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ms);
  EXPECT_EQ(c.evicted, 1);
}

TEST(idle_timeout, in_a_pool_does_not_remember_touches_of_an_earlier_use) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(60s), 0);
  c.idle.cancel();
  service.advance(1h);
  c.idle.touch();
  service.advance(1h);
  ASSERT_EQ(c.idle.start(60s), 0);
  service.advance(59s);
  EXPECT_EQ(c.evicted, 0);
  service.advance(2s);
  EXPECT_EQ(c.evicted, 1);
}

TEST(idle_timeout, started_again_with_a_shorter_limit_comes_after_that) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(1h), 0);
  ASSERT_EQ(c.idle.start(1s), 0);
  EXPECT_EQ(c.idle.limit(), 1s);
  service.advance(1s + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(idle_timeout, started_again_with_a_longer_limit_comes_after_that) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  ASSERT_EQ(c.idle.start(1h), 0);
  service.advance(1h - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1s);
  EXPECT_EQ(c.evicted, 1);
}

TEST(idle_timeout, with_a_limit_of_zero_or_less_is_refused) {
  manual_service service;
  connection c{service.timers};
  EXPECT_EQ(c.idle.start(0s), UV_EINVAL);
  EXPECT_EQ(c.idle.start(-1ns), UV_EINVAL);
  EXPECT_EQ(c.idle.start(std::chrono::duration<double>{std::nan("")}), UV_EINVAL);
  EXPECT_STREQ(tickwheel::idle_limit{0s}.problem(), "idle_limit: limit is not positive");
  EXPECT_FALSE(c.idle.armed());
}

TEST(idle_timeout, refused_keeps_its_earlier_limit) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(60s), 0);
  EXPECT_EQ(c.idle.start(0s), UV_EINVAL);
  EXPECT_EQ(c.idle.limit(), 60s);
  service.advance(60s - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1s);
  EXPECT_EQ(c.evicted, 1);
}

TEST(idle_timeout, with_the_longest_limit_stays_armed) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(std::chrono::hours::max()), 0);
  service.advance(24h * 365 * 100);
  c.idle.touch();
  service.advance(24h * 365 * 100);
  EXPECT_TRUE(c.idle.armed());
  EXPECT_EQ(c.evicted, 0);
}

TEST(idle_timeout, may_be_destroyed_with_its_owner_in_its_handler) {
  manual_service service;
  auto c = std::make_unique<connection>(service.timers);
  c->then = [&] { c.reset(); };
  ASSERT_EQ(c->idle.start(1s), 0);
  service.advance(1h);
  EXPECT_EQ(c, nullptr);
  EXPECT_EQ(service.timers.stats().fired, 1U);
}

TEST(idle_timeout, may_be_started_again_in_its_handler) {
  manual_service service;
  connection c{service.timers};
  c.then = [&] { EXPECT_EQ(c.idle.start(1s), 0); };
  ASSERT_EQ(c.idle.start(1s), 0);
  service.advance(10s + 10 * service.tick());
  EXPECT_EQ(c.evicted, 10);
}

TEST(idle_timeout, may_close_the_service_in_its_handler) {
  manual_service service;
  connection c{service.timers, [&] { service.timers.close(); }};
  connection other{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  ASSERT_EQ(other.idle.start(2s), 0);
  service.time.advance(1h);
  EXPECT_EQ(c.evicted, 1);
  EXPECT_EQ(other.evicted, 0);
  EXPECT_EQ(other.idle.start(1s), UV_ECANCELED);
}

TEST(idle_timeout, may_be_touched_by_the_handler_of_another_in_the_same_pass) {
  for (const bool first : {false, true}) {
    manual_service service;
    connection a{service.timers};
    connection b{service.timers};
    a.then = [&] { b.idle.touch(); };
    b.then = [&] { a.idle.touch(); };
    ASSERT_EQ((first ? a : b).idle.start(1s), 0);
    ASSERT_EQ((first ? b : a).idle.start(1s), 0);
    service.advance(1s + service.tick());
    EXPECT_EQ(a.evicted + b.evicted, 1) << "whichever came first touched the other";
    service.advance(1s + service.tick());
    EXPECT_EQ(a.evicted + b.evicted, 2);
  }
}

TEST(idle_timeout, is_refused_at_the_limit_of_armed_timers_and_once_the_service_is_closed) {
  manual_service service{{.max_armed = 1}};
  connection a{service.timers};
  connection b{service.timers};
  ASSERT_EQ(a.idle.start(1s), 0);
  EXPECT_EQ(b.idle.start(1s), UV_ENOBUFS);
  EXPECT_FALSE(b.idle.armed());
  EXPECT_EQ(a.idle.start(2s), 0);
  service.timers.close();
  EXPECT_EQ(a.idle.start(1s), UV_ECANCELED);
}

TEST(idle_timeout, keeps_its_place_at_the_limit_of_armed_timers_while_it_waits_for_the_rest) {
  manual_service service{{.max_armed = 1}};
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  for (int i = 0; i < 10; ++i) {
    service.advance(900ms);
    c.idle.touch();
  }
  service.advance(2s);
  EXPECT_EQ(c.evicted, 1);
}

TEST(idle_timeout, does_not_hold_the_loop_when_it_is_told_so) {
  manual_service service;
  connection c{service.timers};
  c.idle.unref();
  ASSERT_EQ(c.idle.start(1s), 0);
  EXPECT_FALSE(service.time.alive());
  service.advance(900ms);
  c.idle.touch();
  service.advance(900ms);  // the visit that waits for the rest must not take a reference
  EXPECT_FALSE(service.time.alive());
  c.idle.ref();
  EXPECT_TRUE(service.time.alive());
  service.advance(1s);
  EXPECT_EQ(c.evicted, 1);
  EXPECT_FALSE(service.time.alive());
}

TEST(idle_timeout, does_not_charge_the_peer_with_a_stall_beyond_the_grace) {
  manual_service service{{.stall_grace = 10ms}};
  connection c{service.timers};
  const auto begin = service.time.now();
  ASSERT_EQ(c.idle.start(50ms), 0);
  service.time.block(100ms);  // 90 ms of it are ours
  service.advance(39ms);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ms + 2 * service.tick());
  EXPECT_EQ(c.evicted, 1);
  EXPECT_LE(c.at, begin + 50ms + 90ms + 2 * service.tick());
}

TEST(idle_timeout, charges_the_peer_with_an_iteration_at_or_below_the_grace) {
  manual_service service{{.stall_grace = 10ms}};
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(50ms), 0);
  for (int i = 0; i < 5; ++i) {
    service.time.block(10ms);
    service.advance(0ns);
  }
  service.advance(service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(idle_timeout, evicts_a_silent_peer_later_by_no_more_than_all_stalls_together) {
  manual_service service{{.stall_grace = 10ms}};
  connection c{service.timers};
  const auto begin = service.time.now();
  ASSERT_EQ(c.idle.start(1s), 0);
  for (int i = 0; i < 10; ++i) {
    service.time.block(60ms);
    service.advance(50ms);
  }
  service.advance(1s);
  ASSERT_EQ(c.evicted, 1);
  EXPECT_GE(c.at, begin + 1s);
  EXPECT_LE(c.at, begin + 1s + 10 * 50ms + 2 * service.tick());
}

TEST(idle_timeout, does_not_charge_the_peer_with_a_stall_in_a_handler_of_the_same_pass) {
  manual_service service{{.stall_grace = 10ms}};
  connection c{service.timers};
  probe blocker{service.timers, [&] { service.time.block(200ms); }};
  ASSERT_EQ(c.idle.start(50ms), 0);
  ASSERT_EQ(blocker.timeout.arm(20ms), 0);
  service.advance(30ms);
  EXPECT_EQ(c.evicted, 0);
  service.advance(50ms);
  EXPECT_EQ(c.evicted, 1);
}

TEST(idle_timeout, counts_on_the_plain_clock_when_the_grace_is_endless) {
  manual_service service{{.stall_grace = std::chrono::nanoseconds::max()}};
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(50ms), 0);
  service.time.block(51ms);
  service.advance(0ns);
  EXPECT_EQ(c.evicted, 1);
}

TEST(idle_timeout, of_ten_thousand_connections_evicts_the_silent_half) {
  manual_service service;
  std::deque<connection> all;
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(all.emplace_back(service.timers).idle.start(60s), 0);
  for (int second = 0; second < 70; ++second) {
    for (std::size_t i = 0; i < all.size(); i += 2) all[i].idle.touch();
    service.time.advance(1s);
  }
  service.check();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i].evicted, static_cast<int>(i % 2)) << i;
}

TEST(idle_timeout, allocates_nothing) {
  manual_service service;
  connection c{service.timers};
  const auto before = allocations::count();
  for (int i = 0; i < 1000; ++i) {
    (void)c.idle.start(50ms);
    c.idle.touch();
    service.time.advance(20ms);
    c.idle.touch();
    service.time.advance(40ms);
    if (i % 5 == 0) c.idle.cancel();
    service.time.advance(40ms);
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_EQ(c.evicted, 800);
}

TEST(idle_timeout, can_be_destroyed_and_cancelled_and_asked_after_its_service) {
  tickwheel::manual_driver time;
  auto timers = std::make_unique<tickwheel::timer_service>();
  ASSERT_EQ(timers->open(time), 0);
  connection c{*timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  timers.reset();
  EXPECT_FALSE(c.idle.armed());
  EXPECT_FALSE(c.idle.cancel());
}

TEST(idle_timeout, may_be_touched_once_its_service_is_closed) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  service.timers.close();
  c.idle.touch();
  EXPECT_FALSE(c.idle.armed());
  ASSERT_EQ(service.timers.open(service.time), 0);
  ASSERT_EQ(c.idle.start(1s), 0);
  service.advance(2s);
  EXPECT_EQ(c.evicted, 1);
}

struct session {
  void may_throw() {}
  void on_idle() noexcept {}
};
template <auto Member>
concept makes_an_idle_timeout = requires {
  sizeof(tickwheel::idle_timeout<Member>);
};
static_assert(makes_an_idle_timeout<&session::on_idle>);
static_assert(!makes_an_idle_timeout<&session::may_throw>);

}  // namespace
