// Limits that scale with load: what they are, and what timers do that were started with one.
#include <tickwheel/net/idle_limit.hpp>

#include "../support/connection.hpp"

#include <cmath>

using tickwheel::idle_limit;
using tickwheel::load_factor;

namespace {

using std::chrono::nanoseconds;

TEST(load_factor, is_zero_at_first) { EXPECT_EQ(load_factor{}.get(), 0.0); }

TEST(load_factor, keeps_last_value) {
  load_factor load;
  for (const double each : {1.0, 0.25, 0.0, 0.75}) {
    EXPECT_EQ(load.set(each), 0);
    EXPECT_EQ(load.get(), each);
  }
}

TEST(load_factor, value_outside_0_to_1_is_refused_and_named) {
  using limits = std::numeric_limits<double>;
  load_factor load;
  ASSERT_EQ(load.set(0.5), 0);
  for (const double each : {-limits::denorm_min(), -1.0, 1 + limits::epsilon(), 2.0, limits::infinity(),
                            -limits::infinity(), std::nan("")}) {
    EXPECT_EQ(load.set(each), UV_EINVAL) << each;
    EXPECT_STREQ(load_factor::problem(each), "load_factor: load is not within 0..1");
    EXPECT_EQ(load.get(), 0.5);
  }
  EXPECT_EQ(load_factor::problem(0), nullptr);
  EXPECT_EQ(load_factor::problem(1), nullptr);
}

TEST(idle_limit, duration_is_same_at_any_load) {
  const idle_limit limit = 60s;
  EXPECT_EQ(limit.now(), 60s);
  EXPECT_FALSE(limit.is_scaled());
  EXPECT_EQ(limit.problem(), nullptr);
  EXPECT_EQ(idle_limit{std::chrono::hours::max()}.now(), nanoseconds::max());
}

TEST(idle_limit, scaled_over_longest_range_stays_within_it) {
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

TEST(idle_limit, problem_names_invalid_field) {
  const load_factor load;
  EXPECT_STREQ(idle_limit{0s}.problem(), "idle_limit: limit is not positive");
  EXPECT_STREQ(idle_limit{-1h}.problem(), "idle_limit: limit is not positive");
  EXPECT_STREQ(idle_limit{std::chrono::duration<double>{std::nan("")}}.problem(), "idle_limit: limit is not positive");
  EXPECT_STREQ(idle_limit::scaled(0s, 1s, load).problem(), "idle_limit: minimum is not positive");
  EXPECT_STREQ(idle_limit::scaled(-1s, 1s, load).problem(), "idle_limit: minimum is not positive");
  EXPECT_STREQ(idle_limit::scaled(2s, 1s, load).problem(), "idle_limit: maximum is below the minimum");
  EXPECT_EQ(idle_limit::scaled(1s, 1s, load).problem(), nullptr);
}

class scaled_idle_limit : public subject_test<connection> {
 protected:
  load_factor load;
};

TEST_F(scaled_idle_limit, invalid_one_is_refused) {
  EXPECT_EQ(c.timer.start(idle_limit::scaled(0s, 1s, load)), UV_EINVAL);
  EXPECT_EQ(c.timer.start(idle_limit::scaled(2s, 1s, load)), UV_EINVAL);
  EXPECT_FALSE(c.timer.armed());
}

TEST_F(scaled_idle_limit, expires_after_limit_of_load) {
  for (const auto& [part, limit] : {std::pair{0.0, 50s}, {0.25, 40s}, {0.5, 30s}, {1.0, 10s}}) {
    ASSERT_EQ(load.set(part), 0);
    connection each{service.timers};
    ASSERT_EQ(each.timer.start(idle_limit::scaled(10s, 50s, load)), 0);
    EXPECT_EQ(each.timer.limit(), limit);
    EXPECT_TRUE(fires_in(each.fired, limit)) << part;
  }
}

TEST_F(scaled_idle_limit, rising_load_counts_from_next_check) {
  ASSERT_EQ(c.timer.start(idle_limit::scaled(10s, 5min, load)), 0);
  advance(95s);
  ASSERT_EQ(load.set(1), 0);
  EXPECT_EQ(c.fired, 0);
  EXPECT_EQ(fired_after(5s + 10 * tick()), 1);  // it comes up each minimum, a tick late at most
}

TEST_F(scaled_idle_limit, is_checked_a_minimum_after_touch) {
  ASSERT_EQ(c.timer.start(idle_limit::scaled(10s, 5min, load)), 0);
  advance(5s);
  c.timer.touch();
  advance(7s);  // it has come up at 10 s, with half of the minimum left
  ASSERT_EQ(load.set(1), 0);
  EXPECT_TRUE(fires_in(3s, 2));
}

TEST_F(scaled_idle_limit, falling_load_counts_at_once) {
  ASSERT_EQ(load.set(1), 0);
  ASSERT_EQ(c.timer.start(idle_limit::scaled(10s, 5min, load)), 0);
  advance(10s - 1ns);
  ASSERT_EQ(load.set(0), 0);
  EXPECT_EQ(fired_after(290s), 0);
  EXPECT_EQ(fired_after(1ns + tick()), 1);
}

TEST_F(scaled_idle_limit, changing_load_is_never_early_nor_beyond_maximum) {
  ASSERT_EQ(c.timer.start(idle_limit::scaled(10s, 50s, load)), 0);
  const auto begin = service.time.now();
  nanoseconds shortest = 50s;  // of the limits there were since it is silent
  for (int second = 0; c.fired == 0; ++second) {
    ASSERT_EQ(load.set((second * 37 % 100) / 100.0), 0);
    shortest = std::min(shortest, c.timer.limit());
    advance(1s);
    ASSERT_LE(second, 60);
  }
  EXPECT_GE(c.at, begin + shortest);
  EXPECT_LE(c.at, begin + 50s + tick());
}

TEST_F(scaled_idle_limit, counts_from_last_touch) {
  ASSERT_EQ(c.timer.start(idle_limit::scaled(10s, 50s, load)), 0);
  for (int i = 0; i < 100; ++i) {
    advance(9s);
    c.timer.touch();
  }
  ASSERT_EQ(load.set(1), 0);
  EXPECT_TRUE(fires_in(10s));
}

TEST_F(scaled_idle_limit, wakes_loop_about_once_per_minimum) {
  ASSERT_EQ(c.timer.start(idle_limit::scaled(60s, 1h, load)), 0);
  advance(600s);
  EXPECT_LE(service.time.wakeups(), 60U);  // ten minima, with the few steps each that a far timer takes
}

TEST_F(scaled_idle_limit, notify_again_waits_for_limit_of_load) {
  c.then = [&] { EXPECT_EQ(c.timer.notify_again(), 0); };
  ASSERT_EQ(load.set(1), 0);
  ASSERT_EQ(c.timer.start(idle_limit::scaled(10s, 50s, load)), 0);
  EXPECT_EQ(fired_after(10s + tick()), 1);
  ASSERT_EQ(load.set(0), 0);
  EXPECT_EQ(fired_after(50s - 2 * tick()), 1);
  EXPECT_EQ(fired_after(4 * tick()), 2);
}

TEST_F(scaled_idle_limit, resume_counts_by_load_after_pause) {
  ASSERT_EQ(c.timer.start(idle_limit::scaled(10s, 50s, load)), 0);
  advance(8s);
  c.timer.pause();
  advance(1h);
  ASSERT_EQ(load.set(0.5), 0);
  c.timer.resume();
  EXPECT_TRUE(fires_in(22s, 2));
}

TEST_F(scaled_idle_limit, start_with_duration_ends_scaling) {
  ASSERT_EQ(c.timer.start(idle_limit::scaled(1s, 1h, load)), 0);
  ASSERT_EQ(c.timer.start(10s), 0);
  EXPECT_TRUE(fires_in(10s));
}

TEST_F(scaled_idle_limit, one_load_factor_scales_all_connections) {
  std::deque<connection> all;
  for (int i = 0; i < 10'000; ++i)
    ASSERT_EQ(all.emplace_back(service.timers).timer.start(idle_limit::scaled(10s, 5min, load)), 0);
  for (int second = 0; second < 60; ++second) {
    service.time.advance(1s);
    for (std::size_t i = 0; i < all.size(); i += 2) all[i].timer.touch();
  }
  for (const connection& each : all) ASSERT_EQ(each.fired, 0);
  ASSERT_EQ(load.set(1), 0);
  for (int second = 0; second < 10; ++second) {
    service.time.advance(1s);
    for (std::size_t i = 0; i < all.size(); i += 2) all[i].timer.touch();
  }
  advance(100 * tick());  // ten thousand are more than a pass may do
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i].fired, static_cast<int>(i % 2)) << i;
}

TEST_F(scaled_idle_limit, counts_from_start_and_not_from_iteration) {
  reopen({.stall_grace = 1s});
  service.timers.now();       // the iteration has its stamp
  service.time.block(100ms);  // and a callback takes its time
  ASSERT_EQ(c.timer.start(idle_limit::scaled(10ms, 50ms, load)), 0);
  EXPECT_TRUE(fires_in(50ms, 2));
}

}  // namespace
