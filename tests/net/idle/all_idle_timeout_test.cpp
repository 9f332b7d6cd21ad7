// Connections on which nothing moves, on a clock turned by hand.
#include <tickwheel/net/all_idle_timeout.hpp>

#include "../support/subject_test.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>

using namespace std::chrono_literals;

namespace {

class all_idle_timeout : public subject_test<owner_of<tickwheel::all_idle_timeout<&owner::on_time>>> {};

struct asked_peer : owner {
  explicit asked_peer(tickwheel::timer_service& service) : owner{service}, timer{service, *this} {}
  void on_idle() noexcept { on_time(); }
  std::size_t queued() const noexcept { return queue; }

  std::size_t queue = 0;
  tickwheel::all_idle_timeout<&asked_peer::on_idle, &asked_peer::queued> timer;
};

TEST_F(all_idle_timeout, expires_when_nothing_is_read_and_none_taken) {
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(5s);
  c.timer.add_queued(1000);  // our doing
  advance(1s);
  c.timer.set_queued(2000);  // as is this
  EXPECT_TRUE(fires_in(4s));
}

TEST_F(all_idle_timeout, does_not_expire_while_peer_sends) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.add_queued(1000);
  for (int i = 0; i < 100; ++i) {
    advance(9s);
    c.timer.touch();
    c.timer.set_queued(1000);
  }
  EXPECT_EQ(c.fired, 0);
}

TEST_F(all_idle_timeout, does_not_expire_while_peer_takes_slowly) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.add_queued(1000);
  for (std::size_t i = 1; i <= 100; ++i) {
    advance(9s);
    c.timer.set_queued(1000 - i);
  }
  EXPECT_EQ(c.fired, 0);
  EXPECT_EQ(fired_after(10s + tick()), 1);
}

TEST_F(all_idle_timeout, sees_bytes_taken_behind_added_ones) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.add_queued(1000);
  for (int i = 0; i < 100; ++i) {
    advance(9s);
    c.timer.add_queued(10);
    c.timer.set_queued(1000);
  }
  EXPECT_EQ(c.fired, 0);
}

TEST_F(all_idle_timeout, counts_from_last_taken_byte) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.add_queued(1000);
  advance(9s);
  c.timer.set_queued(0);
  EXPECT_TRUE(fires_in(10s));
}

TEST_F(all_idle_timeout, start_forgets_queue_of_earlier_use) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.add_queued(1000);
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(5s);
  c.timer.set_queued(0);  // nothing was taken, as nothing was queued
  EXPECT_EQ(fired_after(5s + tick()), 1);
}

TEST_F(all_idle_timeout, scales_with_load) {
  tickwheel::load_factor load;
  ASSERT_EQ(load.set(0.5), 0);
  ASSERT_EQ(c.timer.start(tickwheel::idle_limit::scaled(10s, 50s, load)), 0);
  EXPECT_TRUE(fires_in(30s));
}

TEST_F(all_idle_timeout, invalid_limit_is_refused) {
  EXPECT_EQ(c.timer.start(-1s), UV_EINVAL);
  EXPECT_FALSE(c.timer.armed());
}

TEST_F(all_idle_timeout, that_asks_sees_slow_reader_of_large_write) {
  asked_peer p{service.timers};
  p.queue = 1'000'000;
  ASSERT_EQ(p.timer.start(10s), 0);
  for (int i = 0; i < 100; ++i) {
    advance(9s);
    p.queue -= 1;
  }
  EXPECT_EQ(p.fired, 0);
  advance(12500ms + 10 * tick());  // asked four times a limit, each time a tick late at most
  EXPECT_EQ(p.fired, 1);
}

TEST_F(all_idle_timeout, that_asks_expires_a_limit_after_touch) {
  asked_peer p{service.timers};
  ASSERT_EQ(p.timer.start(10s), 0);
  advance(3333ms);
  p.timer.touch();
  EXPECT_TRUE(fires_in(p.fired, 10s));
}

}  // namespace
