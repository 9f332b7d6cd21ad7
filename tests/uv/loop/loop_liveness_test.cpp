// What keeps a loop alive, how often it wakes, and how it is driven.
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <poll.h>

#include <chrono>
#include <deque>
#include <memory>
#include <thread>

using namespace std::chrono_literals;
using tickwheel::timer_service;

namespace {

class loop_liveness : public testing::Test {
 protected:
  void open(const tickwheel::service_options& options = {}) { ASSERT_EQ(timers.open(loop, with_wakeup(options)), 0); }
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
  bool alive() { return uv_loop_alive(loop.get()) != 0; }
  void TearDown() override {
    EXPECT_TRUE(is_valid(timers));
    EXPECT_TRUE(adds_up(timers));
  }

  live_loop loop;
  timer_service timers;
};

TEST_F(loop_liveness, is_not_given_by_an_open_service) {
  open();
  EXPECT_FALSE(alive());
  loop.run();
}

TEST_F(loop_liveness, is_given_by_a_timer_armed_before_the_loop_runs) {
  open();
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  EXPECT_TRUE(alive());
  loop.run();
  EXPECT_EQ(p.fired, 1);
  EXPECT_FALSE(alive());
}

TEST_F(loop_liveness, is_given_by_a_timer_in_effect_never) {
  open();
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(std::chrono::hours::max()), 0);
  EXPECT_TRUE(alive());
  loop.run_for(20ms);
  EXPECT_TRUE(alive());
  EXPECT_TRUE(p.timeout.armed());
  p.timeout.cancel();
  EXPECT_FALSE(alive());
}

TEST_F(loop_liveness, ends_when_the_last_timer_is_cancelled) {
  open();
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(1h), 0);
  loop.after(5ms, [&] { p.timeout.cancel(); });
  const auto begin = tickwheel::clock::now();
  loop.run();
  EXPECT_LT(tickwheel::clock::now() - begin, 5s);
}

TEST_F(loop_liveness, ends_when_the_last_timer_is_destroyed) {
  open();
  auto p = std::make_unique<probe>(timers);
  ASSERT_EQ(p->timeout.arm(1h), 0);
  p.reset();
  EXPECT_FALSE(alive());
}

TEST_F(loop_liveness, is_not_given_by_a_timer_without_reference) {
  open();
  probe p{timers};
  p.timeout.unref();
  EXPECT_FALSE(p.timeout.has_ref());
  ASSERT_EQ(p.timeout.arm(1h), 0);
  EXPECT_FALSE(alive());
  loop.run();
  EXPECT_TRUE(p.timeout.armed());
}

TEST_F(loop_liveness, lets_a_timer_without_reference_fire_while_something_else_is_alive) {
  open();
  probe quiet{timers};
  probe loud{timers};
  quiet.timeout.unref();
  ASSERT_EQ(quiet.timeout.arm(5ms), 0);
  ASSERT_EQ(loud.timeout.arm(20ms), 0);
  loop.run();
  EXPECT_EQ(quiet.fired, 1);
  EXPECT_EQ(loud.fired, 1);
  EXPECT_FALSE(alive());
}

TEST_F(loop_liveness, does_not_wait_for_a_later_timer_without_reference) {
  open();
  probe quiet{timers};
  probe loud{timers};
  quiet.timeout.unref();
  ASSERT_EQ(quiet.timeout.arm(1h), 0);
  ASSERT_EQ(loud.timeout.arm(5ms), 0);
  loop.run();
  EXPECT_EQ(loud.fired, 1);
  EXPECT_TRUE(quiet.timeout.armed());
}

TEST_F(loop_liveness, follows_ref_and_unref_of_an_armed_timer) {
  open();
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(1h), 0);
  EXPECT_TRUE(alive());
  p.timeout.unref();
  EXPECT_FALSE(alive());
  p.timeout.unref();
  EXPECT_FALSE(alive());
  p.timeout.ref();
  EXPECT_TRUE(alive());
  EXPECT_TRUE(is_valid(timers));
  p.timeout.cancel();
  EXPECT_FALSE(alive());
}

TEST_F(loop_liveness, counts_right_when_a_timer_without_reference_fires_or_is_cancelled) {
  open();
  for (int i = 0; i < 5; ++i) {
    probe fires{timers};
    probe cancelled{timers};
    probe loud{timers};
    fires.timeout.unref();
    cancelled.timeout.unref();
    ASSERT_EQ(fires.timeout.arm(1ms), 0);
    ASSERT_EQ(cancelled.timeout.arm(1ms), 0);
    cancelled.timeout.cancel();
    EXPECT_TRUE(is_valid(timers));
    EXPECT_FALSE(alive());
    ASSERT_EQ(loud.timeout.arm(3ms), 0);
    EXPECT_TRUE(alive());
    loop.run();
    EXPECT_EQ(fires.fired, 1);
    EXPECT_EQ(loud.fired, 1);
    EXPECT_FALSE(alive());
    EXPECT_TRUE(is_valid(timers));
  }
}

TEST_F(loop_liveness, counts_right_when_a_handler_changes_the_reference_of_its_own_timer) {
  open();
  probe p{timers};
  p.timeout.unref();
  p.then = [&] {
    if (p.fired == 1) {
      p.timeout.ref();
      EXPECT_EQ(p.timeout.arm(1ms), 0);
    }
  };
  probe loud{timers};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  ASSERT_EQ(loud.timeout.arm(2ms), 0);
  loop.run();
  EXPECT_EQ(p.fired, 2);
}

TEST_F(loop_liveness, keeps_the_reference_of_a_timer_over_arms) {
  open();
  probe p{timers};
  p.timeout.unref();
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  ASSERT_EQ(p.timeout.arm(1h), 0);
  p.timeout.cancel();
  ASSERT_EQ(p.timeout.arm(1h), 0);
  EXPECT_FALSE(alive());
  EXPECT_FALSE(p.timeout.has_ref());
}

TEST_F(loop_liveness, follows_ref_and_unref_of_the_service) {
  open();
  probe p{timers};
  timers.unref();
  EXPECT_FALSE(timers.has_ref());
  ASSERT_EQ(p.timeout.arm(5ms), 0);
  EXPECT_FALSE(alive());
  timers.ref();
  EXPECT_TRUE(alive());
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

TEST_F(loop_liveness, of_a_service_without_reference_lets_timers_fire_while_something_else_is_alive) {
  open();
  timers.unref();
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(5ms), 0);
  loop.run_for(30ms);
  EXPECT_EQ(p.fired, 1);
}

TEST_F(loop_liveness, ends_with_close) {
  open();
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(1h), 0);
  timers.close();
  loop.run();
  EXPECT_FALSE(alive());
}

TEST_F(loop_liveness, lasts_until_all_carried_work_is_done) {
  open({.work_per_pass = 2});
  std::deque<probe> all;
  for (int i = 0; i < 500; ++i) ASSERT_EQ(all.emplace_back(timers).timeout.arm(1ms), 0);
  loop.run();
  for (const probe& p : all) EXPECT_EQ(p.fired, 1);
  EXPECT_GE(timers.stats().carried, 200U);
}

TEST_F(loop_liveness, ends_when_the_rest_of_carried_work_is_cancelled) {
  open({.work_per_pass = 2});
  std::deque<probe> all;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(all.emplace_back(timers).timeout.arm(1ms), 0);
  all.front().then = all.back().then = [&] {
    for (probe& p : all) p.timeout.cancel();
  };
  loop.run();
  EXPECT_LT(timers.stats().fired, 100U);
  EXPECT_FALSE(alive());
}

TEST_F(loop_liveness, lets_a_timer_fire_that_is_armed_after_carried_work_was_cancelled) {
  open({.work_per_pass = 1});
  std::deque<probe> all;
  probe late{timers};
  for (int i = 0; i < 10; ++i) {
    all.emplace_back(timers, [&] {
      for (probe& p : all) p.timeout.cancel();
      loop.once_in(phase::close, [&] { EXPECT_EQ(late.timeout.arm(3ms), 0); });
    });
    ASSERT_EQ(all.back().timeout.arm(1ms), 0);
  }
  loop.run();
  EXPECT_EQ(timers.stats().fired, 2U);
  EXPECT_EQ(late.fired, 1);
}

// Quiet when idle.

TEST_F(loop_liveness, does_not_spin_after_carried_work) {
  open({.work_per_pass = 1});
  std::deque<probe> all;
  for (int i = 0; i < 50; ++i) ASSERT_EQ(all.emplace_back(timers).timeout.arm(1ms), 0);
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
  for (probe& p : all) p.then = last;
  loop.run();
  EXPECT_EQ(timers.stats().fired, 50U);
  EXPECT_GE(counted, 0);
  EXPECT_LE(counted, 2);
}

TEST_F(loop_liveness, has_no_wakeup_in_two_seconds_for_a_timer_an_hour_away) {
  open();
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(1h), 0);
  EXPECT_LE(iterations_in(2s), 2);
  EXPECT_EQ(timers.stats().wakeups, 0U);
}

TEST_F(loop_liveness, has_at_most_one_leftover_wakeup_when_nothing_is_armed) {
  open();
  std::deque<probe> all;
  for (int i = 0; i < 200; ++i) ASSERT_EQ(all.emplace_back(timers).timeout.arm(10ms + i * 1ms), 0);
  for (probe& p : all) p.timeout.cancel();
  EXPECT_LE(iterations_in(400ms), 4);
  EXPECT_LE(timers.stats().wakeups, 1U);
}

// Other ways to drive a loop.

TEST_F(loop_liveness, driven_by_single_runs_fires_within_a_few_of_them) {
  open();
  probe p{timers};
  const auto due = tickwheel::clock::now() + 20ms;
  ASSERT_EQ(p.timeout.arm(20ms), 0);
  int runs = 0;
  while (uv_run(loop.get(), UV_RUN_ONCE) != 0) ++runs;
  EXPECT_EQ(p.fired, 1);
  EXPECT_GE(p.at, due);
  EXPECT_LE(runs, 6);
}

// How often UV_RUN_ONCE returns for what docs/from-uv-timer.md has a table of.
struct run_once : loop_liveness {
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

TEST_F(run_once, returns_at_most_as_often_as_documented) {
  open({.io_wait = 0});  // after a block, which a busy machine makes of any iteration, it returns once more
  probe p{timers}, far{timers};
  EXPECT_EQ(returns_until_io(), 1) << "no timer";
  ASSERT_EQ(p.timeout.arm(20ms), 0);
  EXPECT_LE(returns_until([&] { return p.fired == 1; }), 2) << "until a timer runs";
  ASSERT_EQ(p.timeout.arm(20ms), 0);
  p.timeout.cancel();
  EXPECT_LE(returns_until_io(), 2) << "one was stopped";
  ASSERT_EQ(p.timeout.arm(20ms), 0);
  ASSERT_EQ(p.timeout.arm(1h), 0);
  EXPECT_LE(returns_until_io(), 3) << "one was moved";
  EXPECT_EQ(returns_until_io(), 1) << "one is far away";
  std::deque<probe> stopped;
  for (int i = 0; i < 10; ++i) ASSERT_EQ(stopped.emplace_back(timers).timeout.arm(20ms + i * 10ms), 0);
  for (probe& s : stopped) s.timeout.cancel();
  EXPECT_LE(returns_until_io(), 21) << "ten were stopped, and one is far away";
}

TEST_F(loop_liveness, driven_by_single_runs_lasts_to_the_timer_though_other_things_wake_the_loop_just_before_it) {
  // libuv's time is a floored millisecond, so its timer may come up a little before ours is due
  open();
  live_loop::hook& other = loop.after(1ms, [] {}).unref();
  uv_timer_set_repeat(&other.handle.timer, 1);
  uv_timer_again(&other.handle.timer);
  for (int i = 0; i < 100; ++i) {
    probe p{timers};
    ASSERT_EQ(p.timeout.arm(1ms + i * 17us), 0);
    while (uv_run(loop.get(), UV_RUN_ONCE) != 0) {
    }
    ASSERT_EQ(p.fired, 1) << "the loop ended early";
  }
}

TEST_F(loop_liveness, driven_without_waiting_is_not_early_and_not_late) {
  open({.stall_grace = std::chrono::nanoseconds::max()});
  probe p{timers};
  const auto due = tickwheel::clock::now() + 20ms;
  ASSERT_EQ(p.timeout.arm(20ms), 0);
  while (uv_run(loop.get(), UV_RUN_NOWAIT) != 0) ASSERT_LT(tickwheel::clock::now(), due + 5s);
  EXPECT_EQ(p.fired, 1);
  EXPECT_GE(p.at, due);
}

TEST_F(loop_liveness, stopped_by_a_handler_goes_on_when_it_is_run_again) {
  open({.work_per_pass = 1});
  std::deque<probe> all;
  for (int i = 0; i < 20; ++i) {
    all.emplace_back(timers, [&] { loop.stop(); });
    ASSERT_EQ(all.back().timeout.arm(1ms), 0);
  }
  int runs = 0;
  while (uv_run(loop.get(), UV_RUN_DEFAULT) != 0) ASSERT_LE(++runs, 20);
  EXPECT_EQ(timers.stats().fired, 20U);
  EXPECT_GE(runs, 18);
}

TEST_F(loop_liveness, offers_a_backend_timeout_that_covers_the_timer) {
  open();
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(1s), 0);
  uv_run(loop.get(), UV_RUN_NOWAIT);
  const int timeout = uv_backend_timeout(loop.get());
  if (wakeup_of_this_run() == tickwheel::wake_by::timerfd) {
    EXPECT_EQ(timeout, -1) << "a descriptor of the loop's becomes readable in time";
  } else {
    EXPECT_GT(timeout, 500);
    EXPECT_LE(timeout, 1001);
  }
}

TEST_F(loop_liveness, offers_a_backend_timeout_of_zero_while_work_is_carried) {
  open({.work_per_pass = 1});
  std::deque<probe> all;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(all.emplace_back(timers).timeout.arm(0s), 0);
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

TEST_F(loop_liveness, embedded_in_another_loop_by_its_descriptor_fires_on_time) {
  open({.stall_grace = std::chrono::nanoseconds::max()});
  std::deque<probe> all;
  std::deque<tickwheel::clock::time_point> due;
  for (int i = 0; i < 10; ++i) {
    due.push_back(tickwheel::clock::now() + i * 10ms);
    ASSERT_EQ(all.emplace_back(timers).timeout.arm(i * 10ms), 0);
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
