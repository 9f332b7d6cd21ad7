// Passes, driven by hand: what a pass runs, and what it asks the driver for at its end.
#include "../support/probe.hpp"
#include "../support/still_driver.hpp"

namespace {

struct dispatcher_test : ::testing::Test {
  dispatcher_test() { EXPECT_EQ(timers.open(loop), 0); }
  ~dispatcher_test() override { EXPECT_TRUE(is_valid(timers)); }

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
  const int reads = loop.reads;
  EXPECT_FALSE(client().on_wakeup(loop.time));
  EXPECT_EQ(loop.reads, reads);
  EXPECT_EQ(loop.wakeup, p.timeout.deadline());
  loop.time += 2ms;
  EXPECT_TRUE(client().on_wakeup(loop.time));
  EXPECT_EQ(timers.stats().wakeups, 2U);
}

TEST_F(dispatcher_test, time_outside_the_loop_is_no_stall) {
  iterate(1s);
  const auto left = loop.time;
  loop.time += 1h;
  client().on_resumed(left, loop.time);
  EXPECT_EQ(timers.stats().stalls, 0U);
  EXPECT_EQ(timers.stalled_for(), 1h - tickwheel::service_options{}.stall_grace);
}

}  // namespace
