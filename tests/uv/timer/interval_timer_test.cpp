// A timer at a fixed rate: on its grid, without drift, and without bursts.
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

using namespace std::chrono_literals;
using time_point = tickwheel::clock::time_point;

namespace {

class metronome {
 public:
  explicit metronome(tickwheel::timer_service& timers) : interval{timers, *this}, timers_{timers} {}

  std::vector<time_point> beats;
  std::function<void()> then;

 private:
  void on_beat() noexcept {
    beats.push_back(timers_.read_clock());
    const auto call = then;
    if (call) call();
  }

 public:
  tickwheel::interval_timer<&metronome::on_beat> interval;

 private:
  tickwheel::timer_service& timers_;
};

TEST(interval_timer, calls_first_after_one_period) {
  manual_service service;
  metronome m{service.timers};
  ASSERT_EQ(m.interval.start(10ms), 0);
  service.advance(10ms - 1ns);
  EXPECT_TRUE(m.beats.empty());
  service.advance(service.tick());
  EXPECT_EQ(m.beats.size(), 1U);
}

TEST(interval_timer, does_not_drift_over_a_thousand_periods) {
  manual_service service;
  metronome m{service.timers};
  const auto begin = service.time.now();
  const auto period = 10'000'019ns;  // no multiple of a tick, so that every period is rounded
  ASSERT_EQ(m.interval.start(period), 0);
  service.advance(1000 * period + service.tick());
  ASSERT_EQ(m.beats.size(), 1000U);
  for (std::size_t i = 0; i < 1000; ++i) {
    const auto due = begin + static_cast<int>(i + 1) * period;
    EXPECT_GE(m.beats[i], due);
    EXPECT_LE(m.beats[i], due + service.tick());
  }
}

TEST(interval_timer, does_not_drift_when_its_handler_takes_time) {
  manual_service service;
  metronome m{service.timers};
  m.then = [&] { service.time.block(3ms); };
  const auto begin = service.time.now();
  ASSERT_EQ(m.interval.start(10ms), 0);
  service.advance(1s + service.tick());
  ASSERT_EQ(m.beats.size(), 100U);
  EXPECT_LE(m.beats.back(), begin + 1s + service.tick());
}

TEST(interval_timer, skips_what_it_missed_in_a_pause_and_goes_on_on_its_grid) {
  manual_service service;
  metronome m{service.timers};
  const auto begin = service.time.now();
  ASSERT_EQ(m.interval.start(10ms), 0);
  service.advance(10ms + service.tick());
  ASSERT_EQ(m.beats.size(), 1U);
  service.time.block(75ms);
  service.advance(0ns);
  EXPECT_EQ(m.beats.size(), 2U) << "one late call, and no burst";
  service.advance(begin + 91ms - service.time.now());
  ASSERT_EQ(m.beats.size(), 3U);
  EXPECT_GE(m.beats[2], begin + 90ms);
  EXPECT_LE(m.beats[2], begin + 90ms + service.tick());
}

TEST(interval_timer, with_a_handler_longer_than_the_period_is_called_once_for_each_time_it_is_through) {
  manual_service service;
  metronome m{service.timers};
  m.then = [&] {
    service.time.block(25ms);
    if (m.beats.size() == 10) m.interval.cancel();
  };
  ASSERT_EQ(m.interval.start(10ms), 0);
  service.advance(1s);
  ASSERT_EQ(m.beats.size(), 10U);
  for (std::size_t i = 1; i < 10; ++i) {
    EXPECT_GE(m.beats[i] - m.beats[i - 1], 25ms);
    EXPECT_LE(m.beats[i] - m.beats[i - 1], 35ms);
  }
}

TEST(interval_timer, may_be_cancelled_by_its_handler) {
  manual_service service;
  metronome m{service.timers};
  m.then = [&] { EXPECT_TRUE(m.interval.cancel()); };
  ASSERT_EQ(m.interval.start(10ms), 0);
  service.advance(1s);
  EXPECT_EQ(m.beats.size(), 1U);
  EXPECT_FALSE(m.interval.armed());
}

TEST(interval_timer, may_be_destroyed_by_its_handler) {
  manual_service service;
  auto m = std::make_unique<metronome>(service.timers);
  m->then = [&] { m.reset(); };
  ASSERT_EQ(m->interval.start(10ms), 0);
  service.advance(1s);
  EXPECT_EQ(m, nullptr);
  EXPECT_EQ(service.timers.stats().fired, 1U);
}

TEST(interval_timer, may_be_started_anew_by_its_handler_with_another_period) {
  manual_service service;
  metronome m{service.timers};
  m.then = [&] {
    m.then = {};
    EXPECT_EQ(m.interval.start(100ms), 0);
  };
  ASSERT_EQ(m.interval.start(10ms), 0);
  service.advance(10ms + service.tick());
  ASSERT_EQ(m.beats.size(), 1U);
  service.advance(99ms);
  EXPECT_EQ(m.beats.size(), 1U);
  service.advance(202ms);
  EXPECT_EQ(m.beats.size(), 4U);
}

TEST(interval_timer, whose_handler_closes_the_service_stops) {
  manual_service service;
  metronome m{service.timers};
  m.then = [&] { service.timers.close(); };
  ASSERT_EQ(m.interval.start(10ms), 0);
  service.time.advance(1s);
  EXPECT_EQ(m.beats.size(), 1U);
  EXPECT_FALSE(m.interval.armed());
  EXPECT_EQ(m.interval.start(10ms), UV_ECANCELED);
}

TEST(interval_timer, started_twice_begins_anew) {
  manual_service service;
  metronome m{service.timers};
  ASSERT_EQ(m.interval.start(10ms), 0);
  service.advance(9ms);
  ASSERT_EQ(m.interval.start(10ms), 0);
  service.advance(9ms);
  EXPECT_TRUE(m.beats.empty());
  service.advance(2ms);
  EXPECT_EQ(m.beats.size(), 1U);
  EXPECT_EQ(service.timers.stats().pending, 1U);
}

TEST(interval_timer, refuses_a_period_that_is_not_positive_and_goes_on_as_before) {
  manual_service service;
  metronome m{service.timers};
  EXPECT_EQ(m.interval.start(0s), UV_EINVAL);
  EXPECT_EQ(m.interval.start(-1s), UV_EINVAL);
  EXPECT_FALSE(m.interval.armed());
  ASSERT_EQ(m.interval.start(10ms), 0);
  EXPECT_EQ(m.interval.start(0s), UV_EINVAL);
  service.advance(101ms);
  EXPECT_EQ(m.beats.size(), 10U);
}

TEST(interval_timer, refused_at_the_limit_of_armed_timers_is_not_started) {
  manual_service service{{.max_armed = 1}};
  probe other{service.timers};
  metronome m{service.timers};
  ASSERT_EQ(other.timeout.arm(1h), 0);
  EXPECT_EQ(m.interval.start(10ms), UV_ENOBUFS);
  EXPECT_FALSE(m.interval.armed());
}

TEST(interval_timer, keeps_its_place_at_the_limit_while_its_handler_arms_others) {
  manual_service service{{.max_armed = 1}};
  metronome m{service.timers};
  probe other{service.timers};
  m.then = [&] { EXPECT_EQ(other.timeout.arm(1ms), UV_ENOBUFS); };
  ASSERT_EQ(m.interval.start(10ms), 0);
  service.advance(101ms);
  EXPECT_EQ(m.beats.size(), 10U);
}

TEST(interval_timer, with_a_period_shorter_than_a_tick_comes_at_most_once_a_tick) {
  manual_service service;
  metronome m{service.timers};
  ASSERT_EQ(m.interval.start(1ns), 0);
  service.advance(100 * service.tick());
  EXPECT_GE(m.beats.size(), 99U);
  EXPECT_LE(m.beats.size(), 101U);
}

TEST(interval_timer, with_the_longest_period_stays_armed) {
  manual_service service;
  metronome m{service.timers};
  ASSERT_EQ(m.interval.start(std::chrono::hours::max()), 0);
  service.advance(24h * 365 * 200);
  EXPECT_TRUE(m.interval.armed());
  EXPECT_TRUE(m.beats.empty());
}

}  // namespace
