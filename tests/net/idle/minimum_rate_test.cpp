// Slow peers on a clock turned by hand.
#include <tickwheel/net/minimum_rate.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

using namespace std::chrono_literals;
using tickwheel::rate_limits;

namespace {

using time_point = tickwheel::clock::time_point;

constexpr rate_limits usual{.bytes_per_second = 1000, .grace = 5s, .interval = 1s};

/// A connection that notes when its peer was too slow.
class connection {
 public:
  explicit connection(tickwheel::timer_service& timers, std::function<void()> what = {})
      : rate{timers, *this}, then{std::move(what)}, timers_{timers} {}

  int cut = 0;
  time_point at{};

 private:
  void on_too_slow() noexcept {
    ++cut;
    at = timers_.read_clock();
    const auto call = then;
    if (call) call();
  }

 public:
  tickwheel::minimum_rate<&connection::on_too_slow> rate;
  std::function<void()> then;

 private:
  tickwheel::timer_service& timers_;
};

/// The peer moves `bytes` every `period`, for `count` periods.
void move_steadily(manual_service& service, connection& c, std::size_t bytes, std::chrono::nanoseconds period,
                   int count) {
  for (int i = 0; i < count; ++i) {
    service.advance(period);
    c.rate.progress(bytes);
  }
}

TEST(minimum_rate, cuts_a_silent_peer_once_the_grace_is_over) {
  manual_service service;
  connection c{service.timers};
  const auto begin = service.time.now();
  ASSERT_EQ(c.rate.start(usual), 0);
  service.advance(usual.grace - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.cut, 1);
  EXPECT_GE(c.at, begin + usual.grace);
  EXPECT_FALSE(c.rate.armed());
  EXPECT_EQ(c.rate.credit(), 0s);
}

TEST(minimum_rate, never_cuts_a_peer_that_is_just_fast_enough) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  move_steadily(service, c, 100, 100ms, 10'000);
  EXPECT_EQ(c.cut, 0);
}

TEST(minimum_rate, never_cuts_a_peer_whose_bursts_are_no_farther_apart_than_the_grace) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  move_steadily(service, c, 4999, 4999ms, 1000);
  EXPECT_EQ(c.cut, 0);
}

TEST(minimum_rate, cuts_a_peer_that_is_a_little_too_slow_when_that_adds_up_to_the_grace) {
  manual_service service;
  connection c{service.timers};
  const auto begin = service.time.now();
  ASSERT_EQ(c.rate.start(usual), 0);
  move_steadily(service, c, 90, 100ms, 1000);  // a tenth behind: 5 s of it after 50 s, 90 ms less just before a report
  ASSERT_EQ(c.cut, 1);
  EXPECT_GE(c.at, begin + 49s);
  EXPECT_LE(c.at, begin + 50s + usual.interval);
}

TEST(minimum_rate, cuts_a_peer_that_trickles) {
  manual_service service;
  connection c{service.timers};
  const auto begin = service.time.now();
  ASSERT_EQ(c.rate.start(usual), 0);
  move_steadily(service, c, 1, 500ms, 20);
  ASSERT_EQ(c.cut, 1);
  EXPECT_LE(c.at, begin + usual.grace + 100ms);
}

TEST(minimum_rate, lets_nobody_save_up_more_than_the_grace) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  service.advance(500ms);
  c.rate.progress(1'000'000'000);
  const auto last = service.time.now();
  service.advance(usual.grace - 500ms);
  EXPECT_EQ(c.cut, 0);
  service.advance(1h);
  ASSERT_EQ(c.cut, 1);
  EXPECT_GE(c.at, last + usual.grace);
  EXPECT_LE(c.at, last + usual.grace + usual.interval + 6 * service.tick());
}

TEST(minimum_rate, cuts_silent_peer_that_is_an_hour_ahead) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  c.rate.progress(3'600 * usual.bytes_per_second);
  const auto last = service.time.now();
  service.advance(usual.grace - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(usual.interval + 1ns + 2 * service.tick());
  ASSERT_EQ(c.cut, 1);
  EXPECT_GE(c.at, last + usual.grace);
}

TEST(minimum_rate, counts_any_number_of_bytes) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start({.bytes_per_second = 1, .grace = 5s}), 0);
  c.rate.progress(std::numeric_limits<std::size_t>::max());
  service.advance(4s);
  EXPECT_GE(c.rate.credit(), 0s);
  EXPECT_LE(c.rate.credit(), 5s);
  EXPECT_EQ(c.cut, 0);
}

TEST(minimum_rate, counts_fractions_of_a_nanosecond_to_the_peers_favour) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start({.bytes_per_second = 3'000'000'000, .grace = 1s, .interval = 1ms}), 0);
  move_steadily(service, c, 3'000'000, 1ms, 5000);
  EXPECT_EQ(c.cut, 0);
}

TEST(minimum_rate, says_what_credit_is_left) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  EXPECT_EQ(c.rate.credit(), 5s);
  service.advance(3s + 500ms);
  EXPECT_LE(c.rate.credit(), 2s);
  EXPECT_GE(c.rate.credit(), 2s - 6 * service.tick());
}

TEST(minimum_rate, looks_about_once_an_interval) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  move_steadily(service, c, 2000, 1s, 100);
  EXPECT_LE(service.time.wakeups(), 100U * 3);  // with the steps that a timer takes from coarse slots
  EXPECT_EQ(c.cut, 0);
}

TEST(minimum_rate, looks_no_oftener_than_sixteen_times_an_interval_at_a_peer_with_hardly_any_credit) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  service.advance(4900ms);
  const auto before = service.timers.stats().fired;
  move_steadily(service, c, 1, 1ms, 5000);  // on the spot
  EXPECT_EQ(c.cut, 0);
  EXPECT_LE(service.timers.stats().fired - before, 5U * 16 + 1);
}

TEST(minimum_rate, with_a_grace_shorter_than_its_interval_looks_when_the_grace_is_over) {
  manual_service service;
  connection c{service.timers};
  const auto begin = service.time.now();
  ASSERT_EQ(c.rate.start({.bytes_per_second = 1000, .grace = 100ms, .interval = 1s}), 0);
  service.advance(1h);
  ASSERT_EQ(c.cut, 1);
  EXPECT_GE(c.at, begin + 100ms);
  EXPECT_LE(c.at, begin + 100ms + 2 * service.tick());
}

TEST(minimum_rate, does_not_charge_the_peer_with_a_stall_of_ours) {
  manual_service service{{.stall_grace = 10ms}};
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  service.time.block(1h + 10ms);
  service.advance(usual.grace - 10ms - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.cut, 1);
}

TEST(minimum_rate, does_not_charge_the_peer_with_a_stall_in_a_handler_of_the_same_pass) {
  manual_service service{{.stall_grace = 10ms}};
  connection c{service.timers};
  probe blocker{service.timers, [&] { service.time.block(30s); }};
  ASSERT_EQ(c.rate.start(usual), 0);
  ASSERT_EQ(blocker.timeout.arm(4999ms), 0);
  service.advance(5s);
  EXPECT_EQ(c.cut, 0);
  service.advance(1s);
  EXPECT_EQ(c.cut, 1);
}

TEST(minimum_rate, stands_still_while_paused) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  service.advance(3s);
  c.rate.pause();
  EXPECT_TRUE(c.rate.paused());
  EXPECT_TRUE(c.rate.armed());
  service.advance(24h);
  EXPECT_EQ(c.cut, 0);
  c.rate.resume();
  EXPECT_FALSE(c.rate.paused());
  service.advance(2s - 1ns);
  EXPECT_EQ(c.cut, 0) << "the pause was charged";
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.cut, 1) << "the pause was a new grace";
}

TEST(minimum_rate, stands_still_in_a_pause_that_begins_and_ends_between_two_checks) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  for (int i = 0; i < 50; ++i) {
    service.advance(50ms);
    c.rate.pause();
    service.advance(50ms);
    c.rate.resume();
  }
  service.advance(2500ms - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.cut, 1);
}

// The time of the iteration was read before a callback blocked, and the start came after it: the pause begins no earlier.
TEST(minimum_rate, pause_right_after_late_start_counts_from_it) {
  manual_service service{{.stall_grace = 10ms}};
  service.timers.now();
  service.time.block(8ms);
  connection c{service.timers};
  ASSERT_EQ(c.rate.start({.bytes_per_second = 1000, .grace = 100ms, .interval = 100ms}), 0);
  c.rate.pause();
  service.advance(1s);
  c.rate.resume();
  service.advance(100ms - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.cut, 1);
}

TEST(minimum_rate, counts_a_stall_during_a_pause_once) {
  manual_service service{{.stall_grace = 10ms}};
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  c.rate.pause();
  service.time.block(1h);
  service.advance(1s);
  c.rate.resume();
  service.advance(usual.grace - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.cut, 1);
}

TEST(minimum_rate, counts_bytes_that_come_in_a_pause) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  service.advance(4s);
  c.rate.pause();
  c.rate.progress(5000);
  c.rate.resume();
  service.advance(4s);
  EXPECT_EQ(c.cut, 0);
}

TEST(minimum_rate, paused_twice_is_resumed_by_one_call) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  c.rate.pause();
  service.advance(1h);
  c.rate.pause();
  service.advance(1h);
  c.rate.resume();
  c.rate.resume();
  service.advance(usual.grace - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.cut, 1);
}

TEST(minimum_rate, keeps_its_place_at_the_limit_of_armed_timers_while_paused) {
  manual_service service{{.max_armed = 1}};
  connection c{service.timers};
  connection other{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  c.rate.pause();
  service.advance(1h);
  EXPECT_EQ(other.rate.start(usual), UV_ENOBUFS);
  c.rate.resume();
  service.advance(1h);
  EXPECT_EQ(c.cut, 1);
}

TEST(minimum_rate, starts_anew_with_the_full_grace_and_without_a_pause) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  service.advance(4s);
  c.rate.pause();
  c.rate.progress(1'000'000);
  ASSERT_EQ(c.rate.start(usual), 0);
  EXPECT_FALSE(c.rate.paused());
  EXPECT_EQ(c.rate.credit(), 5s);
  service.advance(usual.grace - 1ns);
  EXPECT_EQ(c.cut, 0);
  service.advance(1ns + 2 * service.tick());
  EXPECT_EQ(c.cut, 1) << "bytes of an earlier use were counted";
}

TEST(minimum_rate, that_was_cancelled_stays_so) {
  manual_service service;
  connection c{service.timers};
  EXPECT_FALSE(c.rate.cancel());
  ASSERT_EQ(c.rate.start(usual), 0);
  EXPECT_TRUE(c.rate.cancel());
  EXPECT_FALSE(c.rate.cancel());
  c.rate.progress(1);
  c.rate.pause();
  c.rate.resume();
  EXPECT_FALSE(c.rate.armed());
  service.advance(1h);
  EXPECT_EQ(c.cut, 0);
}

TEST(minimum_rate, that_was_not_started_is_not_started_by_a_pause) {
  manual_service service;
  connection c{service.timers};
  c.rate.progress(1);
  c.rate.pause();
  EXPECT_FALSE(c.rate.paused());
  c.rate.resume();
  EXPECT_FALSE(c.rate.armed());
}

TEST(minimum_rate, refuses_limits_that_cannot_be_and_names_the_field) {
  manual_service service;
  connection c{service.timers};
  const auto refused = [&](const rate_limits& limits) {
    EXPECT_EQ(c.rate.start(limits), UV_EINVAL);
    EXPECT_FALSE(c.rate.armed());
    const char* const problem = limits.problem();
    return std::string{problem != nullptr ? problem : ""};
  };
  EXPECT_EQ(refused({.bytes_per_second = 0}), "rate_limits::bytes_per_second is zero");
  EXPECT_EQ(refused({.grace = 0s}), "rate_limits::grace is not positive");
  EXPECT_EQ(refused({.grace = -1s}), "rate_limits::grace is not positive");
  EXPECT_EQ(refused({.interval = 0s}), "rate_limits::interval is not positive");
  EXPECT_EQ(refused({.interval = std::chrono::nanoseconds::min()}), "rate_limits::interval is not positive");
  EXPECT_EQ(rate_limits{}.problem(), nullptr);
}

TEST(minimum_rate, that_is_refused_other_limits_keeps_its_own) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  EXPECT_EQ(c.rate.start({.grace = 0s}), UV_EINVAL);
  EXPECT_EQ(c.rate.limits().grace, usual.grace);
  service.advance(usual.grace + 2 * service.tick());
  EXPECT_EQ(c.cut, 1);
}

TEST(minimum_rate, with_an_endless_grace_never_cuts) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.rate.start({.grace = std::chrono::nanoseconds::max(), .interval = std::chrono::nanoseconds::max()}), 0);
  service.advance(24h * 365 * 100);
  c.rate.progress(1000);
  service.advance(24h * 365 * 100);
  EXPECT_EQ(c.cut, 0);
  EXPECT_TRUE(c.rate.armed());
}

TEST(minimum_rate, is_refused_at_the_limit_of_armed_timers_and_once_the_service_is_closed) {
  manual_service service{{.max_armed = 1}};
  connection a{service.timers};
  connection b{service.timers};
  ASSERT_EQ(a.rate.start(usual), 0);
  EXPECT_EQ(b.rate.start(usual), UV_ENOBUFS);
  service.timers.close();
  EXPECT_EQ(a.rate.start(usual), UV_ECANCELED);
  a.rate.progress(1);
  a.rate.pause();
  a.rate.resume();
  EXPECT_FALSE(a.rate.armed());
}

TEST(minimum_rate, may_be_paused_cancelled_and_destroyed_after_its_service) {
  tickwheel::manual_driver time;
  auto timers = std::make_unique<tickwheel::timer_service>();
  ASSERT_EQ(timers->open(time), 0);
  connection c{*timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  timers.reset();
  c.rate.pause();
  c.rate.resume();
  EXPECT_FALSE(c.rate.paused());
  EXPECT_FALSE(c.rate.cancel());
}

TEST(minimum_rate, may_be_destroyed_with_its_owner_in_its_handler) {
  manual_service service;
  auto c = std::make_unique<connection>(service.timers);
  c->then = [&] { c.reset(); };
  ASSERT_EQ(c->rate.start(usual), 0);
  service.advance(1h);
  EXPECT_EQ(c, nullptr);
}

TEST(minimum_rate, may_be_started_again_in_its_handler) {
  manual_service service;
  connection c{service.timers};
  c.then = [&] { EXPECT_EQ(c.rate.start(usual), 0); };
  ASSERT_EQ(c.rate.start(usual), 0);
  service.advance(50s + 100 * service.tick());
  EXPECT_EQ(c.cut, 10);
}

TEST(minimum_rate, may_close_the_service_in_its_handler) {
  manual_service service;
  connection c{service.timers, [&] { service.timers.close(); }};
  connection other{service.timers};
  ASSERT_EQ(c.rate.start(usual), 0);
  ASSERT_EQ(other.rate.start({.grace = 6s}), 0);
  service.time.advance(1h);
  EXPECT_EQ(c.cut, 1);
  EXPECT_EQ(other.cut, 0);
}

TEST(minimum_rate, allocates_nothing) {
  manual_service service;
  connection c{service.timers};
  const auto before = allocations::count();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(c.rate.start(usual), 0);
    service.time.advance(2s);
    c.rate.progress(1000);
    c.rate.pause();
    service.time.advance(2s);
    c.rate.resume();
    service.time.advance(2s);
    c.rate.cancel();
  }
  EXPECT_EQ(allocations::count(), before);
}

TEST(minimum_rate, of_ten_thousand_connections_cuts_the_slow_half) {
  manual_service service;
  std::deque<connection> all;
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(all.emplace_back(service.timers).rate.start(usual), 0);
  for (int second = 0; second < 20; ++second) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i].rate.progress(i % 2 == 0 ? 1000 : 500);
    service.time.advance(1s);
  }
  service.check();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i].cut, static_cast<int>(i % 2)) << i;
}

}  // namespace
