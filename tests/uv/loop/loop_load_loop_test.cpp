// How busy a libuv loop is, to the nanosecond: on simulated time, in both orders of libuv's phases, and on a live loop.
#include "../support/turned_loop.hpp"

#include <tickwheel/uv/timer.hpp>

using std::chrono::nanoseconds;
using tickwheel::timer_service;

namespace {

class loop_load : public testing::TestWithParam<loop_order> {
 protected:
  void SetUp() override {
    ASSERT_EQ(timers.open(loop), 0);
    begun = turned_loop::now();
  }
  nanoseconds busy() { return timers.stats().busy; }
  nanoseconds idle() { return timers.stats().idle; }

  turned_loop loop{GetParam()};
  timer_service timers;
  turned_loop::time_point begun;
};

// Half of the iterations are busy for less than a millisecond, which libuv's own time does not show.
TEST_P(loop_load, callbacks_that_use_the_service_count_exactly) {
  nanoseconds worked{};
  for (int i = 0; i < 200; ++i) {
    const nanoseconds takes = (i % 20 + 1) * 97us;
    worked += takes;
    loop.readable_at(begun + i * 2'345'678ns + 1ms, [&, takes] {
      (void)timers.now();
      turned_loop::block(takes);
    });
  }
  tickwheel::callback_timer last{timers, []() noexcept {}};
  ASSERT_EQ(last.arm(1s), 0);
  loop.run();
  const nanoseconds until = turned_loop::now() - begun;
  loop.turn();
  EXPECT_EQ(busy(), worked);
  EXPECT_LE(busy() + idle(), until);
  EXPECT_GE(busy() + idle(), 1s);
  EXPECT_EQ(timers.stats().iterations.max(), 20 * 97us);
}

TEST_P(loop_load, other_callbacks_count_up_to_a_millisecond_less) {
  for (int i = 0; i < 100; ++i) loop.readable_at(begun + i * 7'654'321ns + 1ms, [] { turned_loop::block(3ms); });
  tickwheel::callback_timer last{timers, []() noexcept {}};
  ASSERT_EQ(last.arm(1s), 0);
  loop.run();
  loop.turn();
  EXPECT_LE(busy(), 100 * 3ms);
  EXPECT_GE(busy(), 100 * 2ms);
}

TEST_P(loop_load, handlers_count_exactly) {
  int fired = 0;
  const auto work = [&fired]() noexcept {
    turned_loop::block(250us);
    ++fired;
  };
  std::deque<tickwheel::callback_timer<decltype(work)>> all;
  for (int i = 1; i <= 50; ++i) ASSERT_EQ(all.emplace_back(timers, work).arm(i * 20ms), 0);
  loop.run();
  loop.turn();
  EXPECT_EQ(fired, 50);
  EXPECT_EQ(busy(), 50 * 250us);
}

TEST_P(loop_load, time_outside_the_loop_is_neither) {
  tickwheel::callback_timer once{timers, []() noexcept {}};
  ASSERT_EQ(once.arm(10ms), 0);
  loop.run();
  turned_loop::block(1h);
  (void)timers.now();
  ASSERT_EQ(once.arm(10ms), 0);
  loop.run();
  loop.turn();
  EXPECT_LE(busy(), 1ms);
  EXPECT_LE(busy() + idle(), 30ms);
}

INSTANTIATE_TEST_SUITE_P(each_order, loop_load, testing::ValuesIn(both_orders),
                         [](const auto& tested) { return std::string{name_of(tested.param)}; });

// libuv's own loop, which waits in simulated time.
TEST(live_loop_load, adds_up_to_the_time_of_the_loop) {
  const simulated_clock::scope simulated;
  simulated_clock::set(1000s + 345'678ns);
  simulated_clock::wait_at_most_until(24h);
  uv_loop_t loop;
  ASSERT_EQ(uv_loop_init(&loop), 0);
  {
    timer_service timers;
    ASSERT_EQ(timers.open(loop), 0);
    const auto begun = tickwheel::clock::now();
    tickwheel::callback_timer work{timers, []() noexcept { turned_loop::block(7ms); }};
    ASSERT_EQ(work.arm(100ms), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    const auto until = tickwheel::clock::now();
    ASSERT_EQ(work.arm(100ms), 0);  // the last iteration counts once the loop runs again
    uv_run(&loop, UV_RUN_NOWAIT);
    EXPECT_EQ(timers.stats().busy, 7ms);
    EXPECT_EQ(timers.stats().busy + timers.stats().idle, until - begun);
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

}  // namespace
