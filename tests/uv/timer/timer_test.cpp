// One timer on a clock turned by hand.
#include <tickwheel/uv/timer.hpp>

#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

using namespace std::chrono_literals;
using time_point = tickwheel::clock::time_point;
using tickwheel::timer;

namespace {

using picoseconds = std::chrono::duration<std::int64_t, std::pico>;

TEST(timer, is_silent_before_its_delay_and_fires_within_a_tick_after_it) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  service.advance(10ms - 1ns);
  EXPECT_EQ(p.fired, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(p.fired, 1);
  EXPECT_FALSE(p.timeout.armed());
}

TEST(timer, is_never_early_and_at_most_a_tick_late_for_any_delay_at_any_time) {
  manual_service service;
  probe p{service.timers};
  for (std::chrono::nanoseconds delay = 1ns; delay < 40h; delay = delay * 3 + 7ns) {
    const auto armed_at = service.time.now();
    ASSERT_EQ(p.timeout.arm(delay), 0);
    p.fired = 0;
    service.advance(delay + service.tick());
    ASSERT_EQ(p.fired, 1) << delay.count();
    EXPECT_GE(p.at, armed_at + delay);
    EXPECT_LE(p.at, armed_at + delay + service.tick());
  }
}

TEST(timer, fires_once_for_one_arm) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  service.advance(10s);
  EXPECT_EQ(p.fired, 1);
}

TEST(timer, armed_again_later_fires_at_the_later_time_only) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  ASSERT_EQ(p.timeout.arm(30ms), 0);
  service.advance(30ms - 1ns);
  EXPECT_EQ(p.fired, 0);
  service.advance(1ms);
  EXPECT_EQ(p.fired, 1);
}

TEST(timer, armed_again_earlier_fires_at_the_earlier_time_only) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(1h), 0);
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  service.advance(11ms);
  EXPECT_EQ(p.fired, 1);
  service.advance(2h);
  EXPECT_EQ(p.fired, 1);
}

TEST(timer, moved_later_again_and_again_never_fires_and_then_fires) {
  manual_service service;
  probe p{service.timers};
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(p.timeout.arm(10ms), 0);
    service.time.advance(9ms);
  }
  EXPECT_EQ(p.fired, 0);
  service.advance(2ms);
  EXPECT_EQ(p.fired, 1);
}

TEST(timer, cancelled_does_not_fire) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  EXPECT_TRUE(p.timeout.cancel());
  EXPECT_FALSE(p.timeout.armed());
  service.advance(1s);
  EXPECT_EQ(p.fired, 0);
}

TEST(timer, answers_a_second_cancel_and_one_of_an_unarmed_timer_with_false) {
  manual_service service;
  probe p{service.timers};
  EXPECT_FALSE(p.timeout.cancel());
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  EXPECT_TRUE(p.timeout.cancel());
  EXPECT_FALSE(p.timeout.cancel());
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  service.advance(1s);
  EXPECT_FALSE(p.timeout.cancel());
}

TEST(timer, can_be_armed_again_after_a_cancel) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  p.timeout.cancel();
  ASSERT_EQ(p.timeout.arm(5ms), 0);
  service.advance(6ms);
  EXPECT_EQ(p.fired, 1);
}

TEST(timer, is_cancelled_by_its_destructor) {
  manual_service service;
  auto p = std::make_unique<probe>(service.timers);
  ASSERT_EQ(p->timeout.arm(10ms), 0);
  p.reset();
  service.advance(1s);
  EXPECT_EQ(service.timers.stats().fired, 0U);
  EXPECT_EQ(service.timers.stats().cancelled, 1U);
}

TEST(timer, armed_with_zero_is_due_in_the_next_pass) {
  manual_service service;
  probe p{service.timers};
  service.advance(777ns);
  ASSERT_EQ(p.timeout.arm(0s), 0);
  EXPECT_EQ(p.fired, 0);
  service.advance(service.tick());
  EXPECT_EQ(p.fired, 1);
}

TEST(timer, armed_with_a_negative_delay_is_due_in_the_next_pass) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(-5s), 0);
  service.advance(service.tick());
  EXPECT_EQ(p.fired, 1);
  ASSERT_EQ(p.timeout.arm(std::chrono::nanoseconds::min()), 0);
  service.advance(service.tick());
  EXPECT_EQ(p.fired, 2);
  ASSERT_EQ(p.timeout.arm(std::chrono::hours::min()), 0);
  service.advance(service.tick());
  EXPECT_EQ(p.fired, 3);
}

TEST(timer, with_a_delay_beyond_the_clock_stays_armed_and_does_not_fire) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(std::chrono::hours::max()), 0);
  service.check();
  EXPECT_TRUE(p.timeout.armed());
  EXPECT_EQ(p.timeout.deadline(), time_point::max());
  service.advance(24h * 365 * 200);
  EXPECT_TRUE(p.timeout.armed());
  EXPECT_EQ(p.fired, 0);
  EXPECT_TRUE(p.timeout.cancel());
}

TEST(timer, with_the_longest_delay_in_nanoseconds_stays_armed) {
  manual_service service;
  probe p{service.timers};
  service.advance(5h);
  ASSERT_EQ(p.timeout.arm(std::chrono::nanoseconds::max()), 0);
  ASSERT_EQ(p.timeout.arm(std::chrono::nanoseconds::max() - 1ns), 0);
  service.advance(24h * 365 * 100);
  EXPECT_TRUE(p.timeout.armed());
}

TEST(timer, fires_on_time_after_years_of_uptime) {
  manual_service service;
  probe p{service.timers};
  service.advance(24h * 365 * 150);
  const auto armed_at = service.time.now();
  ASSERT_EQ(p.timeout.arm(3s), 0);
  service.advance(3s - 1ns);
  EXPECT_EQ(p.fired, 0);
  service.advance(service.tick() + 1ns);
  EXPECT_EQ(p.fired, 1);
  EXPECT_GE(p.at, armed_at + 3s);
}

TEST(timer, takes_any_duration_and_rounds_it_up) {
  manual_service service;
  probe p{service.timers};
  const auto begin = service.time.now();
  const auto deadline_after = [&](auto delay) {
    EXPECT_EQ(p.timeout.arm(delay), 0);
    return p.timeout.deadline() - begin;
  };
  EXPECT_GE(deadline_after(std::chrono::duration<double>{0.25}), 250ms);
  EXPECT_LT(deadline_after(std::chrono::duration<double>{0.25}), 250ms + service.tick());
  EXPECT_GE(deadline_after(std::chrono::duration<float, std::milli>{1.5F}), 1500us);
  EXPECT_GE(deadline_after(std::chrono::duration<std::uint64_t, std::ratio<3600>>{2}), 2h);
  EXPECT_GE(deadline_after(std::chrono::duration<unsigned char>{7}), 7s);
  EXPECT_GE(deadline_after(std::chrono::duration<std::int64_t, std::ratio<1, 3>>{1}), 333'333'334ns);
  EXPECT_GT(deadline_after(picoseconds{1}), 0ns);
  EXPECT_GE(deadline_after(std::chrono::days{3}), 72h);
  EXPECT_EQ(deadline_after(std::chrono::years::max()), time_point::max() - begin);
  EXPECT_EQ(deadline_after(std::chrono::duration<double>{std::numeric_limits<double>::infinity()}),
            time_point::max() - begin);
  EXPECT_LE(deadline_after(std::chrono::duration<double>{std::numeric_limits<double>::quiet_NaN()}), service.tick());
  EXPECT_EQ(deadline_after(std::chrono::duration<std::uint64_t>{std::numeric_limits<std::uint64_t>::max()}),
            time_point::max() - begin);
}

TEST(timer, armed_at_a_time_is_due_within_a_tick_after_it) {
  manual_service service;
  probe p{service.timers};
  const auto when = service.timers.now() + 12345us;
  ASSERT_EQ(p.timeout.arm_at(when), 0);
  service.advance(12345us - 1ns);
  EXPECT_EQ(p.fired, 0);
  service.advance(service.tick() + 1ns);
  EXPECT_EQ(p.fired, 1);
  EXPECT_GE(p.at, when);
}

TEST(timer, armed_at_a_time_that_has_passed_is_due_in_the_next_pass) {
  manual_service service;
  probe p{service.timers};
  service.advance(1h);
  ASSERT_EQ(p.timeout.arm_at(service.timers.now() - 30min), 0);
  service.advance(service.tick());
  EXPECT_EQ(p.fired, 1);
  ASSERT_EQ(p.timeout.arm_at(service.timers.now() - 48h), 0);  // from before the service was opened
  service.advance(service.tick());
  EXPECT_EQ(p.fired, 2);
}

TEST(timer, armed_at_the_beginning_of_time_is_due_in_the_next_pass) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm_at(time_point::min()), 0);
  service.advance(service.tick());
  EXPECT_EQ(p.fired, 1);
}

TEST(timer, armed_at_the_end_of_time_stays_armed) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm_at(time_point::max()), 0);
  service.advance(24h * 365 * 200);
  EXPECT_TRUE(p.timeout.armed());
}

TEST(timer, tells_its_deadline_rounded_up_to_a_tick_and_none_when_unarmed) {
  manual_service service;
  probe p{service.timers};
  EXPECT_EQ(p.timeout.deadline(), time_point::max());
  const auto begin = service.time.now();
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  EXPECT_GE(p.timeout.deadline(), begin + 10ms);
  EXPECT_LT(p.timeout.deadline(), begin + 10ms + service.tick());
  p.timeout.cancel();
  EXPECT_EQ(p.timeout.deadline(), time_point::max());
}

TEST(timer, counts_its_delay_from_the_true_time_and_not_from_the_iterations_stamp) {
  manual_service service;
  probe p{service.timers};
  const auto stamp = service.timers.now();
  service.time.block(50ms);
  ASSERT_EQ(service.timers.now(), stamp);
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  EXPECT_GE(p.timeout.deadline(), stamp + 60ms);
}

TEST(timer, due_in_one_tick_with_others_runs_with_them_in_one_pass) {
  manual_service service;
  std::deque<probe> all;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(10ms), 0);
  const auto passes = service.timers.stats().passes;
  service.advance(11ms);
  for (const probe& p : all) EXPECT_EQ(p.fired, 1);
  EXPECT_EQ(service.timers.stats().passes, passes + 1);
}

TEST(timer, on_time_runs_in_the_order_of_deadlines) {
  manual_service service;
  std::vector<int> order;
  std::deque<probe> all;
  for (int i = 0; i < 50; ++i) {
    const int place = (i * 37) % 50;
    all.emplace_back(service.timers, [&order, place] { order.push_back(place); });
    ASSERT_EQ(all.back().timeout.arm(5ms * (place + 1)), 0);
  }
  service.advance(1s);
  ASSERT_EQ(order.size(), 50U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(timer, on_time_runs_before_those_of_the_next_tick) {
  manual_service service;
  std::vector<int> order;
  std::deque<probe> all;
  for (int place = 50; place-- != 0;) {
    all.emplace_back(service.timers, [&order, place] { order.push_back(place); });
    ASSERT_EQ(all.back().timeout.arm(service.tick() * (place + 1)), 0);
  }
  service.advance(1s);
  ASSERT_EQ(order.size(), 50U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

timer* called_with = nullptr;

TEST(timer, is_what_its_callback_gets_back_from_the_entry) {
  manual_service service;
  timer plain{service.timers, [](timer::wheel_entry& entry) noexcept { called_with = &timer::from(entry); }};
  ASSERT_EQ(plain.arm(1ms), 0);
  service.advance(2ms);
  EXPECT_EQ(called_with, &plain);
}

TEST(timer, leaves_its_owner_some_of_the_cache_line) { EXPECT_LE(sizeof(timer), 48U); }

struct job {
  void on_timeout() noexcept { ++calls; }
  int calls = 0;
};

TEST(member_timer, calls_the_member_function_of_its_owner) {
  manual_service service;
  job owner;
  tickwheel::member_timer<&job::on_timeout> timeout{service.timers, owner};
  ASSERT_EQ(timeout.arm(1ms), 0);
  service.advance(2ms);
  EXPECT_EQ(owner.calls, 1);
}

TEST(callback_timer, calls_what_it_holds) {
  manual_service service;
  int calls = 0;
  tickwheel::callback_timer timeout{service.timers,
                                    [&, kept = std::make_unique<int>(3)]() noexcept { calls += *kept; }};
  ASSERT_EQ(timeout.arm(1ms), 0);
  service.advance(2ms);
  EXPECT_EQ(calls, 3);
}

struct session {
  void may_throw() {}
  void on_timeout() noexcept {}
  void takes_an_argument(int) noexcept {}
};

// libuv's C frames cannot be unwound, so what may throw is refused when compiling
static_assert(tickwheel::noexcept_member_handler<&session::on_timeout>);
static_assert(!tickwheel::noexcept_member_handler<&session::may_throw>);
static_assert(!tickwheel::noexcept_member_handler<&session::takes_an_argument>);
constexpr auto calm = []() noexcept {};
constexpr auto throwing = [] {};
constexpr auto demanding = [](int) noexcept {};
static_assert(tickwheel::noexcept_handler<decltype(calm)>);
static_assert(!tickwheel::noexcept_handler<decltype(throwing)>);
static_assert(!tickwheel::noexcept_handler<decltype(demanding)>);
static_assert(!tickwheel::noexcept_handler<std::function<void()>>);
static_assert(!std::is_copy_constructible_v<timer> && !std::is_move_constructible_v<timer>);
static_assert(!std::is_copy_assignable_v<timer> && !std::is_move_assignable_v<timer>);

}  // namespace
