// One thread runs a loop and its timers. (Misuse from another: tests/net/conformance.)
#include "../support/live_test.hpp"
#include "../support/routine.hpp"

using tickwheel::timer_service;

namespace {

using threads = live_test;

TEST_F(threads, loop_may_run_on_another_thread) {
  open();
  probe first{timers, 1ms, [&] { p.arm(1ms); }};
  std::thread{[&] {
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(first.fired, 1);
    EXPECT_EQ(p.fired, 1);
    first.arm(1h);
    EXPECT_TRUE(first.timeout.cancel());
  }}.join();
  timers.close();
}

// The timer callbacks of libuv 1.44 come before the loop's first poll, by which the service learns who runs it.
TEST_F(threads, loop_may_be_handed_over_before_it_polled) {
  open();
  std::thread{[&] {
    timers.use_on_this_thread();
    p.arm(1ms);
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(p.fired, 1);
    p.arm(1h);
  }}.join();
  timers.use_on_this_thread();
  EXPECT_TRUE(p.timeout.cancel());
}

detached run_then_take_along(timer_service& timers, event& moved) {
  timers.check_thread();
  co_await moved.wait();
  timers.use_on_this_thread();
  timers.check_thread();
}

// A compiler that took the thread for a constant would use the one from before the suspension.
TEST_F(threads, coroutine_takes_a_loop_along_to_another_thread) {
  open();
  event moved;
  run_then_take_along(timers, moved);
  std::thread{[&] {
    moved.come(1);
    p.arm(1ms);
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(p.fired, 1);
  }}.join();
  timers.close();
}

TEST_F(threads, closed_service_stays_closed_when_handed_over) {
  open();
  p.arm(1h);
  timers.close();
  std::thread{[&] {
    timers.use_on_this_thread();
    EXPECT_EQ(p.timeout.arm(1ms), UV_ECANCELED);
    EXPECT_EQ(p.timeout.arm_at(tickwheel::clock::now() + 1h), UV_ECANCELED);
    EXPECT_FALSE(p.timeout.cancel());
  }}.join();
}

TEST_F(threads, two_loops_run_on_two_threads) {
  const auto serve = [] {
    live_loop own;
    timer_service service;
    ASSERT_EQ(service.open(own), 0);
    probe repeats{service};
    repeats.then = [&] {
      if (repeats.fired < 50) repeats.arm(500us);
    };
    repeats.arm(1ms);
    own.run();
    EXPECT_EQ(repeats.fired, 50);
  };
  std::thread other{serve};
  serve();
  other.join();
}

}  // namespace
