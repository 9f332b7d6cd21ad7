// The simulated clock on which other tests and the benchmarks wait: a loop that waits ends where it is told to.
#include "../../support/simulated_clock.hpp"
#include "../support/live_loop.hpp"

namespace {

// libuv waits again until its timeout is over, unless something is ready.
TEST(simulated_clock, ends_a_wait_of_a_loop_in_any_millisecond) {
  const simulated_clock::scope simulated;
  simulated_clock::set(1000s + 345'678ns);
  uv_loop_t loop;
  uv_loop_init(&loop);
  uv_async_t end;
  uv_async_init(&loop, &end, [](uv_async_t* h) { uv_stop(h->loop); });
  uv_unref(reinterpret_cast<uv_handle_t*>(&end));
  uv_timer_t timer;
  bool fired = false;
  timer.data = &fired;
  uv_timer_init(&loop, &timer);
  uv_timer_start(
      &timer, [](uv_timer_t* t) { *static_cast<bool*>(t->data) = true; }, 100, 0);

  for (const std::chrono::nanoseconds after : {345'678ns, 400'000ns, 999'000ns, 50'000'000ns, 99'000'000ns}) {
    const auto until = 1000s + after;
    simulated_clock::wait_at_most_until(until, [&] { uv_async_send(&end); });
    EXPECT_NE(uv_run(&loop, UV_RUN_DEFAULT), 0);
    EXPECT_EQ(simulated_clock::now(), until);
    EXPECT_FALSE(fired);
  }
  simulated_clock::wait_at_most_until(24h);
  EXPECT_EQ(uv_run(&loop, UV_RUN_DEFAULT), 0);
  EXPECT_TRUE(fired);

  uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&end), nullptr);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

}  // namespace
