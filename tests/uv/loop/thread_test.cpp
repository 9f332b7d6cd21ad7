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

TEST_F(wrong_thread_death, stops_arming_and_names_the_thread) {
  manual_service service;
  probe p{service.timers};
  EXPECT_DEATH(on_another_thread([&] { p.arm(1s); }), "tickwheel: .*thread");
}

TEST_F(wrong_thread_death, stops_cancelling_and_names_the_thread) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(1h), 0);
  EXPECT_DEATH(on_another_thread([&] { p.timeout.cancel(); }), "tickwheel: .*thread");
}

TEST_F(wrong_thread_death, stops_changing_the_reference_of_an_armed_timer_and_names_the_thread) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(1h), 0);
  EXPECT_DEATH(on_another_thread([&] { p.timeout.unref(); }), "tickwheel: .*thread");
}

TEST(a_loop_opened_on_one_thread, may_be_run_by_another) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  probe second{timers};
  probe first{timers, [&] { EXPECT_EQ(second.timeout.arm(1ms), 0); }};
  ASSERT_EQ(first.timeout.arm(1ms), 0);
  std::thread runner{[&] {
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(first.fired, 1);
    EXPECT_EQ(second.fired, 1);
    EXPECT_EQ(first.timeout.arm(1h), 0);
    EXPECT_TRUE(first.timeout.cancel());
  }};
  runner.join();
  timers.close();
}

// The timer callbacks of libuv 1.44 come before the loop's first poll, by which the service learns who runs it.
TEST(a_loop_opened_on_one_thread, may_be_handed_to_another_before_it_has_polled) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  probe p{timers};
  std::thread runner{[&] {
    timers.use_on_this_thread();
    EXPECT_EQ(p.timeout.arm(1ms), 0);
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(p.fired, 1);
    EXPECT_EQ(p.timeout.arm(1h), 0);
  }};
  runner.join();
  timers.use_on_this_thread();
  EXPECT_TRUE(p.timeout.cancel());
}

TEST(two_loops_on_two_threads, have_timers_of_their_own) {
  const auto serve = [] {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop), 0);
    probe p{timers};
    p.then = [&] {
      if (p.fired < 50) p.arm(500us);
    };
    ASSERT_EQ(p.timeout.arm(1ms), 0);
    loop.run();
    EXPECT_EQ(p.fired, 50);
  };
  std::thread other{serve};
  serve();
  other.join();
}

}  // namespace
