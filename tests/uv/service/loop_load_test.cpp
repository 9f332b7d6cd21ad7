// How busy a loop is, on manual time.
#include "../support/probe.hpp"

namespace {

struct loop_load : manual_test {
  std::chrono::nanoseconds busy() const { return timers.stats().busy; }
  std::chrono::nanoseconds idle() const { return timers.stats().idle; }
};

TEST_F(loop_load, waiting_is_idle_time) {
  p.arm(1h);
  service.advance(2h);
  service.advance(0ns);
  EXPECT_EQ(busy(), 0ns);
  EXPECT_EQ(idle(), 2h);
}

TEST_F(loop_load, handlers_are_busy_time) {
  p.then = [&] { service.time.block(3ms); };
  p.arm(10ms);
  service.advance(1s);
  service.advance(0ns);
  EXPECT_EQ(busy(), 3ms);
  EXPECT_EQ(busy() + idle(), 1s);
}

TEST_F(loop_load, callbacks_of_others_are_busy_time) {
  service.advance(1s);
  service.time.block(20ms);
  service.advance(0ns);
  EXPECT_EQ(busy(), 20ms);
  EXPECT_EQ(idle(), 1s);
}

TEST_F(loop_load, late_poll_is_idle_time) {
  service.time.oversleep(5ms);
  service.advance(0ns);
  EXPECT_EQ(busy(), 0ns);
  EXPECT_EQ(idle(), 5ms);
}

TEST_F(loop_load, each_iteration_counts_once) {
  const auto before = timers.stats().iterations.count();
  for (const auto took : {2ms, 7ms, 4ms}) {
    service.time.block(took);
    service.time.turn();
  }
  const auto& iterations = timers.stats().iterations;
  EXPECT_EQ(iterations.count() - before, 3U);
  EXPECT_EQ(iterations.sum(), 13ms);
  EXPECT_EQ(iterations.max(), 7ms);
}

TEST_F(loop_load, longest_iteration_names_the_handler_that_took_most) {
  reopen({.time_per_pass = 1s});
  probe slow{timers, [&] { service.time.block(6ms); }}, slower{timers, [&] { service.time.block(9ms); }};
  slow.arm(1ms);
  service.advance(1s);
  service.advance(0ns);
  EXPECT_EQ(timers.stats().slowest_in_longest.took, 6ms);
  slow.arm(1ms);
  slower.arm(1ms);
  service.advance(1s);
  service.advance(0ns);
  EXPECT_EQ(timers.stats().iterations.max(), 15ms);
  EXPECT_EQ(timers.stats().slowest_in_longest.took, 15ms) << "both calls are of one handler";
  EXPECT_EQ(timers.stats().slowest_in_longest.handler, slower.timeout.handler());
  service.time.block(20ms);
  service.advance(0ns);
  EXPECT_EQ(timers.stats().slowest_in_longest.took, 0ns);
  EXPECT_EQ(timers.stats().slowest_in_longest.handler, nullptr);
}

TEST_F(loop_load, begins_anew_at_open) {
  service.time.block(2ms);
  service.advance(1s);
  service.time.block(4ms);
  reopen({});
  EXPECT_EQ(busy() + idle(), 0ns);
  EXPECT_EQ(timers.stats().iterations.count(), 0U);
  service.advance(3s);
  service.advance(0ns);
  EXPECT_EQ(busy(), 0ns);
  EXPECT_EQ(idle(), 3s);
}

}  // namespace
