// The time of a loop iteration: when the clock is read, and how far stalls put responsive time behind.
#include "../support/still_driver.hpp"

#include <tickwheel/uv/detail/loop_clock.hpp>

using tickwheel::detail::loop_clock;

namespace {

struct loop_clock_test : ::testing::Test {
  loop_clock_test() { time.open(loop, 10ms); }

  /// The iteration ends, and the loop polls.
  std::chrono::nanoseconds poll(std::chrono::nanoseconds taking) {
    const auto stalled = time.end_iteration(loop.last_poll, loop.time);
    loop.poll(taking);
    time.keep_stamps();
    return stalled;
  }

  still_driver loop;
  loop_clock time;
};

TEST_F(loop_clock_test, reads_clock_once_an_iteration) {
  poll(1s);
  const int before = loop.reads;
  const auto first = time.now();
  loop.time += 1ms;
  EXPECT_EQ(time.now(), first);
  EXPECT_EQ(time.responsive_now(), first);
  EXPECT_EQ(loop.reads, before + 1);
}

TEST_F(loop_clock_test, reads_no_clock_if_nobody_asks) {
  const int before = loop.reads;
  poll(1s);
  poll(1s);
  EXPECT_FALSE(time.has_now());
  EXPECT_EQ(loop.reads, before);
}

TEST_F(loop_clock_test, reads_clock_for_responsive_time) {
  poll(1s);
  EXPECT_EQ(time.responsive_now(), loop.time);
  EXPECT_TRUE(time.has_now());
}

TEST_F(loop_clock_test, read_replaces_time_of_iteration) {
  poll(1s);
  (void)time.now();
  loop.time += 3ms;
  EXPECT_EQ(time.read(), loop.time);
  EXPECT_EQ(time.now(), loop.time);
  EXPECT_EQ(time.stamp(), loop.time);
}

TEST_F(loop_clock_test, forgets_time_when_expired) {
  poll(1s);
  const auto before = time.now();
  loop.time += 1ms;
  time.expire();
  EXPECT_FALSE(time.has_now());
  EXPECT_EQ(time.stamp(), before);
  EXPECT_EQ(time.now(), before + 1ms);
}

TEST_F(loop_clock_test, forgets_time_when_loop_has_polled) {
  (void)time.now();
  ++loop.polls;
  EXPECT_FALSE(time.has_now());
}

TEST_F(loop_clock_test, time_read_before_poll_is_forgotten_after_it) {
  (void)time.end_iteration(loop.last_poll, loop.time);
  (void)time.now();
  loop.poll(1s);
  EXPECT_FALSE(time.has_now());
}

TEST_F(loop_clock_test, keeps_time_before_poll_unless_driver_turns_early) {
  for (const bool early : {false, true}) {
    loop.early = early;
    (void)time.end_iteration(loop.last_poll, loop.time);
    (void)time.now();
    EXPECT_EQ(time.has_now(), !early);
  }
  time.keep_stamps();
  (void)time.now();
  EXPECT_TRUE(time.has_now());
}

TEST_F(loop_clock_test, tells_whether_loop_has_polled_since) {
  poll(1s);
  const auto then = time.polls();
  loop.time += 1ms;
  (void)time.read();
  EXPECT_FALSE(time.has_polled_since(then));
  for (int i = 0; i < 65'535; ++i) {  // a loop whose input never ends soon polls as often
    poll(1ms);
    ASSERT_TRUE(time.has_polled_since(then)) << i;
  }
}

// A later prepare callback of the user runs in between.
TEST_F(loop_clock_test, iteration_that_may_not_have_polled_yet_has_not) {
  loop.early = true;
  poll(1s);
  const auto then = time.polls();
  (void)time.end_iteration(loop.last_poll, loop.time);
  EXPECT_FALSE(time.has_polled_since(then));
  loop.poll(1ms);
  EXPECT_TRUE(time.has_polled_since(then));
}

TEST_F(loop_clock_test, stall_is_time_beyond_grace) {
  poll(1s);
  loop.time += 10ms + 1ns;
  EXPECT_EQ(time.responsive(loop.time), loop.time - 1ns);
  EXPECT_EQ(time.less_stalls(loop.time), loop.time);  // which leaves out the running one
  EXPECT_EQ(poll(1s), 1ns);
  EXPECT_EQ(time.stalled_for(), 1ns);
  EXPECT_EQ(time.less_stalls(loop.time), loop.time - 1ns);
}

TEST_F(loop_clock_test, responsive_time_stands_still_during_stall) {
  poll(1s);
  loop.time += 10ms;
  const auto before = time.responsive(loop.time);
  EXPECT_EQ(time.responsive(loop.time + 5s), before);
}

TEST_F(loop_clock_test, stall_stays_one_if_loop_time_moves_on) {
  poll(1s);
  loop.time += 15ms;
  EXPECT_EQ(time.responsive(loop.time), loop.time - 5ms);
  loop.last_poll = loop.time;  // libuv updates its time between two batches of events
  EXPECT_EQ(time.responsive(loop.time), loop.time - 5ms);
  EXPECT_EQ(poll(0s), 5ms);
}

TEST_F(loop_clock_test, stalls_of_iterations_add_up) {
  for (int i = 1; i <= 3; ++i) {
    poll(1s);
    loop.time += 11ms;
    EXPECT_EQ(time.responsive(loop.time), loop.time - i * 1ms);
  }
  EXPECT_EQ(poll(1s), 1ms);
  EXPECT_EQ(time.stalled_for(), 3ms);
}

TEST_F(loop_clock_test, time_outside_loop_is_left_out) {
  poll(1s);
  loop.time += 1h;
  time.resume(loop.last_poll, loop.time);
  EXPECT_EQ(time.stalled_for(), 1h - 10ms);
  loop.last_poll = loop.time;
  EXPECT_EQ(poll(1s), 0ns);
}

TEST_F(loop_clock_test, stands_still_when_closed) {
  poll(1s);
  const auto before = time.now();
  time.close();
  loop.poll(1s);
  EXPECT_TRUE(time.has_now());
  EXPECT_EQ(time.now(), before);
  EXPECT_EQ(time.responsive_now(), before);
}

TEST_F(loop_clock_test, forgets_stalls_when_opened_again) {
  loop.time += 1s;
  EXPECT_EQ(poll(1s), 990ms);
  loop.time += 20ms;
  (void)time.responsive(loop.time);
  time.close();
  still_driver other;
  time.open(other, 5ms);
  EXPECT_EQ(time.stalled_for(), 0ns);
  EXPECT_EQ(time.now(), other.time);
  EXPECT_EQ(time.responsive_now(), other.time);
  other.time += 6ms;
  EXPECT_EQ(time.end_iteration(other.last_poll, other.time), 1ms);
}

TEST_F(loop_clock_test, tells_once_whether_clock_was_read) {
  EXPECT_TRUE(time.take_was_read());  // by `open`
  EXPECT_FALSE(time.take_was_read());
  poll(1s);
  EXPECT_FALSE(time.take_was_read());
  (void)time.now();
  EXPECT_TRUE(time.take_was_read());
}

}  // namespace
