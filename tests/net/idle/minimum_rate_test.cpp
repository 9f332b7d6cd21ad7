// Slow peers on a clock turned by hand.
#include <tickwheel/net/minimum_rate.hpp>

#include "../support/subject_test.hpp"

#include <limits>

using tickwheel::rate_limits;

namespace {

constexpr rate_limits usual{.bytes_per_second = 1000, .grace = 5s, .interval = 1s};

using connection = owner_of<tickwheel::minimum_rate<&owner::on_time>>;

class minimum_rate : public subject_test<connection> {
 protected:
  /// The peer moves `bytes` every `period`, for `count` periods.
  void move_steadily(std::size_t bytes, std::chrono::nanoseconds period, int count) {
    for (int i = 0; i < count; ++i) {
      advance(period);
      c.timer.progress(bytes);
    }
  }
};

TEST_F(minimum_rate, silent_peer_expires_after_grace) {
  const auto begin = service.time.now();
  ASSERT_EQ(c.timer.start(usual), 0);
  EXPECT_TRUE(fires_in(usual.grace, 2));
  EXPECT_GE(c.at, begin + usual.grace);
  EXPECT_FALSE(c.timer.armed());
  EXPECT_EQ(c.timer.credit(), 0s);
}

TEST_F(minimum_rate, peer_at_minimum_rate_does_not_expire) {
  ASSERT_EQ(c.timer.start(usual), 0);
  move_steadily(100, 100ms, 10'000);
  EXPECT_EQ(c.fired, 0);
}

TEST_F(minimum_rate, bursts_within_grace_do_not_expire) {
  ASSERT_EQ(c.timer.start(usual), 0);
  move_steadily(4999, 4999ms, 1000);
  EXPECT_EQ(c.fired, 0);
}

TEST_F(minimum_rate, slightly_slow_peer_expires_a_grace_behind) {
  const auto begin = service.time.now();
  ASSERT_EQ(c.timer.start(usual), 0);
  move_steadily(90, 100ms, 1000);  // a tenth behind: 5 s of it after 50 s, 90 ms less just before a report
  ASSERT_EQ(c.fired, 1);
  EXPECT_GE(c.at, begin + 49s);
  EXPECT_LE(c.at, begin + 50s + usual.interval);
}

TEST_F(minimum_rate, trickling_peer_expires_after_grace) {
  const auto begin = service.time.now();
  ASSERT_EQ(c.timer.start(usual), 0);
  move_steadily(1, 500ms, 20);
  ASSERT_EQ(c.fired, 1);
  EXPECT_LE(c.at, begin + usual.grace + 100ms);
}

// However many bytes it has moved, at once or after a while, the peer may be silent for one grace.
TEST_F(minimum_rate, credit_is_at_most_the_grace) {
  for (const auto wait : {0ms, 500ms}) {
    connection each{service.timers};
    ASSERT_EQ(each.timer.start(usual), 0);
    advance(wait);
    each.timer.progress(1'000'000'000);
    const auto last = service.time.now();
    advance(usual.grace - 1ns);
    EXPECT_EQ(each.fired, 0);
    advance(usual.interval + 1ns + 2 * tick());
    EXPECT_EQ(each.fired, 1);
    EXPECT_GE(each.at, last + usual.grace);
  }
}

// As a caller may report that does not know how many bytes there were.
TEST_F(minimum_rate, more_bytes_than_a_count_has_are_as_many_as_it_has) {
  ASSERT_EQ(c.timer.start(usual), 0);
  advance(usual.grace - 1ms);
  c.timer.progress(std::numeric_limits<std::size_t>::max());
  c.timer.progress(1);
  advance(usual.grace - 100ms);
  EXPECT_EQ(c.fired, 0);
}

// The last byte comes right after the first check.
TEST_F(minimum_rate, silent_peer_expires_at_most_grace_and_interval_later) {
  for (std::chrono::nanoseconds grace = 1004ms; grace < 3s; grace += 7ms) {
    connection each{service.timers};
    ASSERT_EQ(each.timer.start({.bytes_per_second = 240, .grace = grace, .interval = 1s}), 0);
    advance(1s + 2 * tick());
    each.timer.progress(1'000'000);
    advance(grace + 1s + 2 * tick());
    EXPECT_EQ(each.fired, 1) << grace.count();
  }
}

// Bytes count as of the next check.
TEST_F(minimum_rate, peer_behind_by_grace_and_interval_expires) {
  ASSERT_EQ(c.timer.start(usual), 0);
  advance(10ms);
  c.timer.progress(1'000'000'000);
  advance(usual.grace + usual.interval - 30ms);
  EXPECT_EQ(c.fired, 0);
  move_steadily(10, 10ms, 10);
  EXPECT_EQ(c.fired, 0);
  move_steadily(9, 10ms, 1000);
  EXPECT_EQ(c.fired, 1);
}

// A verdict that waits for input is as of a time before that input.
TEST_F(minimum_rate, bytes_since_time_of_verdict_bring_the_whole_grace) {
  constexpr rate_limits quick{.bytes_per_second = 240, .grace = 200ms, .interval = 50ms};
  ASSERT_EQ(c.timer.start(quick), 0);
  service.time.block(300ms);
  auto last = service.time.now();
  const auto turn_and_sleep = [&](std::chrono::nanoseconds time) {
    service.time.turn();
    service.time.oversleep(time);
  };
  for (int i = 0; i < 110; ++i) {
    turn_and_sleep(5ms);
    c.timer.progress(1000);
    last = service.time.now();
  }
  while (service.time.now() < last + quick.grace) turn_and_sleep(1ms);
  EXPECT_EQ(c.fired, 0);
  while (service.time.now() < last + quick.grace + 2 * quick.interval) turn_and_sleep(1ms);
  EXPECT_EQ(c.fired, 1);
}

// The verdict after a block is as of a time before a pause, and comes after it.
TEST_F(minimum_rate, pause_between_time_of_verdict_and_verdict_is_not_charged) {
  for (const bool is_put_off : {false, true}) {
    ASSERT_EQ(c.timer.start({.bytes_per_second = 100, .grace = 500ms, .interval = 100ms}), 0);
    const int fired = c.fired;
    turn_with_input(50ms);
    c.timer.progress(1000);
    turn_with_input(146ms);
    service.time.block(100ms);
    service.timers.update_now();
    if (is_put_off) {
      c.timer.pause();
      c.timer.resume();
    }
    service.time.block(1ms);
    turn_with_input(5ms);
    c.timer.pause();
    turn_with_input(160ms);
    c.timer.resume();
    turn_with_input(360ms);
    EXPECT_EQ(c.fired, fired)
        << is_put_off;  // it was silent for 96 ms since the check, a stall's grace of 10, 5 and 360
    turn_with_input(150ms);
    EXPECT_EQ(c.fired, fired + 1) << is_put_off;
    c.timer.cancel();
  }
}

// The credit was over before a pause, and its verdict was put off. The bytes that then come are enough, or are not. A block follows, and
// the owner pauses before the next bytes are read.
TEST_F(minimum_rate, verdict_that_bytes_have_refuted_is_not_given_in_the_next_pause) {
  reopen({.stall_grace = std::chrono::nanoseconds::max()});
  for (const bool are_enough : {true, false}) {
    ASSERT_EQ(c.timer.start({.bytes_per_second = 100, .grace = 500ms, .interval = 100ms}), 0);
    const int fired = c.fired;
    service.time.oversleep(600ms);
    c.timer.pause();
    advance(1s);
    c.timer.resume();
    service.turn();
    c.timer.progress(are_enough ? 55 : 1);
    service.turn();
    service.time.block(600ms);
    c.timer.pause();
    advance(1s);
    EXPECT_EQ(c.fired, fired + (are_enough ? 0 : 1));
    c.timer.resume();
    service.turn();
    c.timer.progress(1000);
    advance(450ms);
    EXPECT_EQ(c.fired, fired + (are_enough ? 0 : 1));
    c.timer.cancel();
  }
}

// A check that was put off runs in the next pause, and is as of the resume before. The bytes in between bring the whole grace from
// there.
TEST_F(minimum_rate, bytes_before_a_pause_bring_the_whole_grace) {
  reopen({.stall_grace = std::chrono::nanoseconds::max()});
  ASSERT_EQ(c.timer.start({.bytes_per_second = 100, .grace = 500ms, .interval = 100ms}), 0);
  service.time.oversleep(120ms);
  c.timer.pause();
  c.timer.resume();
  service.turn();
  service.time.oversleep(300ms);
  c.timer.progress(10'000);
  c.timer.pause();
  service.turn();
  service.turn();
  c.timer.resume();
  EXPECT_EQ(fired_after(499ms), 0);
  EXPECT_EQ(fired_after(101ms), 1);
}

TEST_F(minimum_rate, counts_any_number_of_bytes) {
  ASSERT_EQ(c.timer.start({.bytes_per_second = 1, .grace = 5s}), 0);
  c.timer.progress(std::numeric_limits<std::size_t>::max());
  advance(4s);
  EXPECT_GE(c.timer.credit(), 0s);
  EXPECT_LE(c.timer.credit(), 5s);
  EXPECT_EQ(c.fired, 0);
}

TEST_F(minimum_rate, fractions_of_nanosecond_favour_peer) {
  ASSERT_EQ(c.timer.start({.bytes_per_second = 3'000'000'000, .grace = 1s, .interval = 1ms}), 0);
  move_steadily(3'000'000, 1ms, 5000);
  EXPECT_EQ(c.fired, 0);
}

TEST_F(minimum_rate, tells_remaining_credit) {
  ASSERT_EQ(c.timer.start(usual), 0);
  EXPECT_EQ(c.timer.credit(), 5s);
  advance(3s + 500ms);
  EXPECT_LE(c.timer.credit(), 2s);
  EXPECT_GE(c.timer.credit(), 2s - 6 * tick());
}

TEST_F(minimum_rate, checks_about_once_per_interval) {
  ASSERT_EQ(c.timer.start(usual), 0);
  move_steadily(2000, 1s, 100);
  EXPECT_LE(service.time.wakeups(), 100U * 3);  // with the steps that a timer takes from coarse slots
  EXPECT_EQ(c.fired, 0);
}

TEST_F(minimum_rate, checks_at_most_16_times_per_interval) {
  ASSERT_EQ(c.timer.start(usual), 0);
  advance(4900ms);
  const auto before = service.timers.stats().fired;
  move_steadily(1, 1ms, 5000);  // on the spot
  EXPECT_EQ(c.fired, 0);
  EXPECT_LE(service.timers.stats().fired - before, 5U * 16 + 1);
}

TEST_F(minimum_rate, grace_shorter_than_interval_is_checked_in_time) {
  const auto begin = service.time.now();
  ASSERT_EQ(c.timer.start({.bytes_per_second = 1000, .grace = 100ms, .interval = 1s}), 0);
  ASSERT_EQ(fired_after(1h), 1);
  EXPECT_GE(c.at, begin + 100ms);
  EXPECT_LE(c.at, begin + 100ms + 2 * tick());
}

TEST_F(minimum_rate, bytes_during_pause_count) {
  ASSERT_EQ(c.timer.start(usual), 0);
  advance(4s);
  c.timer.pause();
  c.timer.progress(5000);
  c.timer.resume();
  EXPECT_EQ(fired_after(4s), 0);
}

TEST_F(minimum_rate, invalid_limits_are_refused_and_named) {
  const auto refused = [&](const rate_limits& limits) {
    EXPECT_EQ(c.timer.start(limits), UV_EINVAL);
    EXPECT_FALSE(c.timer.armed());
    const char* const problem = limits.problem();
    return std::string{problem != nullptr ? problem : ""};
  };
  EXPECT_EQ(refused({.bytes_per_second = 0}), "rate_limits::bytes_per_second is zero");
  EXPECT_EQ(refused({.grace = 0s}), "rate_limits::grace is not positive");
  EXPECT_EQ(refused({.grace = -1s}), "rate_limits::grace is not positive");
  EXPECT_EQ(refused({.interval = 0s}), "rate_limits::interval is not positive");
  EXPECT_EQ(refused({.interval = std::chrono::nanoseconds::min()}), "rate_limits::interval is not positive");
  EXPECT_EQ(rate_limits{}.problem(), nullptr);
  ASSERT_EQ(c.timer.start(usual), 0);
  EXPECT_EQ(c.timer.start({.grace = 0s}), UV_EINVAL);
  EXPECT_EQ(c.timer.limits().grace, usual.grace);
}

}  // namespace
