// A fork, where other threads' timers are in the wheel, on their way or cancelled, and where a pool has work: parent and
// child each go on with what there was, and neither takes anything from the other.
#include "../../support/sanitizers.hpp"
#include "../support/child.hpp"
#include "../support/live_test.hpp"
#include "../support/offloader.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

#include <unistd.h>

using tickwheel::offload_pool;
using tickwheel::remote_handle;
using tickwheel::remote_hold;
using tickwheel::remote_timer;
using tickwheel::timer_service;

namespace {

struct fork_test : live_test {
  void open(const tickwheel::service_options& options = {}) {
    live_test::open(options);
    handle = timers.remote();
  }
  auto count() { return count_in(ran); }
  template <class Done>
  void turn_until(Done done) {
    const remote_hold hold = timers.hold();
    loop.turn_until(done);
  }
  void run_out() { uv_run(loop.get(), UV_RUN_DEFAULT); }
  void turn() { uv_run(loop.get(), UV_RUN_NOWAIT); }
  /// A child that goes on with the loop, and then does that.
  child_process fork_and(const std::function<void()>& then) {
    return child_process{[&] {
      ASSERT_EQ(uv_loop_fork(loop.get()), 0);
      timers.after_fork();
      then();
    }};
  }
  /// Parent and child both do that.
  void fork_and_both(const std::function<void()>& rest) {
    const child_process child = fork_and(rest);
    rest();
    EXPECT_EQ(child.exit_code(), 0);
  }
  void close_and_add_up() {
    timers.close();
    EXPECT_TRUE(remote_adds_up(timers));
  }

  remote_handle handle;
  int ran = 0;
};

TEST_F(fork_test, timer_fires_in_parent_and_child) {
  open();
  const auto due = tickwheel::clock::now() + 50ms;
  p.arm(50ms);
  turn();
  fork_and_both([&] {
    run_out();
    EXPECT_EQ(p.fired, 1);
    EXPECT_GE(p.at, due);
    EXPECT_TRUE(fires(timers, [&] { run_out(); }));
  });
}

TEST_F(fork_test, carried_work_runs_in_parent_and_child) {
  open({.work_per_pass = 1});
  probes all{timers, 20, 0s};
  turn_until([&] { return timers.stats().fired >= 5; });
  fork_and_both([&] {
    run_out();
    EXPECT_EQ(timers.stats().fired, 20U);
  });
}

TEST_F(fork_test, parent_and_child_run_posts_and_take_more) {
  open();
  remote_hold hold = timers.hold();
  ASSERT_EQ(handle.post(1ms, count()), 0);
  turn();
  turn();
  ASSERT_EQ(handle.post(count()), 0);  // the wakeup was sent, and not received yet
  const child_process child = fork_and([&] {
    while (ran < 2) uv_run(loop.get(), UV_RUN_ONCE);
    std::thread poster{[&, hold = std::move(hold)] {
      std::this_thread::sleep_for(5ms);  // so that the loop is in its poll, and has to be woken
      EXPECT_EQ(handle.post(count()), 0);
    }};
    run_out();
    poster.join();
    EXPECT_EQ(ran, 3);
  });
  hold.release();
  loop.run();
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(child.exit_code(), 0);
}

TEST_F(fork_test, child_cancels_remote_timer_for_itself_only) {
  open();
  remote_timer timer;
  ASSERT_EQ(handle.arm(60ms, count(), timer), 0);
  turn_until([&] { return timers.stats().pending == 1; });
  const child_process child = fork_and([&] {
    EXPECT_EQ(timer.cancel(), remote_timer::outcome::cancelled);
    const probe later{timers, 100ms};
    run_out();
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(later.fired, 1);
    close_and_add_up();
  });
  loop.run();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(timer.cancel(), remote_timer::outcome::too_late);
  EXPECT_EQ(child.exit_code(), 0);
}

TEST_F(fork_test, pending_cancel_counts_in_both) {
  open();
  remote_timer timer;
  ASSERT_EQ(handle.arm(20ms, count(), timer), 0);
  turn_until([&] { return timers.stats().pending == 1; });
  ASSERT_EQ(timer.cancel(), remote_timer::outcome::cancelled);
  fork_and_both([&] {
    const probe later{timers, 40ms};
    run_out();
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(timers.stats().remote_withdrawn, 1U);
    close_and_add_up();
  });
}

TEST_F(fork_test, taken_posts_run_in_both) {
  open({.work_per_pass = 1});
  for (int i = 0; i < 50; ++i) ASSERT_EQ(handle.post(0s, count()), 0);
  turn_until([&] { return ran >= 5; });
  fork_and_both([&] {
    run_out();
    EXPECT_EQ(ran, 50);
  });
}

TEST_F(fork_test, parent_is_woken_after_child_closes_service) {
  open();
  p.arm(30ms);
  const child_process child = fork_and([&] {
    timers.close();
    run_out();
    EXPECT_EQ(p.fired, 0);
    EXPECT_EQ(handle.post(0s, count()), UV_ECANCELED);
  });
  EXPECT_EQ(child.exit_code(), 0);
  std::thread poster{[this, hold = timers.hold()] {
    std::this_thread::sleep_for(5ms);  // so that the loop is in its poll, and the bell has to wake it
    EXPECT_EQ(handle.post(0s, count()), 0);
  }};
  loop.run();
  poster.join();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(p.fired, 1);
}

TEST_F(fork_test, child_closes_service_and_loop) {
  open();
  p.arm(30ms);
  turn();
  const child_process child = fork_and([&] {
    timers.close();
    run_out();
    EXPECT_EQ(uv_loop_close(loop.get()), 0);
  });
  EXPECT_EQ(child.exit_code(), 0);
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

// How often UV_RUN_ONCE returns until a timer of libuv's own has run.
int runs_once_until_timer(uv_loop_t* loop) {
  bool done = false;
  uv_timer_t timer;
  uv_timer_init(loop, &timer);
  timer.data = &done;
  uv_update_time(loop);
  uv_timer_start(
      &timer, [](uv_timer_t* t) { *static_cast<bool*>(t->data) = true; }, 20, 0);
  int runs = 0;
  while (!done) {
    uv_run(loop, UV_RUN_ONCE);
    ++runs;
  }
  uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
  uv_run(loop, UV_RUN_NOWAIT);
  return runs;
}

TEST_F(fork_test, child_without_work_does_not_wake_for_a_pass) {
  open();
  p.arm(1h);
  turn();
  const child_process child = fork_and([&] { EXPECT_EQ(runs_once_until_timer(loop.get()), 1); });
  EXPECT_EQ(child.exit_code(), 0);
}

TEST_F(fork_test, child_notices_hold_that_parent_had_released) {
  open();
  { const remote_hold hold = timers.hold(); }
  const child_process child = fork_and([&] { run_out(); });  // until nothing holds the loop
  EXPECT_EQ(child.exit_code(), 0);
}

TEST_F(fork_test, offload_goes_on_in_both) {
  if (under_thread_sanitizer) GTEST_SKIP() << "it does not support a fork of several threads";
  open();
  offload_pool pool;
  ASSERT_EQ(pool.open(loop), 0);
  offloader before{timers, pool}, armed{timers, pool}, later{timers, pool};
  ASSERT_EQ(before.call.run([]() noexcept { return 1; }),
            0);  // so that the pool has its threads, which a child has not
  loop.run();
  ASSERT_EQ(before.result, 1);
  ASSERT_EQ(armed.call.arm(20ms, []() noexcept { return 2; }), 0);
  fork_and_both([&] {
    EXPECT_EQ(later.call.run([]() noexcept { return 3; }), 0);
    run_out();
    EXPECT_EQ(before.answers, 1);
    EXPECT_EQ(armed.result, 2);
    EXPECT_EQ(later.result, 3);
    EXPECT_EQ(pool.in_flight(), 0U);
  });
}

// How many threads libuv's pool has.
std::size_t pool_threads() {
  const char* const asked = std::getenv("UV_THREADPOOL_SIZE");
  return asked == nullptr ? 4 : std::strtoul(asked, nullptr, 10);
}

TEST_F(fork_test, work_in_the_pool_stays_with_parent) {
  if (under_thread_sanitizer) GTEST_SKIP() << "it does not support a fork of several threads";
  open();
  offload_pool pool;
  ASSERT_EQ(pool.open(loop), 0);
  const byte_pipe begun, gate;
  // One for each thread, all of which have begun: so none has the pool's lock, for which the child would wait for ever.
  const std::size_t threads = pool_threads();
  std::deque<offloader> in_flight;
  for (std::size_t i = 0; i < threads; ++i) {
    ASSERT_EQ(in_flight.emplace_back(timers, pool).call.run([to = begun.writing(), from = gate.reading()]() noexcept {
      char byte = 'x';
      return static_cast<int>(::write(to, &byte, 1) == 1 ? ::read(from, &byte, 1) : -1);
    }),
              0);
  }
  for (std::size_t i = 0; i < threads; ++i) {
    char byte = 0;
    ASSERT_EQ(::read(begun.reading(), &byte, 1), 1);
  }
  const auto answers = [&] {
    int all = 0;
    for (const offloader& a : in_flight) all += a.answers;
    return all;
  };
  const child_process child = fork_and([&] {
    EXPECT_TRUE(in_flight.front().call.cancel());
    EXPECT_EQ(pool.in_flight(), threads);
    for (int turns = 0; turns < 20; ++turns) {
      turn();
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(answers(), 0);
  });
  EXPECT_EQ(child.exit_code(), 0);
  for (std::size_t i = 0; i < threads; ++i) ASSERT_EQ(::write(gate.writing(), "x", 1), 1);
  loop.run();
  EXPECT_EQ(answers(), static_cast<int>(threads));
  for (const offloader& a : in_flight) EXPECT_EQ(a.result, 1);
}

}  // namespace
