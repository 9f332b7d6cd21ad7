// The effect of the loop's own stalls on the clock by which idle peers are judged.
#include "../support/probe.hpp"

namespace {

class responsive_time : public manual_test {
 protected:
  void SetUp() override { reopen({.stall_grace = 10ms}); }
  /// An iteration that takes so long, and the end of it.
  void iterate(std::chrono::nanoseconds time) {
    service.time.block(time);
    service.advance(0ns);
  }
};

TEST_F(responsive_time, equals_time_without_stalls) {
  service.advance(1h);
  EXPECT_EQ(timers.responsive_now(), timers.now());
  EXPECT_EQ(timers.stats().stalls, 0U);
}

TEST_F(responsive_time, leaves_out_time_beyond_grace) {
  const auto begin = timers.responsive_now();
  iterate(35ms);
  EXPECT_EQ(timers.responsive_now() - begin, 10ms);
  EXPECT_EQ(timers.stalled_for(), 25ms);
  EXPECT_EQ(timers.stats().stalls, 1U);
  EXPECT_EQ(timers.stats().stalled, 25ms);
}

TEST_F(responsive_time, leaves_out_stall_of_running_iteration) {
  service.advance(1ms);
  const auto begin = timers.responsive_now();
  service.time.block(35ms);
  const auto true_time = timers.read_clock();
  EXPECT_EQ(timers.responsive(true_time) - begin, 10ms);
  service.advance(0ns);
  EXPECT_EQ(timers.responsive(true_time) - begin, 10ms);
}

// Whoever opens the service may have blocked the loop before.
TEST_F(responsive_time, equals_time_when_the_service_is_opened_after_a_block) {
  timers.close();
  service.time.turn();
  service.time.block(200ms);
  ASSERT_EQ(timers.open(service.time, {.stall_grace = 10ms}), 0);
  EXPECT_EQ(timers.responsive_now(), timers.now());
  EXPECT_EQ(timers.opened_at(), timers.now());
  service.time.block(15ms);
  service.advance(0ns);
  EXPECT_EQ(timers.stalled_for(), 5ms);
  EXPECT_EQ(timers.stats().stalled, 5ms);
}

TEST_F(responsive_time, counts_iteration_within_grace) {
  const auto begin = timers.responsive_now();
  iterate(10ms);
  EXPECT_EQ(timers.responsive_now() - begin, 10ms);
  EXPECT_EQ(timers.stats().stalls, 0U);
}

TEST_F(responsive_time, blocks_of_one_iteration_add_up) {
  for (int i = 0; i < 4; ++i) service.time.block(5ms);
  service.advance(0ns);
  EXPECT_EQ(timers.stalled_for(), 10ms);
}

TEST_F(responsive_time, iterations_do_not_add_up) {
  for (int i = 0; i < 4; ++i) iterate(9ms);
  EXPECT_EQ(timers.stalled_for(), 0ns);
}

TEST_F(responsive_time, leaves_out_block_of_handler) {
  p.then = [&] { service.time.block(30ms); };
  p.arm(1ms);
  service.advance(1s);
  EXPECT_EQ(timers.stalled_for(), 20ms);
}

TEST_F(responsive_time, equals_time_if_grace_is_endless) {
  reopen({.stall_grace = std::chrono::nanoseconds::max()});
  iterate(10h);
  EXPECT_EQ(timers.responsive_now(), timers.now());
}

TEST_F(responsive_time, stalls_do_not_delay_timers) {
  p.arm(50ms);
  iterate(51ms);
  EXPECT_EQ(p.fired, 1);
}

}  // namespace
