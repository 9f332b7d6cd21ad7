// Arming and cancelling: which wakeup the driver is asked for, whether the loop is held, and when an arm is refused.
#include "../support/still_driver.hpp"

#include <tickwheel/uv/detail/armed_timers.hpp>
#include <tickwheel/uv/timer.hpp>

using tickwheel::wheel_entry;
using tickwheel::detail::armed_timers;

namespace {

struct armed_timers_test : ::testing::Test {
  armed_timers_test() { open(tickwheel::unlimited); }
  ~armed_timers_test() override { timers.drop_wheel(); }

  void open(std::size_t max_armed) {
    timers.expect_open();
    ASSERT_EQ(timers.make_wheel({}), 0);
    timers.open(loop, {.max_armed = max_armed});
  }

  /// A timer's base, which only the service has access to.
  static wheel_entry& of(tickwheel::timer& t) { return (wheel_entry&)t; }
  static void run(wheel_entry&) noexcept {}

  /// The time at which a timer that is due `after` the present may run: the beginning of a tick.
  still_driver::time_point rounded(std::chrono::nanoseconds after) const {
    return timers.ticks().begin_of(timers.ticks().ceil(loop.time + after));
  }
  int arm(wheel_entry& entry, std::chrono::nanoseconds after) { return timers.arm_after(entry, {}, after, 0ns); }

  still_driver loop;
  tickwheel::timer_service never_opened;
  tickwheel::timer owner_of_a{never_opened, &run}, owner_of_b{never_opened, &run};
  wheel_entry& a = of(owner_of_a);
  wheel_entry& b = of(owner_of_b);
  armed_timers timers;
};

TEST_F(armed_timers_test, arm_asks_for_wakeup_at_deadline) {
  EXPECT_EQ(arm(a, 5ms), 0);
  EXPECT_EQ(loop.wakeup, rounded(5ms));
}

TEST_F(armed_timers_test, only_earlier_deadline_moves_wakeup) {
  arm(a, 5ms);
  const int asked = loop.wakeups_asked;
  arm(b, 6ms);
  EXPECT_EQ(loop.wakeups_asked, asked);
  arm(b, 3ms);
  EXPECT_EQ(loop.wakeup, rounded(3ms));
}

TEST_F(armed_timers_test, schedule_cancels_wakeup_if_nothing_is_armed) {
  arm(a, 5ms);
  timers.cancel(a);
  timers.schedule();
  EXPECT_FALSE(loop.wakeup);
  EXPECT_EQ(timers.wakes_at(), tickwheel::never);
}

TEST_F(armed_timers_test, zero_delay_asks_for_pass) {
  EXPECT_EQ(arm(a, 0ns), 0);
  EXPECT_EQ(loop.passes_asked, 1);
  arm(b, 1h);
  const int asked = loop.passes_asked;
  EXPECT_EQ(timers.arm_at(a, loop.time - 1ms), 0);
  EXPECT_EQ(loop.passes_asked, asked + 1);
}

TEST_F(armed_timers_test, pass_asks_for_nothing_before_its_end) {
  timers.begin_pass(loop.time);
  arm(a, 5ms);
  arm(b, 0ns);
  EXPECT_TRUE(timers.in_pass());
  EXPECT_EQ(loop.wakeups_asked + loop.passes_asked, 0);
  timers.schedule();
  EXPECT_FALSE(timers.in_pass());
  EXPECT_EQ(loop.wakeup, rounded(5ms));
  EXPECT_EQ(loop.passes_asked, 1);
}

TEST_F(armed_timers_test, wheel_catches_up_before_first_arm) {
  loop.poll(1h);
  timers.time().end_iteration(loop.last_poll, loop.time);
  EXPECT_EQ(arm(a, 5ms), 0);
  EXPECT_EQ(timers.entries().now(), timers.ticks().floor(loop.time));
}

TEST_F(armed_timers_test, arm_again_is_never_refused) {
  open(1);
  arm(a, 5ms);
  timers.arm_again(b, 5);
  EXPECT_TRUE(b.armed());
}

TEST_F(armed_timers_test, verdict_for_passed_time_is_due_after_each_stamp_that_was_taken) {
  arm(b, 1ms);
  loop.poll(1h);
  const auto stamp = timers.tick_to_reach(loop.time);
  for (const auto passed : {1h, 0h}) {
    EXPECT_EQ(timers.arm_at(a, loop.time - passed, tickwheel::detail::past_time::verdict), 0);
    EXPECT_EQ(a.deadline(), stamp + 1);
    EXPECT_EQ(timers.arm_plain_at(a, loop.time - passed, tickwheel::detail::past_time::verdict), 0);
    EXPECT_EQ(a.deadline(), stamp + 1);
  }
}

TEST_F(armed_timers_test, kept_place_serves_its_timer_only) {
  open(1);
  timers.alive().keep_place(a, timers.entries());
  EXPECT_EQ(arm(b, 5ms), UV_ENOBUFS);
  EXPECT_EQ(timers.arm_at(a, loop.time + 5ms), 0);
  EXPECT_FALSE(timers.alive().keeps_place(a));
}

}  // namespace
