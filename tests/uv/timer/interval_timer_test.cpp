// A timer at a fixed rate: on its grid, without drift, and without bursts. Its contract: tests/net/conformance.
#include "../support/probe.hpp"

using time_point = tickwheel::clock::time_point;

namespace {

/// An interval whose handler notes when it ran, and then does what the test wants.
class interval_timer : public manual_test {
 protected:
  void on_beat() noexcept {
    beats.push_back(timers.read_clock());
    if (const auto call = then) call();
  }

  std::vector<time_point> beats;
  std::function<void()> then;
  tickwheel::interval_timer<&interval_timer::on_beat> interval{timers, *this};
};

TEST_F(interval_timer, does_not_drift_over_a_thousand_periods) {
  const auto begin = service.time.now();
  const auto period = 10'000'019ns;  // no multiple of a tick, so that every period is rounded
  ASSERT_EQ(interval.start(period), 0);
  service.advance(1000 * period + service.tick());
  ASSERT_EQ(beats.size(), 1000U);
  for (std::size_t i = 0; i < 1000; ++i) {
    const auto due = begin + static_cast<int>(i + 1) * period;
    EXPECT_GE(beats[i], due);
    EXPECT_LE(beats[i], due + service.tick());
  }
}

TEST_F(interval_timer, does_not_drift_when_its_handler_takes_time) {
  then = [&] { service.time.block(3ms); };
  const auto begin = service.time.now();
  ASSERT_EQ(interval.start(10ms), 0);
  service.advance(1s + service.tick());
  ASSERT_EQ(beats.size(), 100U);
  EXPECT_LE(beats.back(), begin + 1s + service.tick());
}

TEST_F(interval_timer, missed_periods_are_skipped) {
  const auto begin = service.time.now();
  ASSERT_EQ(interval.start(10ms), 0);
  service.advance(10ms + service.tick());
  ASSERT_EQ(beats.size(), 1U);
  service.time.block(75ms);
  service.advance(0ns);
  EXPECT_EQ(beats.size(), 2U) << "one late call, and no burst";
  service.advance(begin + 91ms - service.time.now());
  ASSERT_EQ(beats.size(), 3U);
  EXPECT_GE(beats[2], begin + 90ms);
  EXPECT_LE(beats[2], begin + 90ms + service.tick());
}

TEST_F(interval_timer, delay_keeps_a_period_after_a_late_call) {
  ASSERT_EQ(interval.start(10ms, tickwheel::missed_periods::delay), 0);
  service.advance(10ms + service.tick());
  ASSERT_EQ(beats.size(), 1U);
  service.time.block(75ms);
  service.advance(0ns);
  ASSERT_EQ(beats.size(), 2U) << "one late call, and no burst";
  service.advance(beats[1] + 10ms - 1ns - service.time.now());
  EXPECT_EQ(beats.size(), 2U);
  service.advance(1ns + service.tick());
  EXPECT_EQ(beats.size(), 3U);
}

TEST_F(interval_timer, delay_is_forgotten_by_the_next_start) {
  ASSERT_EQ(interval.start(10ms, tickwheel::missed_periods::delay), 0);
  const auto begin = service.time.now();
  ASSERT_EQ(interval.start(10ms), 0);
  service.time.block(75ms);
  service.advance(0ns);
  ASSERT_EQ(beats.size(), 1U);
  service.advance(begin + 80ms + service.tick() - service.time.now());
  EXPECT_EQ(beats.size(), 2U);
}

TEST_F(interval_timer, slow_handler_is_called_once_per_return) {
  then = [&] {
    service.time.block(25ms);
    if (beats.size() == 10) interval.cancel();
  };
  ASSERT_EQ(interval.start(10ms), 0);
  service.advance(1s);
  ASSERT_EQ(beats.size(), 10U);
  for (std::size_t i = 1; i < 10; ++i) {
    EXPECT_GE(beats[i] - beats[i - 1], 25ms);
    EXPECT_LE(beats[i] - beats[i - 1], 35ms);
  }
}

TEST_F(interval_timer, handler_starts_it_with_another_period) {
  then = [&] {
    then = {};
    EXPECT_EQ(interval.start(100ms), 0);
  };
  ASSERT_EQ(interval.start(10ms), 0);
  service.advance(10ms + service.tick());
  ASSERT_EQ(beats.size(), 1U);
  service.advance(99ms);
  EXPECT_EQ(beats.size(), 1U);
  service.advance(202ms);
  EXPECT_EQ(beats.size(), 4U);
}

TEST_F(interval_timer, keeps_its_place_while_handler_arms_others) {
  reopen({.max_armed = 1});
  probe other{timers};
  then = [&] { EXPECT_EQ(other.timeout.arm(1ms), UV_ENOBUFS); };
  ASSERT_EQ(interval.start(10ms), 0);
  service.advance(101ms);
  EXPECT_EQ(beats.size(), 10U);
}

TEST_F(interval_timer, period_below_a_tick_fires_once_per_tick) {
  ASSERT_EQ(interval.start(1ns), 0);
  service.advance(100 * service.tick());
  EXPECT_GE(beats.size(), 99U);
  EXPECT_LE(beats.size(), 101U);
}

}  // namespace
