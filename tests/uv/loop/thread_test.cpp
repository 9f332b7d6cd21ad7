// One thread runs a loop and its timers; misuse from another is named.
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

using namespace std::chrono_literals;
using tickwheel::timer_service;

namespace {

class wrong_thread_death : public testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }

  template <class F>
  static void on_another_thread(F call) {
    std::thread{call}.join();
  }
};

TEST_F(wrong_thread_death, arm_stops_the_process) {
  manual_service service;
  probe p{service.timers};
  EXPECT_DEATH(on_another_thread([&] { p.arm(1s); }), "tickwheel: .*thread");
}

TEST_F(wrong_thread_death, cancel_stops_the_process) {
  manual_service service;
  probe p{service.timers};
  p.arm(1h);
  EXPECT_DEATH(on_another_thread([&] { p.timeout.cancel(); }), "tickwheel: .*thread");
}

TEST_F(wrong_thread_death, unref_of_armed_timer_stops_the_process) {
  manual_service service;
  probe p{service.timers};
  p.arm(1h);
  EXPECT_DEATH(on_another_thread([&] { p.timeout.unref(); }), "tickwheel: .*thread");
}

TEST(threads, loop_may_run_on_another_thread) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  probe second{timers};
  probe first{timers, 1ms, [&] { second.arm(1ms); }};
  std::thread runner{[&] {
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(first.fired, 1);
    EXPECT_EQ(second.fired, 1);
    first.arm(1h);
    EXPECT_TRUE(first.timeout.cancel());
  }};
  runner.join();
  timers.close();
}

// The timer callbacks of libuv 1.44 come before the loop's first poll, by which the service learns who runs it.
TEST(threads, loop_may_be_handed_over_before_it_polled) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  probe p{timers};
  std::thread runner{[&] {
    timers.use_on_this_thread();
    p.arm(1ms);
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(p.fired, 1);
    p.arm(1h);
  }};
  runner.join();
  timers.use_on_this_thread();
  EXPECT_TRUE(p.timeout.cancel());
}

TEST(threads, two_loops_run_on_two_threads) {
  const auto serve = [] {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop), 0);
    probe p{timers};
    p.then = [&] {
      if (p.fired < 50) p.arm(500us);
    };
    p.arm(1ms);
    loop.run();
    EXPECT_EQ(p.fired, 50);
  };
  std::thread other{serve};
  serve();
  other.join();
}

}  // namespace
