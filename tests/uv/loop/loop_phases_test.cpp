// The same behaviour whatever phase of the loop a timer is armed in, and whatever phase blocks.
#include "../../support/allocation_probe.hpp"
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>

using namespace std::chrono_literals;
using tickwheel::timer_service;

namespace {

using time_point = tickwheel::clock::time_point;
using std::chrono::nanoseconds;

// Of several attempts one must be undisturbed by what else the machine does. A loop that oversleeps does so each time.
constexpr int attempts = 7;
constexpr nanoseconds undisturbed = 8ms;

class loop_phase : public testing::TestWithParam<phase> {};

TEST_P(loop_phase, can_arm_a_timer_that_fires_though_nothing_else_is_alive) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  probe p{timers};
  loop.once_in(GetParam(), [&] { EXPECT_EQ(p.timeout.arm(5ms), 0); });
  loop.run();
  EXPECT_EQ(p.fired, 1);
  EXPECT_TRUE(is_valid(timers));
}

TEST_P(loop_phase, can_arm_a_timer_with_zero_that_fires_though_nothing_else_is_alive) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  probe p{timers};
  loop.once_in(GetParam(), [&] { EXPECT_EQ(p.timeout.arm(0s), 0); });
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

TEST_P(loop_phase, can_arm_a_timer_earlier_than_what_the_loop_waits_for) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  probe far{timers};
  probe near{timers, [&] { far.timeout.cancel(); }};
  ASSERT_EQ(far.timeout.arm(1h), 0);
  loop.once_in(GetParam(), [&] { EXPECT_EQ(near.timeout.arm(5ms), 0); });
  loop.run();
  EXPECT_EQ(near.fired, 1);
}

TEST_P(loop_phase, that_blocks_makes_a_timer_armed_after_it_neither_early_nor_late) {
  nanoseconds least = nanoseconds::max();
  for (int i = 0; i < attempts && least > undisturbed; ++i) {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
    probe p{timers};
    time_point due;
    loop.once_in(GetParam(), [&] {
      block_for(50ms);
      due = tickwheel::clock::now() + 10ms;
      EXPECT_EQ(p.timeout.arm(10ms), 0);
    });
    loop.run();
    ASSERT_EQ(p.fired, 1);
    ASSERT_GE(p.at, due);
    least = std::min<nanoseconds>(least, p.at - due);
  }
  EXPECT_LE(least, undisturbed);
}

TEST_P(loop_phase, that_blocks_makes_a_timer_armed_before_it_neither_early_nor_late) {
  nanoseconds least = nanoseconds::max();
  for (int i = 0; i < attempts && least > undisturbed; ++i) {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
    probe p{timers};
    time_point due;
    loop.once_in(GetParam(), [&] {
      due = tickwheel::clock::now() + 70ms;
      EXPECT_EQ(p.timeout.arm(70ms), 0);
      block_for(50ms);
    });
    loop.run();
    ASSERT_EQ(p.fired, 1);
    ASSERT_GE(p.at, due);
    least = std::min<nanoseconds>(least, p.at - due);
  }
  EXPECT_LE(least, undisturbed);
}

TEST_P(loop_phase, that_blocks_past_a_deadline_lets_the_timer_run_right_after_it) {
  nanoseconds least = nanoseconds::max();
  for (int i = 0; i < attempts && least > undisturbed; ++i) {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
    probe p{timers};
    time_point unblocked;
    ASSERT_EQ(p.timeout.arm(10ms), 0);
    loop.once_in(GetParam(), [&] {
      block_for(30ms);
      unblocked = tickwheel::clock::now();
    });
    loop.run();
    ASSERT_EQ(p.fired, 1);
    ASSERT_GE(p.at, unblocked);
    least = std::min<nanoseconds>(least, p.at - unblocked);
  }
  EXPECT_LE(least, undisturbed);
}

TEST_P(loop_phase, may_destroy_the_service) {
  const auto before = allocations::outstanding();
  {
    live_loop loop;
    auto timers = std::make_unique<timer_service>();
    ASSERT_EQ(timers->open(loop, with_wakeup()), 0);
    probe p{*timers};
    ASSERT_EQ(p.timeout.arm(5ms), 0);
    loop.once_in(GetParam(), [&] { timers.reset(); });
    loop.run();
    EXPECT_EQ(p.fired, 0);
    EXPECT_FALSE(p.timeout.armed());
  }
  EXPECT_EQ(allocations::outstanding(), before);
}

TEST_P(loop_phase, may_destroy_the_service_while_a_pass_is_due_or_carried) {
  const auto before = allocations::outstanding();
  {
    live_loop loop;
    auto timers = std::make_unique<timer_service>();
    ASSERT_EQ(timers->open(loop, with_wakeup({.work_per_pass = 1})), 0);
    timer_service& alias = *timers;
    std::deque<probe> all;
    for (int i = 0; i < 20; ++i) {
      all.emplace_back(alias, [&] {
        if (alias.stats().fired == 5) loop.once_in(GetParam(), [&] { timers.reset(); });
      });
      ASSERT_EQ(all.back().timeout.arm(0s), 0);
    }
    loop.run();
    EXPECT_EQ(timers, nullptr);
    int fired = 0;
    for (const probe& p : all) fired += p.fired;
    EXPECT_GE(fired, 5);
    EXPECT_LT(fired, 10);
  }
  EXPECT_EQ(allocations::outstanding(), before);
}

TEST_P(loop_phase, may_close_the_service_and_open_it_again) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(1h), 0);
  loop.once_in(GetParam(), [&] {
    timers.close();
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
    EXPECT_EQ(p.timeout.arm(3ms), 0);
  });
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

TEST_P(loop_phase, may_open_a_service_and_arm_its_first_timer) {
  live_loop loop;
  timer_service timers;
  probe p{timers};
  loop.once_in(GetParam(), [&] {
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
    EXPECT_EQ(p.timeout.arm(3ms), 0);
  });
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

INSTANTIATE_TEST_SUITE_P(callbacks, loop_phase, testing::ValuesIn(all_phases),
                         [](const auto& of) { return std::string{name_of(of.param)}; });

TEST(a_prepare_callback_that_runs_after_ours, and_blocks_makes_no_timer_early) {
  live_loop loop;
  timer_service timers;
  probe p{timers};
  time_point due;
  // libuv runs what was started first last; it waits too long then, which nobody can correct, but never too short
  live_loop::hook& last = loop.each_prepare({});
  last.call = [&] {
    last.close();
    block_for(50ms);
    due = tickwheel::clock::now() + 10ms;
    EXPECT_EQ(p.timeout.arm(10ms), 0);
  };
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  probe first{timers};
  ASSERT_EQ(first.timeout.arm(1ms), 0);
  loop.run();
  EXPECT_EQ(p.fired, 1);
  EXPECT_GE(p.at, due);
}

TEST(a_prepare_callback_that_runs_after_ours, can_arm_a_timer_earlier_than_what_the_loop_waits_for) {
  live_loop loop;
  timer_service timers;
  live_loop::hook& last = loop.each_prepare({});
  probe far{timers};
  probe near{timers, [&] {
               far.timeout.cancel();
               last.close();  // not before: closing makes the loop turn without waiting
             }};
  last.call = [&] {
    if (!near.timeout.armed() && near.fired == 0) {
      EXPECT_EQ(near.timeout.arm(5ms), 0);
    }
  };
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  ASSERT_EQ(far.timeout.arm(900ms), 0);  // longer waits end early, which would do as well
  const time_point far_due = far.timeout.deadline();
  loop.run();
  EXPECT_EQ(near.fired, 1);
  EXPECT_LT(near.at, far_due);
}

TEST(a_timer_that_arms_itself_with_zero, lets_io_callbacks_run) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  socket_pair pair;
  probe p{timers};
  p.then = [&] { p.arm(0s); };
  ASSERT_EQ(p.timeout.arm(0s), 0);
  int rounds = 0;
  pair.peer_sends();
  loop.on_readable(pair.ours(), [&] {
    EXPECT_TRUE(pair.receive());
    if (++rounds == 100) {
      p.timeout.cancel();
      loop.stop();
      return;
    }
    pair.peer_sends();
  });
  loop.run();
  EXPECT_EQ(rounds, 100);
}

TEST(a_timer_that_arms_itself_with_zero, runs_at_most_once_an_iteration) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  int iterations = 0;
  loop.each_prepare([&] { ++iterations; });
  probe p{timers};
  int iteration_of_last = -1;
  p.then = [&] {
    EXPECT_NE(iterations, iteration_of_last);
    iteration_of_last = iterations;
    if (p.fired < 50) p.arm(0s);
  };
  ASSERT_EQ(p.timeout.arm(0s), 0);
  loop.run();
  EXPECT_EQ(p.fired, 50);
}

TEST(a_due_timer_that_blocks_and_arms_itself_with_zero, lets_io_callbacks_run) {
  // the case in which libuv's own timers never leave their phase: due again by the time the callback returns
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  socket_pair pair;
  probe p{timers};
  p.then = [&] {
    p.arm(0s);
    block_for(3ms);
  };
  ASSERT_EQ(p.timeout.arm(0s), 0);
  int reads = 0;
  loop.on_readable(pair.ours(), [&] {
    EXPECT_TRUE(pair.receive());
    if (++reads == 10) {
      p.timeout.cancel();
      loop.stop();
    } else {
      pair.peer_sends();
    }
  });
  pair.peer_sends();
  loop.run();
  EXPECT_EQ(reads, 10);
  EXPECT_LE(p.fired, 15);
}

TEST(carried_work, lets_io_callbacks_run_between_two_passes) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup({.work_per_pass = 1})), 0);
  socket_pair pair;
  int reads = 0;
  loop.on_readable(pair.ours(),
                   [&] {
                     EXPECT_TRUE(pair.receive());
                     ++reads;
                     pair.peer_sends();
                   })
      .unref();
  std::deque<probe> all;
  int reads_before = -1;  // the callback that ran last
  int without_reads = 0;
  const auto look = [&] {
    without_reads += reads == reads_before;
    reads_before = reads;
  };
  for (int i = 0; i < 200; ++i) ASSERT_EQ(all.emplace_back(timers, look).timeout.arm(5ms), 0);
  pair.peer_sends();
  loop.run();
  for (const probe& p : all) EXPECT_EQ(p.fired, 1);
  EXPECT_EQ(without_reads, 0);
}

TEST(a_check_callback, may_stop_and_start_a_timer_again_and_again) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(2ms), 0);
  int rounds = 0;
  loop.each_check([&] {
    if (p.fired != 0 || ++rounds > 50) return;
    EXPECT_TRUE(p.timeout.cancel());
    EXPECT_EQ(p.timeout.arm(2ms), 0);
  });
  live_loop::hook& spin = loop.each_idle({});
  p.then = [&] { spin.close(); };
  loop.run();
  EXPECT_EQ(p.fired, 1);
  EXPECT_TRUE(is_valid(timers));
}

}  // namespace
