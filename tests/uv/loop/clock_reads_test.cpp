// How often a wakeup reads the clock, on a live loop that waits in simulated time.
#include "../../support/simulated_clock.hpp"
#include "../support/live_loop.hpp"

#include <tickwheel/uv/detail/cycle_counter.hpp>
#include <tickwheel/uv/timer.hpp>

#include <deque>

namespace {

// libuv reads it when an iteration begins, and when its poll has returned.
constexpr std::size_t reads_of_libuv = 2;

struct clock_reads : ::testing::Test {
  clock_reads() {
    simulated_clock::set(1000s + 345'678ns);
    simulated_clock::wait_at_most_until(24h);
    uv_loop_init(&loop);
    uv_prepare_init(&loop, &counting);
    uv_unref(reinterpret_cast<uv_handle_t*>(&counting));
    uv_prepare_start(&counting, [](uv_prepare_t* h) { ++static_cast<clock_reads*>(h->data)->iterations; });
    counting.data = this;
    EXPECT_EQ(timers.open(loop), 0);
    uv_run(&loop, UV_RUN_NOWAIT);  // the first iteration of a loop that was just opened reads the clock more often
  }
  ~clock_reads() override {
    timers.close();
    uv_close(reinterpret_cast<uv_handle_t*>(&counting), nullptr);
    uv_run(&loop, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop), 0);
  }

  /// Runs the loop until nothing is armed. Returns how often we read the clock.
  std::size_t run() {
    iterations = 0;
    const std::size_t before = simulated_clock::reads();
    uv_run(&loop, UV_RUN_DEFAULT);
    return simulated_clock::reads() - before - iterations * reads_of_libuv;
  }

  const simulated_clock::scope simulated;
  uv_loop_t loop;
  uv_prepare_t counting;
  std::size_t iterations = 0;
  tickwheel::timer_service timers;
};

// One before each poll, one when the poll has waited for the timer, and two in a pass: when it begins and when it ends.
TEST_F(clock_reads, wakeup_for_one_timer_takes_few) {
  constexpr int count = 100;
  int fired = 0;
  const auto on_timeout = [&fired]() noexcept { ++fired; };
  std::deque<tickwheel::callback_timer<decltype(on_timeout)>> all;
  for (int i = 1; i <= count; ++i) ASSERT_EQ(all.emplace_back(timers, on_timeout).arm(i * 10ms), 0);
  const std::size_t reads = run();
  EXPECT_EQ(fired, count);
  const tickwheel::service_stats& stats = timers.stats();
  EXPECT_LE(stats.wakeups, count + 10U);    // a few are moves between slots
  EXPECT_LE(iterations, count + 15U);       // each waits for a timer
  EXPECT_LE(reads, 4 * (count + 10U) + 5);  // a pass that moves timers between slots reads it more often
}

// After 1, 4, 16, 32 and again 32 visits. The handlers themselves are timed by the processor's counter.
TEST_F(clock_reads, pass_with_many_timers_takes_few) {
  if (!tickwheel::detail::cycle_counter::is_steady()) GTEST_SKIP() << "no cycle counter";
  constexpr int count = 80;
  int fired = 0;
  const auto on_timeout = [&fired]() noexcept { ++fired; };
  std::deque<tickwheel::callback_timer<decltype(on_timeout)>> all;
  const auto when = timers.now() + 10ms;
  for (int i = 0; i < count; ++i) ASSERT_EQ(all.emplace_back(timers, on_timeout).arm_at(when), 0);
  EXPECT_LE(run(), 4U + 5U + 2U);
  EXPECT_EQ(fired, count);
}

}  // namespace
