// Slow and stuck readers, and connections on which nothing moves, on manual time.
#include "../conformance/subjects.hpp"
#include "../support/subject_test.hpp"

using tickwheel::idle_watch;

namespace {

/// A sender that is asked for its queue.
template <idle_watch What>
struct asked_sender : owner {
  explicit asked_sender(tickwheel::timer_service& service) : owner{service}, timer{service, *this} {}
  void on_idle() noexcept { on_time(); }
  std::size_t queued() const noexcept {
    ++asked;
    return queue;
  }

  std::size_t queue = 0;
  mutable int asked = 0;
  tickwheel::basic_idle_timeout<What, &asked_sender::on_idle, &asked_sender::queued> timer;
};
using asked_for_writes = asked_sender<idle_watch::queue>;
using asked_for_all = asked_sender<idle_watch::both>;

// The contract of all idle timeouts that are told of a queue, or ask for one.
template <class Subject>
class queue_contract : public subject_test<Subject> {};
using told = testing::Types<subjects::write_idle_timeout, subjects::all_idle_timeout>;
TYPED_TEST_SUITE(queue_contract, told, subjects::names);

template <class Subject>
class asking_queue_contract : public subject_test<Subject> {};
using asking = testing::Types<asked_for_writes, asked_for_all>;
TYPED_TEST_SUITE(asking_queue_contract, asking);

class write_idle_timeout : public subject_test<owner_of<tickwheel::write_idle_timeout<&owner::on_time>>> {};
class all_idle_timeout : public subject_test<owner_of<tickwheel::all_idle_timeout<&owner::on_time>>> {};
class asking_write_idle_timeout : public subject_test<asked_for_writes> {};

TYPED_TEST(queue_contract, does_not_expire_while_peer_takes_slowly) {
  ASSERT_EQ(this->c.timer.start(10s), 0);
  this->c.timer.add_queued(1000);
  for (std::size_t left = 999; left >= 900; --left) {
    this->advance(9s);
    this->c.timer.set_queued(left);  // one byte in nine seconds
  }
  EXPECT_EQ(this->c.fired, 0);
  EXPECT_TRUE(this->fires_in(10s));
}

// The queue is as long whenever it is looked at: the peer takes as much as is added.
TYPED_TEST(queue_contract, sees_bytes_taken_behind_added_ones) {
  ASSERT_EQ(this->c.timer.start(10s), 0);
  this->c.timer.add_queued(1000);
  for (int i = 0; i < 100; ++i) {
    this->advance(9s);
    this->c.timer.add_queued(10);
    this->c.timer.set_queued(1000);
  }
  EXPECT_EQ(this->c.fired, 0);
}

// Nobody is told while libuv sends a large buffer.
TYPED_TEST(asking_queue_contract, sees_slow_reader_of_large_write) {
  this->c.queue = 1'000'000;
  ASSERT_EQ(this->c.timer.start(10s), 0);
  for (int i = 0; i < 100; ++i) {
    this->advance(9s);
    this->c.queue -= 1;
  }
  EXPECT_EQ(this->c.fired, 0);
}

// Each end of a pause began a new quarter of the limit, and nobody asked.
TYPED_TEST(asking_queue_contract, is_at_most_a_quarter_late_with_pauses) {
  this->c.queue = 100;
  ASSERT_EQ(this->c.timer.start(4s), 0);
  this->c.timer.add_queued(100);
  this->advance(100ms);
  this->c.queue = 50;
  for (int i = 0; i != 10; ++i) {
    this->advance(500ms);
    this->c.timer.pause();
    this->advance(1ms);
    this->c.timer.resume();
  }
  EXPECT_EQ(this->c.fired, 1);
}

TYPED_TEST(asking_queue_contract, is_at_most_a_quarter_late) {
  for (int percent = 0; percent < 100; percent += 7) {
    TypeParam each{this->service.timers};
    each.queue = 1000;
    ASSERT_EQ(each.timer.start(10s), 0);
    this->advance(10s * percent / 100);
    each.queue = 500;  // and nothing from here on
    this->advance(10s - 1ns);
    EXPECT_EQ(each.fired, 0) << percent;
    this->advance(2500ms + 10 * this->tick());  // each of its visits may be a tick late
    EXPECT_EQ(each.fired, 1) << percent;
  }
}

TEST_F(write_idle_timeout, does_not_expire_while_nothing_is_queued) {
  ASSERT_EQ(c.timer.start(10s), 0);
  EXPECT_EQ(fired_after(24h), 0);
  EXPECT_TRUE(c.timer.armed());
}

TEST_F(write_idle_timeout, counts_from_first_queued_byte) {
  for (const bool by_adding : {false, true}) {
    decltype(c) each{service.timers};
    ASSERT_EQ(each.timer.start(10s), 0);
    advance(1234567us);
    by_adding ? each.timer.add_queued(1) : each.timer.set_queued(1);
    EXPECT_TRUE(fires_in(each.fired, 10s));
  }
}

TEST_F(write_idle_timeout, unchanged_or_longer_queue_is_no_activity) {
  using grow = void (*)(decltype(c)&, std::size_t second);
  const grow ways[] = {[](auto& each, std::size_t) { each.timer.set_queued(1000); },
                       [](auto& each, std::size_t) { each.timer.add_queued(100); },
                       [](auto& each, std::size_t second) { each.timer.set_queued(1000 + second * 100); }};
  for (const grow way : ways) {
    decltype(c) each{service.timers};
    ASSERT_EQ(each.timer.start(10s), 0);
    each.timer.set_queued(1000);
    for (std::size_t second = 1; second <= 10; ++second) {
      EXPECT_EQ(each.fired, 0);
      advance(1s);
      way(each, second);
    }
    advance(tick());
    EXPECT_EQ(each.fired, 1);
  }
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

TEST_F(write_idle_timeout, longest_queue_saturates) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.add_queued(std::numeric_limits<std::size_t>::max());
  c.timer.add_queued(1);
  advance(5s);
  c.timer.set_queued(std::numeric_limits<std::size_t>::max() - 1);
  EXPECT_TRUE(fires_in(10s));
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

TEST_F(all_idle_timeout, that_asks_expires_a_limit_after_touch) {
  asked_for_all p{service.timers};
  ASSERT_EQ(p.timer.start(10s), 0);
  advance(3333ms);
  p.timer.touch();
  EXPECT_TRUE(fires_in(p.fired, 10s));
}

}  // namespace
