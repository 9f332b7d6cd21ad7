// Limits that scale with load: what they are, and what timers do that were started with one.
#include <tickwheel/net/idle_limit.hpp>

#include "../../uv/support/probe.hpp"
#include "../support/connection.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <limits>

using namespace std::chrono_literals;
using tickwheel::idle_limit;
using tickwheel::load_factor;

namespace {

using std::chrono::nanoseconds;

TEST(idle_limit, that_is_a_duration_is_the_same_at_any_load) {
  const idle_limit limit = 60s;
  EXPECT_EQ(limit.now(), 60s);
  EXPECT_FALSE(limit.is_scaled());
  EXPECT_EQ(limit.problem(), nullptr);
}

TEST(idle_limit, that_is_scaled_goes_from_its_maximum_to_its_minimum_as_the_load_goes_from_0_to_1) {
  load_factor load;
  const idle_limit limit = idle_limit::scaled(10s, 50s, load);
  EXPECT_EQ(limit.now(), 50s);
  ASSERT_EQ(load.set(0.25), 0);
  EXPECT_EQ(limit.now(), 40s);
  ASSERT_EQ(load.set(0.5), 0);
  EXPECT_EQ(limit.now(), 30s);
  ASSERT_EQ(load.set(1), 0);
  EXPECT_EQ(limit.now(), 10s);
}

TEST(idle_limit, that_is_scaled_over_the_longest_range_stays_within_it) {
  load_factor load;
  const idle_limit limit = idle_limit::scaled(1ns, nanoseconds::max(), load);
  EXPECT_EQ(limit.problem(), nullptr);
  for (const double each : {0.0, std::numeric_limits<double>::denorm_min(), 1e-17, 0.5, 1 - 1e-16, 1.0}) {
    ASSERT_EQ(load.set(each), 0);
    EXPECT_GE(limit.now(), 1ns) << each;
  }
  ASSERT_EQ(load.set(0), 0);
  EXPECT_EQ(limit.now(), nanoseconds::max());
  ASSERT_EQ(load.set(1), 0);
  EXPECT_EQ(limit.now(), 1ns);
}

TEST(idle_limit, that_cannot_be_names_its_field) {
  const load_factor load;
  EXPECT_STREQ(idle_limit{0s}.problem(), "idle_limit: limit is not positive");
  EXPECT_STREQ(idle_limit{-1h}.problem(), "idle_limit: limit is not positive");
  EXPECT_STREQ(idle_limit::scaled(0s, 1s, load).problem(), "idle_limit: minimum is not positive");
  EXPECT_STREQ(idle_limit::scaled(-1s, 1s, load).problem(), "idle_limit: minimum is not positive");
  EXPECT_STREQ(idle_limit::scaled(2s, 1s, load).problem(), "idle_limit: maximum is below the minimum");
  EXPECT_EQ(idle_limit::scaled(1s, 1s, load).problem(), nullptr);
}

TEST(a_scaled_timeout, is_refused_when_its_limit_cannot_be) {
  manual_service service;
  const load_factor load;
  connection c{service.timers};
  EXPECT_EQ(c.idle.start(idle_limit::scaled(0s, 1s, load)), UV_EINVAL);
  EXPECT_EQ(c.idle.start(idle_limit::scaled(2s, 1s, load)), UV_EINVAL);
  EXPECT_FALSE(c.idle.armed());
}

TEST(a_scaled_timeout, comes_after_the_limit_of_the_load) {
  for (const auto& [part, limit] : {std::pair{0.0, 50s}, {0.25, 40s}, {0.5, 30s}, {1.0, 10s}}) {
    manual_service service;
    load_factor load;
    ASSERT_EQ(load.set(part), 0);
    connection c{service.timers};
    ASSERT_EQ(c.idle.start(idle_limit::scaled(10s, 50s, load)), 0);
    EXPECT_EQ(c.idle.limit(), limit);
    service.advance(limit - 1ns);
    EXPECT_EQ(c.evicted, 0) << part;
    service.advance(1ns + service.tick());
    EXPECT_EQ(c.evicted, 1) << part;
  }
}

TEST(a_scaled_timeout, that_is_armed_follows_a_rising_load_when_it_comes_up_next) {
  manual_service service;
  load_factor load;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(idle_limit::scaled(10s, 5min, load)), 0);
  service.advance(95s);
  ASSERT_EQ(load.set(1), 0);
  EXPECT_EQ(c.evicted, 0);
  service.advance(5s + 10 * service.tick());  // it comes up each minimum, a tick late at most
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_scaled_timeout, that_was_touched_is_looked_at_a_minimum_after_that) {
  manual_service service;
  load_factor load;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(idle_limit::scaled(10s, 5min, load)), 0);
  service.advance(5s);
  c.idle.touch();
  service.advance(7s);  // it has come up at 10 s, with half of the minimum left
  ASSERT_EQ(load.set(1), 0);
  service.advance(3s - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_scaled_timeout, that_is_armed_follows_a_falling_load_at_once) {
  manual_service service;
  load_factor load;
  ASSERT_EQ(load.set(1), 0);
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(idle_limit::scaled(10s, 5min, load)), 0);
  service.advance(10s - 1ns);
  ASSERT_EQ(load.set(0), 0);
  service.advance(290s);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_scaled_timeout, is_never_early_and_at_most_a_minimum_late_whatever_the_load_does) {
  manual_service service;
  load_factor load;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(idle_limit::scaled(10s, 50s, load)), 0);
  const auto begin = service.time.now();
  nanoseconds shortest = 50s;  // of the limits there were since it is silent
  for (int second = 0; c.evicted == 0; ++second) {
    ASSERT_EQ(load.set((second * 37 % 100) / 100.0), 0);
    shortest = std::min(shortest, c.idle.limit());
    service.advance(1s);
    ASSERT_LE(second, 60);
  }
  EXPECT_GE(c.at, begin + shortest);
  EXPECT_LE(c.at, begin + 50s + service.tick());
}

TEST(a_scaled_timeout, counts_from_the_last_touch) {
  manual_service service;
  load_factor load;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(idle_limit::scaled(10s, 50s, load)), 0);
  for (int i = 0; i < 100; ++i) {
    service.advance(9s);
    c.idle.touch();
  }
  ASSERT_EQ(load.set(1), 0);
  service.advance(10s - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_scaled_timeout, wakes_the_loop_about_once_a_minimum) {
  manual_service service;
  const load_factor load;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(idle_limit::scaled(60s, 1h, load)), 0);
  service.advance(600s);
  EXPECT_LE(service.time.wakeups(), 60U);  // ten minima, with the few steps each that a far timer takes
}

TEST(a_scaled_timeout, that_notices_again_does_so_after_the_limit_of_the_load) {
  manual_service service;
  load_factor load;
  connection c{service.timers};
  c.then = [&] { EXPECT_EQ(c.idle.notify_again(), 0); };
  ASSERT_EQ(load.set(1), 0);
  ASSERT_EQ(c.idle.start(idle_limit::scaled(10s, 50s, load)), 0);
  service.advance(10s + service.tick());
  EXPECT_EQ(c.evicted, 1);
  ASSERT_EQ(load.set(0), 0);
  service.advance(50s - 2 * service.tick());
  EXPECT_EQ(c.evicted, 1);
  service.advance(4 * service.tick());
  EXPECT_EQ(c.evicted, 2);
}

TEST(a_scaled_timeout, that_is_paused_has_left_what_it_had_left_at_the_load_after) {
  manual_service service;
  load_factor load;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(idle_limit::scaled(10s, 50s, load)), 0);
  service.advance(8s);
  c.idle.pause();
  service.advance(1h);
  ASSERT_EQ(load.set(0.5), 0);
  c.idle.resume();
  service.advance(22s - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_scaled_timeout, started_with_a_duration_scales_no_more) {
  manual_service service;
  connection c{service.timers};
  {
    const load_factor load;
    ASSERT_EQ(c.idle.start(idle_limit::scaled(1s, 1h, load)), 0);
    ASSERT_EQ(c.idle.start(10s), 0);
  }
  service.advance(10s - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_load_factor, of_many_connections_is_set_once_for_all) {
  manual_service service;
  load_factor load;
  std::deque<connection> all;
  for (int i = 0; i < 10'000; ++i)
    ASSERT_EQ(all.emplace_back(service.timers).idle.start(idle_limit::scaled(10s, 5min, load)), 0);
  for (int second = 0; second < 60; ++second) {
    service.time.advance(1s);
    for (std::size_t i = 0; i < all.size(); i += 2) all[i].idle.touch();
  }
  for (const connection& c : all) ASSERT_EQ(c.evicted, 0);
  ASSERT_EQ(load.set(1), 0);
  for (int second = 0; second < 10; ++second) {
    service.time.advance(1s);
    for (std::size_t i = 0; i < all.size(); i += 2) all[i].idle.touch();
  }
  service.advance(100 * service.tick());  // ten thousand are more than a pass may do
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i].evicted, static_cast<int>(i % 2)) << i;
}

TEST(a_scaled_limit, counts_from_the_call_that_starts_it_and_not_from_the_beginning_of_the_iteration) {
  manual_service service{{.stall_grace = 1s}};
  tickwheel::load_factor load;
  connection c{service.timers};
  tickwheel::clock::time_point started{};
  const auto start_late = [&]() noexcept {
    service.timers.now();       // the iteration has its stamp
    service.time.block(100ms);  // and a handler takes its time
    EXPECT_EQ(c.idle.start(idle_limit::scaled(10ms, 50ms, load)), 0);
    started = service.time.now();
  };
  tickwheel::callback_timer handler{service.timers, start_late};
  ASSERT_EQ(handler.arm(5ms), 0);
  service.advance(1s);
  ASSERT_EQ(c.evicted, 1);
  EXPECT_GE(c.at, started + 50ms);
}

TEST(a_pause, that_ends_at_once_does_not_bring_the_verdict_forward) {
  manual_service service;
  connection c{service.timers};
  tickwheel::clock::time_point started{};
  const auto start_late = [&]() noexcept {
    service.timers.now();
    service.time.block(9ms);
    EXPECT_EQ(c.idle.start(20ms), 0);
    c.idle.pause();
    c.idle.resume();
    started = service.time.now();
  };
  tickwheel::callback_timer handler{service.timers, start_late};
  ASSERT_EQ(handler.arm(5ms), 0);
  service.advance(1s);
  ASSERT_EQ(c.evicted, 1);
  EXPECT_GE(c.at, started + 20ms);
}

}  // namespace
