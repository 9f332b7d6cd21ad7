// The same behaviour whatever phase of the loop a timer is armed in, and whatever phase blocks.
#include "../support/allocation_checks.hpp"
#include "../support/live_test.hpp"

using tickwheel::timer_service;

namespace {

using time_point = tickwheel::clock::time_point;
using std::chrono::nanoseconds;

// Of several attempts one must be undisturbed by what else the machine does. A loop that oversleeps does so each time.
constexpr int attempts = 7;
constexpr nanoseconds undisturbed = 8ms;

class loop_order : public live_test {
 protected:
  void end() {
    p.timeout.cancel();
    loop.stop();
  }
};

class loop_phase : leak_check, public live_test, public testing::WithParamInterface<phase> {
 protected:
  /// `call`, in the phase, answers when the timer is due at the earliest. In one attempt it is hardly later. `armed` before:
  /// with this delay.
  void expect_on_time(const std::function<time_point()>& call, nanoseconds armed = {}) {
    nanoseconds least = nanoseconds::max();
    open();
    for (int i = 1; i <= attempts && least > undisturbed; ++i) {
      time_point due;
      if (armed > 0ns) p.arm(armed);
      loop.once_in(GetParam(), [&] { due = call(); });
      loop.run();
      ASSERT_EQ(p.fired, i);
      ASSERT_GE(p.at, due);
      least = std::min<nanoseconds>(least, p.at - due);
    }
    EXPECT_LE(least, undisturbed);
  }
};

TEST_P(loop_phase, timer_armed_in_it_fires) {
  open();
  for (const nanoseconds delay : {nanoseconds{5ms}, 0ns}) {
    p.fired = 0;
    loop.once_in(GetParam(), [&] { p.arm(delay); });
    loop.run();
    EXPECT_EQ(p.fired, 1) << delay.count();
    EXPECT_TRUE(is_valid(timers));
  }
}

TEST_P(loop_phase, earlier_timer_armed_in_it_fires_first) {
  open();
  probe far{timers, 1h};
  probe near{timers, [&] { far.timeout.cancel(); }};
  loop.once_in(GetParam(), [&] { near.arm(5ms); });
  loop.run();
  EXPECT_EQ(near.fired, 1);
}

TEST_P(loop_phase, timer_armed_after_its_block_is_on_time) {
  expect_on_time([&] {
    block_for(50ms);
    const time_point due = tickwheel::clock::now() + 10ms;
    p.arm(10ms);
    return due;
  });
}

TEST_P(loop_phase, timer_armed_before_its_block_is_on_time) {
  expect_on_time([&] {
    const time_point due = tickwheel::clock::now() + 70ms;
    p.arm(70ms);
    block_for(50ms);
    return due;
  });
}

TEST_P(loop_phase, timer_due_during_its_block_runs_right_after) {
  expect_on_time(
      [&] {
        block_for(30ms);
        return tickwheel::clock::now();
      },
      10ms);
}

TEST_P(loop_phase, callback_may_destroy_the_service) {
  auto owned = std::make_unique<timer_service>();
  ASSERT_EQ(owned->open(loop, with_wakeup()), 0);
  probe doomed{*owned, 1s};  // the callback runs long before
  loop.once_in(GetParam(), [&] { owned.reset(); });
  loop.run();
  EXPECT_EQ(doomed.fired, 0);
  EXPECT_FALSE(doomed.timeout.armed());
}

TEST_P(loop_phase, callback_may_destroy_service_with_carried_work) {
  auto owned = std::make_unique<timer_service>();
  ASSERT_EQ(owned->open(loop, with_wakeup({.work_per_pass = 1})), 0);
  timer_service& alias = *owned;
  const probes all{alias, 20, 0s, [&] {
                     if (alias.stats().fired == 5) loop.once_in(GetParam(), [&] { owned.reset(); });
                   }};
  loop.run();
  EXPECT_EQ(owned, nullptr);
  EXPECT_GE(all.fired(), 5);
  EXPECT_LT(all.fired(), 10);
}

TEST_P(loop_phase, callback_may_reopen_the_service) {
  open();
  p.arm(1h);
  loop.once_in(GetParam(), [&] {
    timers.close();
    open();
    p.arm(3ms);
  });
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

TEST_P(loop_phase, callback_may_open_a_service) {
  loop.once_in(GetParam(), [&] {
    open();
    p.arm(3ms);
  });
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

INSTANTIATE_TEST_SUITE_P(callbacks, loop_phase, testing::ValuesIn(all_phases),
                         [](const auto& of) { return std::string{name_of(of.param)}; });

TEST_F(loop_order, block_in_later_prepare_makes_no_timer_early) {
  time_point due;
  // libuv runs what was started first last; it waits too long then, which nobody can correct, but never too short
  live_loop::hook& last = loop.each_prepare({});
  last.call = [&] {
    last.close();
    block_for(50ms);
    due = tickwheel::clock::now() + 10ms;
    p.arm(10ms);
  };
  open();
  probe first{timers, 1ms};
  loop.run();
  EXPECT_EQ(p.fired, 1);
  EXPECT_GE(p.at, due);
}

TEST_F(loop_order, later_prepare_may_arm_an_earlier_timer) {
  live_loop::hook& last = loop.each_prepare({});
  probe far{timers};
  probe near{timers, [&] {
               far.timeout.cancel();
               last.close();  // not before: closing makes the loop turn without waiting
             }};
  last.call = [&] {
    if (!near.timeout.armed() && near.fired == 0) {
      near.arm(5ms);
    }
  };
  open();
  far.arm(900ms);  // longer waits end early, which would do as well
  const time_point far_due = far.timeout.deadline();
  loop.run();
  EXPECT_EQ(near.fired, 1);
  EXPECT_LT(near.at, far_due);
}

// A block is the case in which libuv's own timers never leave their phase: due again by the time the callback returns.
TEST_F(loop_order, zero_delays_let_io_run) {
  for (const auto& [block, rounds] : {std::pair{0ms, 100}, {3ms, 10}}) {
    timers.close();
    open();
    p.fired = 0;
    p.then = [&, time = block] {
      p.arm(0s);
      block_for(time);
    };
    p.arm(0s);
    int reads = 0;
    loop.on_each_byte([&, most = rounds] {
      if (++reads == most) end();
      return reads < most;
    });
    loop.run();
    EXPECT_EQ(reads, rounds);
    if (block != 0ns) {
      EXPECT_LE(p.fired, 15);
    }
  }
}

// The stamp of a pass is older than the reads before it. So a zero delay of each read would always be one of the next pass.
TEST_F(loop_order, zero_delay_that_each_read_arms_anew_runs) {
  for (const bool by_time : {false, true}) {
    timers.close();
    open();
    p.fired = 0;
    const time_point passed = timers.now();
    int reads = 0;
    loop.on_each_byte([&] {
      (void)timers.now();
      EXPECT_EQ(by_time ? p.timeout.arm_at(passed) : p.timeout.arm(0s), 0);
      if (++reads == 100) end();
      return reads < 100;
    });
    loop.run();
    EXPECT_GE(p.fired, 10);
    EXPECT_LE(p.fired, 101);
  }
}

TEST_F(loop_order, zero_delay_runs_once_per_iteration) {
  open();
  int iterations = 0;
  loop.each_prepare([&] { ++iterations; });
  int iteration_of_last = -1;
  p.then = [&] {
    EXPECT_NE(iterations, iteration_of_last);
    iteration_of_last = iterations;
    if (p.fired < 50) p.arm(0s);
  };
  p.arm(0s);
  loop.run();
  EXPECT_EQ(p.fired, 50);
}

TEST_F(loop_order, io_runs_between_carried_passes) {
  open({.work_per_pass = 1});
  int reads = 0;
  loop.on_each_byte([&] { return ++reads > 0; }).unref();
  int reads_before = -1;  // the callback that ran last
  int without_reads = 0;
  const auto look = [&] {
    without_reads += reads == reads_before;
    reads_before = reads;
  };
  const probes all{timers, 200, 5ms, look};
  loop.run();
  EXPECT_TRUE(all.each_fired_once());
  EXPECT_EQ(without_reads, 0);
}

TEST_F(loop_order, check_callback_may_rearm_repeatedly) {
  open();
  p.arm(2ms);
  int rounds = 0;
  loop.each_check([&] {
    if (p.fired != 0 || ++rounds > 50) return;
    EXPECT_TRUE(p.timeout.cancel());
    p.arm(2ms);
  });
  live_loop::hook& spin = loop.each_idle({});
  p.then = [&] { spin.close(); };
  loop.run();
  EXPECT_EQ(p.fired, 1);
  EXPECT_TRUE(is_valid(timers));
}

}  // namespace
