// What the loop's own stalls do to the clock that idle peers are judged by.
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>

using namespace std::chrono_literals;

namespace {

TEST(responsive_time, is_the_time_while_nothing_stalls) {
  manual_service service;
  service.advance(1h);
  EXPECT_EQ(service.timers.responsive_now(), service.timers.now());
  EXPECT_EQ(service.timers.stats().stalls, 0U);
}

TEST(responsive_time, leaves_out_what_an_iteration_took_beyond_the_grace) {
  manual_service service{{.stall_grace = 10ms}};
  const auto begin = service.timers.responsive_now();
  service.time.block(35ms);
  service.advance(0ns);
  EXPECT_EQ(service.timers.responsive_now() - begin, 10ms);
  EXPECT_EQ(service.timers.stalled_for(), 25ms);
  EXPECT_EQ(service.timers.stats().stalls, 1U);
  EXPECT_EQ(service.timers.stats().stalled, 25ms);
}

TEST(responsive_time, leaves_out_a_stall_in_the_iteration_that_it_is_still_part_of) {
  manual_service service{{.stall_grace = 10ms}};
  service.advance(1ms);
  const auto begin = service.timers.responsive_now();
  service.time.block(35ms);
  const auto true_time = service.timers.read_clock();
  EXPECT_EQ(service.timers.responsive(true_time) - begin, 10ms);
  service.advance(0ns);
  EXPECT_EQ(service.timers.responsive(true_time) - begin, 10ms);
}

TEST(responsive_time, counts_an_iteration_at_or_below_the_grace) {
  manual_service service{{.stall_grace = 10ms}};
  const auto begin = service.timers.responsive_now();
  service.time.block(10ms);
  service.advance(0ns);
  EXPECT_EQ(service.timers.responsive_now() - begin, 10ms);
  EXPECT_EQ(service.timers.stats().stalls, 0U);
}

TEST(responsive_time, adds_up_all_blocks_of_one_iteration) {
  manual_service service{{.stall_grace = 10ms}};
  for (int i = 0; i < 4; ++i) service.time.block(5ms);
  service.advance(0ns);
  EXPECT_EQ(service.timers.stalled_for(), 10ms);
}

TEST(responsive_time, counts_each_iteration_of_its_own) {
  manual_service service{{.stall_grace = 10ms}};
  for (int i = 0; i < 4; ++i) {
    service.time.block(9ms);
    service.advance(0ns);
  }
  EXPECT_EQ(service.timers.stalled_for(), 0ns);
}

TEST(responsive_time, leaves_out_what_a_handler_blocked) {
  manual_service service{{.stall_grace = 10ms}};
  probe p{service.timers, [&] { service.time.block(30ms); }};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  service.advance(1s);
  EXPECT_EQ(service.timers.stalled_for(), 20ms);
}

TEST(responsive_time, is_the_plain_clock_when_the_grace_is_endless) {
  manual_service service{{.stall_grace = std::chrono::nanoseconds::max()}};
  service.time.block(10h);
  service.advance(0ns);
  EXPECT_EQ(service.timers.responsive_now(), service.timers.now());
}

TEST(a_plain_timer, is_not_put_off_by_stalls) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(50ms), 0);
  service.time.block(51ms);
  service.advance(0ns);
  EXPECT_EQ(p.fired, 1);
}

}  // namespace
