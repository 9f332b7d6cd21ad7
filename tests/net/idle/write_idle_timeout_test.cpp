// Slow and stuck readers on manual time.
#include <tickwheel/net/write_idle_timeout.hpp>

#include "../../support/allocation_probe.hpp"
#include "../support/subject_test.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

using namespace std::chrono_literals;

namespace {

using sender = owner_of<tickwheel::write_idle_timeout<&owner::on_time>>;
class write_idle_timeout : public subject_test<sender> {};

/// A sender that is asked for its queue.
struct asked_sender : owner {
  explicit asked_sender(tickwheel::timer_service& service) : owner{service}, timer{service, *this} {}
  void on_idle() noexcept { on_time(); }
  std::size_t queued() const noexcept {
    ++asked;
    return queue;
  }

  std::size_t queue = 0;
  mutable int asked = 0;
  tickwheel::write_idle_timeout<&asked_sender::on_idle, &asked_sender::queued> timer;
};

TEST_F(write_idle_timeout, does_not_expire_while_nothing_is_queued) {
  ASSERT_EQ(c.timer.start(10s), 0);
  EXPECT_EQ(fired_after(24h), 0);
  EXPECT_TRUE(c.timer.armed());
}

TEST_F(write_idle_timeout, counts_from_first_queued_byte) {
  for (const bool by_adding : {false, true}) {
    sender each{service.timers};
    ASSERT_EQ(each.timer.start(10s), 0);
    advance(1234567us);
    by_adding ? each.timer.add_queued(1) : each.timer.set_queued(1);
    EXPECT_TRUE(fires_in(each.fired, 10s));
  }
}

TEST_F(write_idle_timeout, does_not_expire_while_peer_takes_slowly) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.set_queued(1000);
  for (std::size_t left = 999; left >= 900; --left) {
    advance(9s);
    c.timer.set_queued(left);  // one byte in nine seconds
  }
  EXPECT_EQ(c.fired, 0);
  EXPECT_TRUE(fires_in(10s));
}

TEST_F(write_idle_timeout, unchanged_queue_is_no_activity) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.set_queued(1000);
  for (int second = 0; second < 10; ++second) {
    EXPECT_EQ(c.fired, 0);
    advance(1s);
    c.timer.set_queued(1000);
  }
  EXPECT_EQ(fired_after(tick()), 1);
}

TEST_F(write_idle_timeout, longer_queue_is_no_activity) {
  for (const bool by_adding : {false, true}) {
    sender each{service.timers};
    ASSERT_EQ(each.timer.start(10s), 0);
    each.timer.set_queued(1000);
    for (std::size_t second = 1; second <= 10; ++second) {
      EXPECT_EQ(each.fired, 0);
      advance(1s);
      by_adding ? each.timer.add_queued(100) : each.timer.set_queued(1000 + second * 100);
    }
    advance(tick());
    EXPECT_EQ(each.fired, 1);
  }
}

TEST_F(write_idle_timeout, sees_bytes_taken_behind_added_ones) {
  // the queue is as long whenever it is looked at: the peer takes as much as is added
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.add_queued(1000);
  for (int i = 0; i < 100; ++i) {
    advance(9s);
    c.timer.add_queued(10);
    c.timer.set_queued(1000);
  }
  EXPECT_EQ(c.fired, 0);
}

TEST_F(write_idle_timeout, counts_anew_after_empty_queue) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.set_queued(1000);
  advance(9s);
  c.timer.set_queued(0);
  EXPECT_EQ(fired_after(1h), 0);
  c.timer.set_queued(1);
  EXPECT_TRUE(fires_in(10s));
}

TEST_F(write_idle_timeout, notifies_again_until_peer_takes_bytes) {
  std::vector<unsigned> notices;
  c.then = [&] {
    notices.push_back(c.timer.consecutive_timeouts());
    EXPECT_EQ(c.timer.notify_again(), 0);
  };
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.set_queued(1000);
  advance(25s);
  EXPECT_EQ(notices, (std::vector<unsigned>{1, 2}));
  c.timer.set_queued(999);
  EXPECT_EQ(c.timer.consecutive_timeouts(), 0U);
  advance(11s);
  EXPECT_EQ(notices, (std::vector<unsigned>{1, 2, 1}));
}

TEST_F(write_idle_timeout, resumed_with_empty_queue_does_not_expire) {
  ASSERT_EQ(c.timer.start(10s), 0);
  pause_for(1h);
  EXPECT_EQ(fired_after(1h), 0);
}

TEST_F(write_idle_timeout, start_forgets_queue_of_earlier_use) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.set_queued(1000);
  advance(5s);
  ASSERT_EQ(c.timer.start(10s), 0);
  EXPECT_EQ(fired_after(1h), 0);
}

TEST_F(write_idle_timeout, queue_does_not_start_it) {
  c.timer.add_queued(10);
  c.timer.set_queued(5);
  EXPECT_FALSE(c.timer.armed());
  EXPECT_EQ(fired_after(1h), 0);
}

TEST_F(write_idle_timeout, longest_queue_saturates) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.add_queued(std::numeric_limits<std::size_t>::max());
  c.timer.add_queued(1);
  advance(5s);
  c.timer.set_queued(std::numeric_limits<std::size_t>::max() - 1);
  EXPECT_TRUE(fires_in(10s));
}

TEST_F(write_idle_timeout, invalid_limit_is_refused) {
  const tickwheel::load_factor load;
  EXPECT_EQ(c.timer.start(0s), UV_EINVAL);
  EXPECT_EQ(c.timer.start(tickwheel::idle_limit::scaled(2s, 1s, load)), UV_EINVAL);
  EXPECT_FALSE(c.timer.armed());
}

TEST_F(write_idle_timeout, scales_with_load) {
  tickwheel::load_factor load;
  ASSERT_EQ(c.timer.start(tickwheel::idle_limit::scaled(10s, 50s, load)), 0);
  advance(25s);
  c.timer.set_queued(1);
  ASSERT_EQ(load.set(1), 0);
  EXPECT_EQ(fired_after(10s - 1ns), 0);
  EXPECT_EQ(fired_after(10s), 1);
}

TEST_F(write_idle_timeout, stall_does_not_count) {
  reopen({.stall_grace = 10ms});
  ASSERT_EQ(c.timer.start(1s), 0);
  c.timer.set_queued(1);
  service.time.block(5s);  // 4.99 s of it are ours
  EXPECT_EQ(fired_after(989ms), 0);
  EXPECT_EQ(fired_after(2ms), 1);
}

TEST_F(write_idle_timeout, queue_updates_allocate_nothing) {
  const auto before = allocations::count();
  ASSERT_EQ(c.timer.start(50ms), 0);
  for (std::size_t i = 1000; i > 0; --i) {
    c.timer.set_queued(i);
    service.time.advance(20ms);
  }
  EXPECT_EQ(allocations::count(), before);
}

class asking_write_idle_timeout : public subject_test<asked_sender> {};

TEST_F(asking_write_idle_timeout, sees_slow_reader_of_large_write) {
  // nobody is told while libuv sends a large buffer
  c.queue = 1'000'000;
  ASSERT_EQ(c.timer.start(10s), 0);
  for (int i = 0; i < 100; ++i) {
    advance(9s);
    c.queue -= 1;
  }
  EXPECT_EQ(c.fired, 0);
}

TEST_F(asking_write_idle_timeout, is_at_most_a_quarter_late) {
  for (int percent = 0; percent < 100; percent += 7) {
    asked_sender each{service.timers};
    each.queue = 1000;
    ASSERT_EQ(each.timer.start(10s), 0);
    advance(10s * percent / 100);
    each.queue = 500;  // and nothing from here on
    advance(10s - 1ns);
    EXPECT_EQ(each.fired, 0) << percent;
    advance(2500ms + 10 * tick());  // each of its visits may be a tick late
    EXPECT_EQ(each.fired, 1) << percent;
  }
}

TEST_F(asking_write_idle_timeout, need_not_be_told) {
  ASSERT_EQ(c.timer.start(10s), 0);
  EXPECT_EQ(fired_after(1h), 0);
  c.queue = 1;
  EXPECT_EQ(fired_after(10s - 1ns), 0);
  EXPECT_EQ(fired_after(2500ms + 10 * tick()), 1);
}

TEST_F(asking_write_idle_timeout, asks_four_times_per_limit) {
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(1000s);
  EXPECT_LE(c.asked, 401);
  EXPECT_GE(c.asked, 399);
}

TEST_F(asking_write_idle_timeout, forgets_queue_of_earlier_use) {
  c.queue = 1000;
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(9s);
  c.queue = 0;
  ASSERT_EQ(c.timer.start(10s), 0);
  EXPECT_EQ(fired_after(1h), 0);
}

}  // namespace
