// Connections on which nothing moves, on a clock turned by hand.
#include <tickwheel/net/all_idle_timeout.hpp>

#include "../../uv/support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>

using namespace std::chrono_literals;

namespace {

class peer {
 public:
  explicit peer(tickwheel::timer_service& timers) : idle{timers, *this} {}
  int evicted = 0;

 private:
  void on_idle() noexcept { ++evicted; }

 public:
  tickwheel::all_idle_timeout<&peer::on_idle> idle;
};

class asked_peer {
 public:
  explicit asked_peer(tickwheel::timer_service& timers) : idle{timers, *this} {}
  std::size_t queue = 0;
  int evicted = 0;

 private:
  void on_idle() noexcept { ++evicted; }
  std::size_t queued() const noexcept { return queue; }

 public:
  tickwheel::all_idle_timeout<&asked_peer::on_idle, &asked_peer::queued> idle;
};

TEST(all_idle_timeout, comes_when_nothing_moves_and_nothing_is_queued) {
  manual_service service;
  peer p{service.timers};
  ASSERT_EQ(p.idle.start(10s), 0);
  service.advance(10s - 1ns);
  EXPECT_EQ(p.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(p.evicted, 1);
}

TEST(all_idle_timeout, comes_when_nothing_is_read_and_none_of_what_is_queued_is_taken) {
  manual_service service;
  peer p{service.timers};
  ASSERT_EQ(p.idle.start(10s), 0);
  service.advance(5s);
  p.idle.add_queued(1000);  // our doing
  service.advance(1s);
  p.idle.set_queued(2000);  // as is this
  service.advance(4s - 1ns);
  EXPECT_EQ(p.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(p.evicted, 1);
}

TEST(all_idle_timeout, does_not_come_while_the_peer_sends_though_it_takes_nothing) {
  manual_service service;
  peer p{service.timers};
  ASSERT_EQ(p.idle.start(10s), 0);
  p.idle.add_queued(1000);
  for (int i = 0; i < 100; ++i) {
    service.advance(9s);
    p.idle.touch();
    p.idle.set_queued(1000);
  }
  EXPECT_EQ(p.evicted, 0);
}

TEST(all_idle_timeout, does_not_come_while_the_peer_takes_slowly_though_it_sends_nothing) {
  manual_service service;
  peer p{service.timers};
  ASSERT_EQ(p.idle.start(10s), 0);
  p.idle.add_queued(1000);
  for (std::size_t i = 1; i <= 100; ++i) {
    service.advance(9s);
    p.idle.set_queued(1000 - i);
  }
  EXPECT_EQ(p.evicted, 0);
  service.advance(10s + service.tick());
  EXPECT_EQ(p.evicted, 1);
}

TEST(all_idle_timeout, sees_what_was_taken_behind_what_was_added) {
  manual_service service;
  peer p{service.timers};
  ASSERT_EQ(p.idle.start(10s), 0);
  p.idle.add_queued(1000);
  for (int i = 0; i < 100; ++i) {
    service.advance(9s);
    p.idle.add_queued(10);
    p.idle.set_queued(1000);
  }
  EXPECT_EQ(p.evicted, 0);
}

TEST(all_idle_timeout, counts_from_when_the_last_byte_was_taken) {
  manual_service service;
  peer p{service.timers};
  ASSERT_EQ(p.idle.start(10s), 0);
  p.idle.add_queued(1000);
  service.advance(9s);
  p.idle.set_queued(0);
  service.advance(10s - 1ns);
  EXPECT_EQ(p.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(p.evicted, 1);
}

TEST(all_idle_timeout, does_not_count_while_it_is_paused) {
  manual_service service;
  peer p{service.timers};
  ASSERT_EQ(p.idle.start(10s), 0);
  service.advance(4s);
  p.idle.pause();
  service.advance(1h);
  p.idle.resume();
  service.advance(6s - 1ns);
  EXPECT_EQ(p.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(p.evicted, 1);
}

TEST(all_idle_timeout, in_a_pool_forgets_what_was_queued_in_an_earlier_use) {
  manual_service service;
  peer p{service.timers};
  ASSERT_EQ(p.idle.start(10s), 0);
  p.idle.add_queued(1000);
  ASSERT_EQ(p.idle.start(10s), 0);
  service.advance(5s);
  p.idle.set_queued(0);  // nothing was taken, as nothing was queued
  service.advance(5s + service.tick());
  EXPECT_EQ(p.evicted, 1);
}

TEST(all_idle_timeout, scales_with_load) {
  manual_service service;
  tickwheel::load_factor load;
  peer p{service.timers};
  ASSERT_EQ(load.set(0.5), 0);
  ASSERT_EQ(p.idle.start(tickwheel::idle_limit::scaled(10s, 50s, load)), 0);
  service.advance(30s - 1ns);
  EXPECT_EQ(p.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(p.evicted, 1);
}

TEST(all_idle_timeout, with_a_limit_that_cannot_be_is_refused) {
  manual_service service;
  peer p{service.timers};
  EXPECT_EQ(p.idle.start(-1s), UV_EINVAL);
  EXPECT_FALSE(p.idle.armed());
}

TEST(an_all_idle_timeout_that_asks, does_not_take_a_slow_reader_of_one_large_write_for_an_idle_one) {
  manual_service service;
  asked_peer p{service.timers};
  p.queue = 1'000'000;
  ASSERT_EQ(p.idle.start(10s), 0);
  for (int i = 0; i < 100; ++i) {
    service.advance(9s);
    p.queue -= 1;
  }
  EXPECT_EQ(p.evicted, 0);
  service.advance(12500ms + 10 * service.tick());  // asked four times a limit, each time a tick late at most
  EXPECT_EQ(p.evicted, 1);
}

TEST(an_all_idle_timeout_that_asks, comes_exactly_when_it_was_last_touched_a_limit_ago) {
  manual_service service;
  asked_peer p{service.timers};
  ASSERT_EQ(p.idle.start(10s), 0);
  service.advance(3333ms);
  p.idle.touch();
  service.advance(10s - 1ns);
  EXPECT_EQ(p.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(p.evicted, 1);
}

}  // namespace
