// Passes, driven by hand: what a pass runs, and what it asks the driver for at its end.
#include "../support/probe.hpp"
#include "../support/still_driver.hpp"

#include <tickwheel/uv/remote.hpp>

namespace {

struct dispatcher_test : ::testing::Test {
  dispatcher_test() { reopen({}); }
  ~dispatcher_test() override { EXPECT_TRUE(is_valid(timers)); }

  void reopen(const tickwheel::service_options& options) {
    timers.close();
    ASSERT_EQ(timers.open(loop, options), 0);
  }

  tickwheel::driver::client& client() { return *loop.bound(); }

  /// An iteration as a driver makes it: the stamp is taken before the poll, and the pass follows the poll.
  void iterate(std::chrono::nanoseconds poll_takes) {
    client().on_iteration(loop.time);
    loop.poll(poll_takes);
    if (client().due(loop.time)) client().pass(loop.time);
  }

  still_driver loop;
  tickwheel::timer_service timers;
};

TEST_F(dispatcher_test, pass_runs_timers_due_by_stamp) {
  probe due{timers, 5ms}, later{timers, 7ms};
  iterate(6ms);
  EXPECT_EQ(due.fired, 1);
  EXPECT_EQ(later.fired, 0);
  EXPECT_EQ(loop.wakeup, later.timeout.deadline());
}

TEST_F(dispatcher_test, pass_leaves_timers_due_after_stamp) {
  probe p{timers, 5ms};
  client().on_iteration(loop.time);
  const auto stamp = loop.time;
  loop.poll(6ms);
  client().pass(stamp);
  EXPECT_EQ(p.fired, 0);
  EXPECT_EQ(loop.wakeup, p.timeout.deadline());
}

TEST_F(dispatcher_test, wakeup_that_is_early_asks_again) {
  probe p{timers, 5ms};
  loop.time += 4ms;
  loop.wakeup.reset();
  EXPECT_FALSE(client().on_wakeup(loop.time));
  EXPECT_EQ(loop.wakeup, p.timeout.deadline());
  loop.time += 2ms;
  EXPECT_TRUE(client().on_wakeup(loop.time));
  EXPECT_EQ(timers.stats().wakeups, 2U);
}

TEST_F(dispatcher_test, pass_with_work_left_asks_for_another) {
  reopen({.work_per_pass = 1});
  probe a{timers, 5ms}, b{timers, 5ms};
  iterate(6ms);
  EXPECT_EQ(a.fired + b.fired, 1);
  EXPECT_EQ(loop.passes_asked, 1);
  EXPECT_EQ(timers.stats().carried, 1U);
  iterate(0ns);
  EXPECT_EQ(a.fired + b.fired, 2);
  EXPECT_EQ(timers.stats().passes, 2U);
}

TEST_F(dispatcher_test, posted_call_makes_pass_due) {
  EXPECT_FALSE(client().due(loop.time));
  int ran = 0;
  ASSERT_EQ(timers.remote().post(0s, [&]() noexcept { ++ran; }), 0);
  EXPECT_TRUE(client().due(loop.time));
  iterate(0ns);
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(client().due(loop.time));
}

TEST_F(dispatcher_test, slots_posts_and_zero_delays_take_turns) {
  reopen({.work_per_pass = 1});
  std::vector<char> order;
  probe slot{timers, 5ms, [&] { order.push_back('s'); }}, zero{timers, [&] { order.push_back('z'); }};
  ASSERT_EQ(zero.timeout.arm(0ms), 0);
  client().on_iteration(loop.time);
  loop.poll(1ms);
  ASSERT_EQ(timers.remote().post(0s, [&]() noexcept { order.push_back('p'); }), 0);
  loop.time += 6ms;
  for (int i = 0; i < 3; ++i) client().pass(loop.time);
  EXPECT_EQ(order.size(), 3U);
  EXPECT_EQ(timers.stats().carried, 2U);
}

TEST_F(dispatcher_test, busy_iteration_is_a_stall) {
  iterate(1s);
  loop.time += 30ms;
  client().on_iteration(loop.time);
  EXPECT_EQ(timers.stats().stalls, 1U);
  EXPECT_EQ(timers.stats().stalled, 30ms - tickwheel::service_options{}.stall_grace);
  EXPECT_EQ(timers.stalled_for(), timers.stats().stalled);
}

TEST_F(dispatcher_test, time_outside_the_loop_is_no_stall) {
  iterate(1s);
  const auto left = loop.time;
  loop.time += 1h;
  client().on_resumed(left, loop.time);
  EXPECT_EQ(timers.stats().stalls, 0U);
  EXPECT_EQ(timers.stalled_for(), 1h - tickwheel::service_options{}.stall_grace);
}

TEST_F(dispatcher_test, handler_may_close_the_service) {
  probe closing{timers, [&] { timers.close(); }}, other{timers};
  ASSERT_EQ(closing.timeout.arm(5ms), 0);
  ASSERT_EQ(other.timeout.arm(5ms), 0);
  client().on_iteration(loop.time);
  loop.poll(6ms);
  client().pass(loop.time);
  EXPECT_EQ(closing.fired + other.fired, closing.fired);
  EXPECT_FALSE(timers.is_open());
  EXPECT_EQ(loop.bound(), nullptr);
}

}  // namespace
