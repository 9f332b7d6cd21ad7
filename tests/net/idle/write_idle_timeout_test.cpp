// Slow and stuck readers on a clock turned by hand.
#include <tickwheel/net/write_idle_timeout.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>

using namespace std::chrono_literals;

namespace {

/// A connection that is told what is queued.
class sender {
 public:
  explicit sender(tickwheel::timer_service& timers) : idle{timers, *this} {}

  int evicted = 0;

 private:
  void on_idle() noexcept {
    ++evicted;
    if (const auto call = then) call();
  }

 public:
  tickwheel::write_idle_timeout<&sender::on_idle> idle;
  std::function<void()> then;
};

/// One that is asked.
class asked_sender {
 public:
  explicit asked_sender(tickwheel::timer_service& timers) : idle{timers, *this} {}

  std::size_t queue = 0;
  mutable int asked = 0;
  int evicted = 0;

 private:
  void on_idle() noexcept { ++evicted; }
  std::size_t queued() const noexcept {
    ++asked;
    return queue;
  }

 public:
  tickwheel::write_idle_timeout<&asked_sender::on_idle, &asked_sender::queued> idle;
};

TEST(write_idle_timeout, comes_when_bytes_are_queued_and_none_is_taken_for_the_limit) {
  manual_service service;
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  s.idle.set_queued(1000);
  service.advance(10s - 1ns);
  EXPECT_EQ(s.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(s.evicted, 1);
  EXPECT_FALSE(s.idle.armed());
}

TEST(write_idle_timeout, does_not_come_while_nothing_is_queued) {
  manual_service service;
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  service.advance(24h);
  EXPECT_EQ(s.evicted, 0);
  EXPECT_TRUE(s.idle.armed());
}

TEST(write_idle_timeout, counts_from_when_the_first_byte_was_queued) {
  for (const bool by_adding : {false, true}) {
    manual_service service;
    sender s{service.timers};
    ASSERT_EQ(s.idle.start(10s), 0);
    service.advance(1234567us);
    by_adding ? s.idle.add_queued(1) : s.idle.set_queued(1);
    service.advance(10s - 1ns);
    EXPECT_EQ(s.evicted, 0);
    service.advance(1ns + service.tick());
    EXPECT_EQ(s.evicted, 1);
  }
}

TEST(write_idle_timeout, does_not_take_a_slow_reader_for_an_idle_one) {
  manual_service service;
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  s.idle.set_queued(1000);
  for (std::size_t left = 999; left >= 900; --left) {
    service.advance(9s);
    s.idle.set_queued(left);  // one byte in nine seconds
  }
  EXPECT_EQ(s.evicted, 0);
  service.advance(10s - 1ns);
  EXPECT_EQ(s.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(s.evicted, 1);
}

TEST(write_idle_timeout, is_not_put_off_by_being_told_that_nothing_was_taken) {
  manual_service service;
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  s.idle.set_queued(1000);
  for (int second = 0; second < 10; ++second) {
    EXPECT_EQ(s.evicted, 0);
    service.advance(1s);
    s.idle.set_queued(1000);
  }
  service.advance(service.tick());
  EXPECT_EQ(s.evicted, 1);
}

TEST(write_idle_timeout, is_not_put_off_by_what_we_queue_on_top) {
  for (const bool by_adding : {false, true}) {
    manual_service service;
    sender s{service.timers};
    ASSERT_EQ(s.idle.start(10s), 0);
    s.idle.set_queued(1000);
    for (std::size_t second = 1; second <= 10; ++second) {
      EXPECT_EQ(s.evicted, 0);
      service.advance(1s);
      by_adding ? s.idle.add_queued(100) : s.idle.set_queued(1000 + second * 100);
    }
    service.advance(service.tick());
    EXPECT_EQ(s.evicted, 1);
  }
}

TEST(write_idle_timeout, sees_what_was_taken_behind_what_was_added) {
  // the queue is as long whenever it is looked at: the peer takes as much as is added
  manual_service service;
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  s.idle.add_queued(1000);
  for (int i = 0; i < 100; ++i) {
    service.advance(9s);
    s.idle.add_queued(10);
    s.idle.set_queued(1000);
  }
  EXPECT_EQ(s.evicted, 0);
}

TEST(write_idle_timeout, counts_anew_once_the_queue_was_empty) {
  manual_service service;
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  s.idle.set_queued(1000);
  service.advance(9s);
  s.idle.set_queued(0);
  service.advance(1h);
  EXPECT_EQ(s.evicted, 0);
  s.idle.set_queued(1);
  service.advance(10s - 1ns);
  EXPECT_EQ(s.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(s.evicted, 1);
}

TEST(write_idle_timeout, comes_again_until_the_peer_takes_something) {
  manual_service service;
  sender s{service.timers};
  std::vector<unsigned> notices;
  s.then = [&] {
    notices.push_back(s.idle.consecutive_timeouts());
    EXPECT_EQ(s.idle.notify_again(), 0);
  };
  ASSERT_EQ(s.idle.start(10s), 0);
  s.idle.set_queued(1000);
  service.advance(25s);
  EXPECT_EQ(notices, (std::vector<unsigned>{1, 2}));
  s.idle.set_queued(999);
  EXPECT_EQ(s.idle.consecutive_timeouts(), 0U);
  service.advance(11s);
  EXPECT_EQ(notices, (std::vector<unsigned>{1, 2, 1}));
}

TEST(write_idle_timeout, does_not_count_while_it_is_paused) {
  manual_service service;
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  s.idle.set_queued(1000);
  service.advance(4s);
  s.idle.pause();
  service.advance(1h);
  s.idle.resume();
  service.advance(6s - 1ns);
  EXPECT_EQ(s.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(s.evicted, 1);
}

TEST(write_idle_timeout, resumed_with_nothing_queued_does_not_come) {
  manual_service service;
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  s.idle.pause();
  service.advance(1h);
  s.idle.resume();
  service.advance(1h);
  EXPECT_EQ(s.evicted, 0);
}

TEST(write_idle_timeout, in_a_pool_forgets_what_was_queued_in_an_earlier_use) {
  manual_service service;
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  s.idle.set_queued(1000);
  service.advance(5s);
  ASSERT_EQ(s.idle.start(10s), 0);
  service.advance(1h);
  EXPECT_EQ(s.evicted, 0);
}

TEST(write_idle_timeout, that_is_not_started_is_not_started_by_being_told) {
  manual_service service;
  sender s{service.timers};
  s.idle.add_queued(10);
  s.idle.set_queued(5);
  EXPECT_FALSE(s.idle.armed());
  service.advance(1h);
  EXPECT_EQ(s.evicted, 0);
}

TEST(write_idle_timeout, saturates_where_more_is_queued_than_a_machine_can_hold) {
  manual_service service;
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  s.idle.add_queued(std::numeric_limits<std::size_t>::max());
  s.idle.add_queued(1);
  service.advance(5s);
  s.idle.set_queued(std::numeric_limits<std::size_t>::max() - 1);
  service.advance(10s - 1ns);
  EXPECT_EQ(s.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(s.evicted, 1);
}

TEST(write_idle_timeout, with_a_limit_that_cannot_be_is_refused) {
  manual_service service;
  const tickwheel::load_factor load;
  sender s{service.timers};
  EXPECT_EQ(s.idle.start(0s), UV_EINVAL);
  EXPECT_EQ(s.idle.start(tickwheel::idle_limit::scaled(2s, 1s, load)), UV_EINVAL);
  EXPECT_FALSE(s.idle.armed());
}

TEST(write_idle_timeout, scales_with_load) {
  manual_service service;
  tickwheel::load_factor load;
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(tickwheel::idle_limit::scaled(10s, 50s, load)), 0);
  service.advance(25s);
  s.idle.set_queued(1);
  ASSERT_EQ(load.set(1), 0);
  service.advance(10s - 1ns);
  EXPECT_EQ(s.evicted, 0);
  service.advance(10s);
  EXPECT_EQ(s.evicted, 1);
}

TEST(write_idle_timeout, does_not_charge_the_peer_with_our_stall) {
  manual_service service{{.stall_grace = 10ms}};
  sender s{service.timers};
  ASSERT_EQ(s.idle.start(1s), 0);
  s.idle.set_queued(1);
  service.time.block(5s);  // 4.99 s of it are ours
  service.advance(989ms);
  EXPECT_EQ(s.evicted, 0);
  service.advance(2ms);
  EXPECT_EQ(s.evicted, 1);
}

TEST(write_idle_timeout, may_be_destroyed_with_its_owner_in_its_handler) {
  manual_service service;
  auto s = std::make_unique<sender>(service.timers);
  s->then = [&] { s.reset(); };
  ASSERT_EQ(s->idle.start(1s), 0);
  s->idle.set_queued(1);
  service.advance(1h);
  EXPECT_EQ(s, nullptr);
}

TEST(write_idle_timeout, allocates_nothing) {
  manual_service service;
  sender s{service.timers};
  const auto before = allocations::count();
  ASSERT_EQ(s.idle.start(50ms), 0);
  for (std::size_t i = 1000; i > 0; --i) {
    s.idle.set_queued(i);
    service.time.advance(20ms);
  }
  EXPECT_EQ(allocations::count(), before);
}

TEST(a_write_idle_timeout_that_asks, does_not_take_a_slow_reader_of_one_large_write_for_an_idle_one) {
  // nobody is told while libuv sends a large buffer
  manual_service service;
  asked_sender s{service.timers};
  s.queue = 1'000'000;
  ASSERT_EQ(s.idle.start(10s), 0);
  for (int i = 0; i < 100; ++i) {
    service.advance(9s);
    s.queue -= 1;
  }
  EXPECT_EQ(s.evicted, 0);
}

TEST(a_write_idle_timeout_that_asks, notices_a_stop_after_the_limit_and_at_most_a_quarter_of_it_late) {
  for (int percent = 0; percent < 100; percent += 7) {
    manual_service service;
    asked_sender s{service.timers};
    s.queue = 1000;
    ASSERT_EQ(s.idle.start(10s), 0);
    service.advance(10s * percent / 100);
    s.queue = 500;  // and nothing from here on
    service.advance(10s - 1ns);
    EXPECT_EQ(s.evicted, 0) << percent;
    service.advance(2500ms + 10 * service.tick());  // each of its visits may be a tick late
    EXPECT_EQ(s.evicted, 1) << percent;
  }
}

TEST(a_write_idle_timeout_that_asks, needs_not_be_told_of_what_is_queued) {
  manual_service service;
  asked_sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  service.advance(1h);
  EXPECT_EQ(s.evicted, 0);
  s.queue = 1;
  service.advance(10s - 1ns);
  EXPECT_EQ(s.evicted, 0);
  service.advance(2500ms + 10 * service.tick());
  EXPECT_EQ(s.evicted, 1);
}

TEST(a_write_idle_timeout_that_asks, asks_four_times_a_limit) {
  manual_service service;
  asked_sender s{service.timers};
  ASSERT_EQ(s.idle.start(10s), 0);
  service.advance(1000s);
  EXPECT_LE(s.asked, 401);
  EXPECT_GE(s.asked, 399);
}

TEST(a_write_idle_timeout_that_asks, asks_of_the_new_use_of_a_pooled_connection) {
  manual_service service;
  asked_sender s{service.timers};
  s.queue = 1000;
  ASSERT_EQ(s.idle.start(10s), 0);
  service.advance(9s);
  s.queue = 0;
  ASSERT_EQ(s.idle.start(10s), 0);
  service.advance(1h);
  EXPECT_EQ(s.evicted, 0);
}

struct session {
  void on_idle() noexcept {}
  std::size_t queued() const noexcept { return 0; }
  std::size_t may_throw() const { return 0; }
  std::size_t changes() noexcept { return 0; }
  void tells_nothing() const noexcept {}
};
template <auto Member, auto Queued>
concept makes_a_timeout = requires {
  sizeof(tickwheel::write_idle_timeout<Member, Queued>);
};
static_assert(makes_a_timeout<&session::on_idle, &session::queued>);
static_assert(makes_a_timeout<&session::on_idle, nullptr>);
static_assert(!makes_a_timeout<&session::on_idle, &session::may_throw>);
static_assert(!makes_a_timeout<&session::on_idle, &session::changes>);
static_assert(!makes_a_timeout<&session::on_idle, &session::tells_nothing>);

}  // namespace
