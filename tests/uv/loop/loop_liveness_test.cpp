// Liveness of a loop, how often it wakes, and how it is driven.
#include "../support/live_test.hpp"

#include <poll.h>

using tickwheel::timer_service;

namespace {

class loop_liveness : public live_test {
 protected:
  /// How often the loop goes round in that time.
  int iterations_in(std::chrono::milliseconds time) {
    int iterations = 0;
    int counted = 0;
    live_loop::hook& counter = loop.each_prepare([&] { ++iterations; });
    loop.after(time, [&] {
      counted = iterations;
      loop.stop();
    });
    loop.run();
    counter.close();
    return counted;
  }
  /// How often UV_RUN_ONCE returns: docs/from-uv-timer.md has a table of it.
  template <class Done>
  int returns_until(Done done) {
    int runs = 0;
    for (; !done(); ++runs) uv_run(loop.get(), UV_RUN_ONCE);
    return runs;
  }
  int returns_until_io() {
    bool read = false;
    const socket_pair sockets;
    live_loop::hook& io = loop.on_readable(sockets.ours(), [&] { read = sockets.receive(); });
    std::thread peer{[&] {
      std::this_thread::sleep_for(150ms);
      sockets.peer_sends();
    }};
    const int runs = returns_until([&] { return read; });
    peer.join();
    bool closed = false;
    io.close([&] { closed = true; });
    while (!closed) uv_run(loop.get(), UV_RUN_NOWAIT);
    return runs;
  }
};

TEST_F(loop_liveness, open_service_does_not_hold) {
  open();
  EXPECT_FALSE(alive());
  loop.run();
}

TEST_F(loop_liveness, armed_timer_holds) {
  open();
  p.arm(10ms);
  EXPECT_TRUE(alive());
  loop.run();
  EXPECT_EQ(p.fired, 1);
  EXPECT_FALSE(alive());
}

TEST_F(loop_liveness, timer_that_is_never_due_holds) {
  open();
  p.arm(std::chrono::hours::max());
  EXPECT_TRUE(alive());
  loop.run_for(20ms);
  EXPECT_TRUE(alive());
  EXPECT_TRUE(p.timeout.armed());
  p.timeout.cancel();
  EXPECT_FALSE(alive());
}

TEST_F(loop_liveness, cancel_of_last_timer_ends_it) {
  open();
  p.arm(1h);
  loop.after(5ms, [&] { p.timeout.cancel(); });
  const auto begin = tickwheel::clock::now();
  loop.run();
  EXPECT_LT(tickwheel::clock::now() - begin, 5s);
}

TEST_F(loop_liveness, does_not_wait_for_later_unreferenced_timer) {
  open();
  probe quiet{timers}, loud{timers};
  quiet.timeout.unref();
  quiet.arm(1h);
  loud.arm(5ms);
  loop.run();
  EXPECT_EQ(loud.fired, 1);
  EXPECT_TRUE(quiet.timeout.armed());
}

TEST_F(loop_liveness, unreferenced_timers_are_counted_right) {
  open();
  for (int i = 0; i < 5; ++i) {
    probe fires{timers}, cancelled{timers}, loud{timers};
    fires.timeout.unref();
    cancelled.timeout.unref();
    fires.arm(1ms);
    cancelled.arm(1ms);
    cancelled.timeout.cancel();
    EXPECT_TRUE(is_valid(timers));
    EXPECT_FALSE(alive());
    loud.arm(3ms);
    EXPECT_TRUE(alive());
    loop.run();
    EXPECT_EQ(fires.fired, 1);
    EXPECT_EQ(loud.fired, 1);
    EXPECT_FALSE(alive());
    EXPECT_TRUE(is_valid(timers));
  }
}

TEST_F(loop_liveness, handler_may_reference_its_own_timer) {
  open();
  p.timeout.unref();
  p.then = [&] {
    if (p.fired == 1) {
      p.timeout.ref();
      p.arm(1ms);
    }
  };
  p.arm(1ms);
  probe loud{timers, 2ms};
  loop.run();
  EXPECT_EQ(p.fired, 2);
}

TEST_F(loop_liveness, follows_ref_and_unref_of_the_service) {
  open();
  timers.unref();
  EXPECT_FALSE(timers.has_ref());
  p.arm(5ms);
  EXPECT_FALSE(alive());
  timers.ref();
  EXPECT_TRUE(alive());
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

TEST_F(loop_liveness, unreferenced_service_fires_while_loop_is_held) {
  open();
  timers.unref();
  p.arm(5ms);
  loop.run_for(30ms);
  EXPECT_EQ(p.fired, 1);
}

TEST_F(loop_liveness, ends_with_close) {
  open();
  p.arm(1h);
  timers.close();
  loop.run();
  EXPECT_FALSE(alive());
}

TEST_F(loop_liveness, timer_armed_after_cancelled_carried_work_fires) {
  open({.work_per_pass = 1});
  std::deque<probe> all;
  probe late{timers};
  for (int i = 0; i < 10; ++i) {
    all.emplace_back(timers, [&] {
      for (probe& each : all) each.timeout.cancel();
      loop.once_in(phase::close, [&] { late.arm(3ms); });
    });
    all.back().arm(1ms);
  }
  loop.run();
  EXPECT_EQ(timers.stats().fired, 2U);
  EXPECT_EQ(late.fired, 1);
}

// Quiet when idle.

TEST_F(loop_liveness, does_not_spin_after_carried_work) {
  open({.work_per_pass = 1});
  probes all{timers, 50, 1ms};
  int iterations = 0;
  int counted = -1;
  loop.each_prepare([&] { ++iterations; });
  const auto last = [&] {
    if (timers.stats().fired < 50) return;
    iterations = 0;
    loop.after(60ms, [&] {
      counted = iterations;
      loop.stop();
    });
  };
  for (probe& each : all) each.then = last;
  loop.run();
  EXPECT_EQ(timers.stats().fired, 50U);
  EXPECT_GE(counted, 0);
  EXPECT_LE(counted, 2);
}

TEST_F(loop_liveness, far_timer_causes_no_wakeup) {
  open();
  p.arm(1h);
  EXPECT_LE(iterations_in(2s), 2);
  EXPECT_EQ(timers.stats().wakeups, 0U);
}

TEST_F(loop_liveness, cancelled_timers_cause_at_most_one_wakeup) {
  open();
  probes all{timers, 200, [](int i) { return 10ms + i * 1ms; }};
  all.cancel();
  EXPECT_LE(iterations_in(400ms), 4);
  EXPECT_LE(timers.stats().wakeups, 1U);
}

// Other ways to drive a loop.

TEST_F(loop_liveness, run_once_fires_within_a_few_runs) {
  open();
  const auto due = tickwheel::clock::now() + 20ms;
  p.arm(20ms);
  int runs = 0;
  while (uv_run(loop.get(), UV_RUN_ONCE) != 0) ++runs;
  EXPECT_EQ(p.fired, 1);
  EXPECT_GE(p.at, due);
  EXPECT_LE(runs, 6);
}

TEST_F(loop_liveness, run_once_returns_as_often_as_documented) {
  open({.io_wait = 0});  // after a block, which a busy machine makes of any iteration, it returns once more
  probe far{timers};
  EXPECT_EQ(returns_until_io(), 1) << "no timer";
  p.arm(20ms);
  EXPECT_LE(returns_until([&] { return p.fired == 1; }), 2) << "until a timer runs";
  p.arm(20ms);
  p.timeout.cancel();
  EXPECT_LE(returns_until_io(), 2) << "one was stopped";
  p.arm(20ms);
  p.arm(1h);
  EXPECT_LE(returns_until_io(), 3) << "one was moved";
  EXPECT_EQ(returns_until_io(), 1) << "one is far away";
  probes stopped{timers, 10, [](int i) { return 20ms + i * 10ms; }};
  stopped.cancel();
  EXPECT_LE(returns_until_io(), 21) << "ten were stopped, and one is far away";
}

TEST_F(loop_liveness, run_once_lasts_until_timer_despite_wakeups) {
  // libuv's time is a floored millisecond, so its timer may expire a little before ours is due
  open();
  live_loop::hook& other = loop.after(1ms, [] {}).unref();
  uv_timer_set_repeat(&other.handle.timer, 1);
  uv_timer_again(&other.handle.timer);
  for (int i = 0; i < 100; ++i) {
    probe own{timers, 1ms + i * 17us};
    while (uv_run(loop.get(), UV_RUN_ONCE) != 0) {
    }
    ASSERT_EQ(own.fired, 1) << "the loop ended early";
  }
}

TEST_F(loop_liveness, run_nowait_is_neither_early_nor_late) {
  open({.stall_grace = std::chrono::nanoseconds::max()});
  const auto due = tickwheel::clock::now() + 20ms;
  p.arm(20ms);
  while (uv_run(loop.get(), UV_RUN_NOWAIT) != 0) ASSERT_LT(tickwheel::clock::now(), due + 5s);
  EXPECT_EQ(p.fired, 1);
  EXPECT_GE(p.at, due);
}

TEST_F(loop_liveness, loop_stopped_by_handler_goes_on) {
  open({.work_per_pass = 1});
  probes all{timers, 20, 1ms, [&] { loop.stop(); }};
  int runs = 0;
  while (uv_run(loop.get(), UV_RUN_DEFAULT) != 0) ASSERT_LE(++runs, 20);
  EXPECT_EQ(timers.stats().fired, 20U);
  EXPECT_GE(runs, 18);
}

TEST_F(loop_liveness, backend_timeout_covers_the_timer) {
  open();
  p.arm(1s);
  uv_run(loop.get(), UV_RUN_NOWAIT);
  const int timeout = uv_backend_timeout(loop.get());
  if (wakeup_of_this_run() == tickwheel::wake_by::timerfd) {
    EXPECT_EQ(timeout, -1) << "a descriptor of the loop's becomes readable in time";
  } else {
    EXPECT_GT(timeout, 500);
    EXPECT_LE(timeout, 1001);
  }
}

TEST_F(loop_liveness, backend_timeout_is_zero_while_work_is_carried) {
  open({.work_per_pass = 1});
  probes all{timers, 20, 0s};
  block_for(2ms);
  for (int runs = 0; timers.stats().fired < 20; ++runs) {
    ASSERT_LT(runs, 1000);
    if (timers.stats().fired > 0) {
      EXPECT_EQ(uv_backend_timeout(loop.get()), 0);
    }
    uv_run(loop.get(), UV_RUN_NOWAIT);
  }
  EXPECT_GE(timers.stats().carried, 15U);
}

TEST_F(loop_liveness, embedded_loop_fires_on_time) {
  open({.stall_grace = std::chrono::nanoseconds::max()});
  std::deque<probe> all;
  std::deque<tickwheel::clock::time_point> due;
  for (int i = 0; i < 10; ++i) {
    due.push_back(tickwheel::clock::now() + i * 10ms);
    all.emplace_back(timers).arm(i * 10ms);
  }
  const auto end = tickwheel::clock::now() + 10s;
  int turns = 0;
  uv_run(loop.get(), UV_RUN_NOWAIT);
  while (alive()) {
    ASSERT_LT(tickwheel::clock::now(), end);
    pollfd descriptor{uv_backend_fd(loop.get()), POLLIN, 0};
    ::poll(&descriptor, 1, uv_backend_timeout(loop.get()));
    uv_run(loop.get(), UV_RUN_NOWAIT);
    ++turns;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].fired, 1);
    EXPECT_GE(all[i].at, due[i]);
  }
  EXPECT_LE(turns, 60);
  EXPECT_EQ(timers.stats().stalls, 0U);
}

}  // namespace
