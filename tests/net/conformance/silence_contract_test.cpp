// The contract of classes that wait for a silent peer: activity counts, our own stalls do not, and neither costs anything. Then that
// of all limits, once for each class that has one.
#include "../../support/allocation_probe.hpp"
#include "../support/subject_test.hpp"
#include "subjects.hpp"

namespace {

template <class Subject>
class silence_contract : public subject_test<Subject> {
 protected:
  /// True if the handler runs for the first time when the peer was silent for `limit` from now, and not before.
  testing::AssertionResult fires_in_limit(std::chrono::nanoseconds limit) {
    if (this->fired_after(limit - 1ns) != 0) return testing::AssertionFailure() << "the handler ran early";
    if (this->fired_after(1ns + allowance(limit)) != 1)
      return testing::AssertionFailure() << "the handler ran " << this->c.fired << " times";
    return testing::AssertionSuccess();
  }
  /// How late it may be, in ticks, or because of when it checks for activity.
  std::chrono::nanoseconds allowance(std::chrono::nanoseconds limit) const {
    return 2 * this->tick() + (subjects::checks_per_limit<Subject> ? limit : 0ns);
  }
};

using waiting_for_a_peer = testing::Types<subjects::idle_timeout, subjects::write_idle_timeout,
                                          subjects::all_idle_timeout, subjects::minimum_rate, subjects::phase_timeouts>;
TYPED_TEST_SUITE(silence_contract, waiting_for_a_peer, subjects::names);

TYPED_TEST(silence_contract, active_peer_does_not_expire) {
  ASSERT_EQ(this->c.start(60s), 0);
  for (int i = 0; i < 1000; ++i) {
    this->service.time.advance(59s);
    this->c.heard();
  }
  EXPECT_EQ(this->c.fired, 0);
  this->service.check();
}

TYPED_TEST(silence_contract, counts_from_last_activity) {
  ASSERT_EQ(this->c.start(60s), 0);
  this->advance(20s);
  this->c.heard();
  this->advance(30s);
  this->c.heard();
  EXPECT_TRUE(this->fires_in_limit(60s));
}

TYPED_TEST(silence_contract, activity_resets_count_of_timeouts) {
  if constexpr (requires { this->c.timer.notify_again(); }) {
    std::vector<unsigned> notices;
    this->c.then = [&] {
      notices.push_back(this->c.timer.consecutive_timeouts());
      EXPECT_EQ(this->c.timer.notify_again(), 0);
    };
    ASSERT_EQ(this->c.start(10s), 0);
    this->advance(25s);
    EXPECT_EQ(this->c.timer.consecutive_timeouts(), 2U);
    this->c.heard();
    EXPECT_EQ(this->c.timer.consecutive_timeouts(), 0U);
    this->advance(10s - 1ns);
    EXPECT_EQ(notices, (std::vector{1U, 2U}));
    this->advance(11s);
    EXPECT_EQ(notices, (std::vector{1U, 2U, 1U, 2U}));
  }
}

TYPED_TEST(silence_contract, activity_at_last_moment_keeps_peer) {
  ASSERT_EQ(this->c.start(60s), 0);
  this->advance(60s - 1ns);
  this->c.heard();
  EXPECT_TRUE(this->fires_in_limit(60s));
}

TYPED_TEST(silence_contract, activity_starts_nothing) {
  this->c.heard();
  EXPECT_FALSE(this->c.timer.armed());
  ASSERT_EQ(this->c.start(1s), 0);
  this->c.timer.cancel();
  this->c.heard();
  EXPECT_FALSE(this->c.timer.armed());
  EXPECT_EQ(this->fired_after(1h), 0);
  ASSERT_EQ(this->c.start(1s), 0);
  this->service.timers.close();
  this->c.heard();
  EXPECT_FALSE(this->c.timer.armed());
  ASSERT_EQ(this->service.timers.open(this->service.time), 0);
  ASSERT_EQ(this->c.start(1s), 0);
  EXPECT_EQ(this->fired_after(2s), 1);
}

TYPED_TEST(silence_contract, start_forgets_activity_of_earlier_use) {
  ASSERT_EQ(this->c.start(60s), 0);
  this->c.timer.cancel();
  this->advance(1h);
  this->c.heard();
  this->advance(1h);
  ASSERT_EQ(this->c.start(60s), 0);
  EXPECT_TRUE(this->fires_in(60s, 2));
}

// The time of the iteration is older than the start, because something blocked in between.
TYPED_TEST(silence_contract, activity_after_late_start_counts_from_start) {
  this->reopen({.stall_grace = 10ms});
  this->service.timers.now();
  this->service.time.block(8ms);
  ASSERT_EQ(this->c.start(100ms), 0);
  this->c.heard();
  EXPECT_TRUE(this->fires_in_limit(100ms));
}

TYPED_TEST(silence_contract, activity_by_handler_of_same_pass_counts) {
  for (const bool first : {false, true}) {
    TypeParam a{this->service.timers}, b{this->service.timers};
    a.then = [&] { b.heard(); };
    b.then = [&] { a.heard(); };
    ASSERT_EQ((first ? a : b).start(1s), 0);
    ASSERT_EQ((first ? b : a).start(1s), 0);
    this->advance(1s + this->tick());
    EXPECT_EQ(a.fired + b.fired, 1) << "whichever came first has heard of the other";
    this->advance(1s + 2 * this->tick());
    EXPECT_EQ(a.fired + b.fired, 2);
  }
}

TYPED_TEST(silence_contract, stall_beyond_grace_does_not_count) {
  this->reopen({.stall_grace = 10ms});
  ASSERT_EQ(this->c.start(1s), 0);
  this->service.time.block(5s);  // 4.99 s of it are ours
  EXPECT_TRUE(this->fires_in(1s - 10ms, 2));
}

TYPED_TEST(silence_contract, stall_in_handler_of_same_pass_does_not_count) {
  this->reopen({.stall_grace = 10ms});
  probe blocker{this->service.timers, [this] { this->service.time.block(200ms); }};
  ASSERT_EQ(this->c.start(50ms), 0);
  blocker.arm(20ms);
  EXPECT_EQ(this->fired_after(30ms), 0);
  EXPECT_EQ(this->fired_after(50ms), 1);
}

// Timers of other threads are not refused once they were accepted, so there may be more of them than `max_armed`.
TYPED_TEST(silence_contract, active_one_keeps_its_place_among_max_armed) {
  for (const bool referenced : {true, false}) {
    this->reopen({.max_armed = 1});
    TypeParam each{this->service.timers}, other{this->service.timers};
    if (!referenced) each.timer.unref();
    ASSERT_EQ(each.start(1s), 0);
    ASSERT_EQ(this->service.timers.remote().post(1h, []() noexcept {}), 0);
    this->service.turn();
    ASSERT_EQ(this->service.timers.stats().pending, 2U);
    for (int i = 0; i < 10; ++i) {
      this->advance(900ms);
      EXPECT_EQ(each.fired, 0);
      each.heard();
      EXPECT_EQ(other.start(1s), UV_ENOBUFS);
    }
    this->advance(1s + this->allowance(1s));
    EXPECT_EQ(each.fired, 1);
  }
}

TYPED_TEST(silence_contract, waiting_for_rest_of_limit_takes_no_reference) {
  this->c.timer.unref();
  ASSERT_EQ(this->c.start(1s), 0);
  EXPECT_FALSE(this->service.time.alive());
  this->advance(900ms);
  this->c.heard();
  EXPECT_EQ(this->fired_after(900ms), 0);
  EXPECT_FALSE(this->service.time.alive());
  this->c.timer.ref();
  EXPECT_TRUE(this->service.time.alive());
  EXPECT_EQ(this->fired_after(100ms + this->allowance(1s)), 1);
  EXPECT_FALSE(this->service.time.alive());
}

TYPED_TEST(silence_contract, wakes_loop_about_once_per_limit) {
  ASSERT_EQ(this->c.start(60s), 0);
  for (int i = 0; i < 60'000; ++i) {
    this->service.time.advance(10ms);
    this->c.heard();
  }
  EXPECT_LE(this->service.time.wakeups(), 60U);  // 600 s: ten limits, with the few steps each that a far timer takes
}

TYPED_TEST(silence_contract, silent_half_of_ten_thousand_expires) {
  std::deque<TypeParam> all;
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(all.emplace_back(this->service.timers).start(60s), 0);
  for (int second = 0; second < 70; ++second) {
    for (std::size_t i = 0; i < all.size(); i += 2) all[i].heard();
    this->service.time.advance(1s);
  }
  this->service.check();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i].fired, static_cast<int>(i % 2)) << i;
}

TYPED_TEST(silence_contract, activity_allocates_nothing) {
  const auto before = allocations::count();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(this->c.start(50ms), 0);
    this->c.heard();
    this->service.time.advance(20ms);
    this->c.heard();
    this->service.time.advance(20ms);
    if (i % 5 == 0) this->c.timer.cancel();
    this->service.time.advance(100ms);
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_EQ(this->c.fired, 800);
}

template <class Subject>
class limits_contract : public subject_test<Subject> {};

using limited = testing::Types<subjects::interval_timer, subjects::idle_timeout, subjects::write_idle_timeout,
                               subjects::all_idle_timeout, subjects::minimum_rate, subjects::phase_timeouts>;
TYPED_TEST_SUITE(limits_contract, limited, subjects::names);

TYPED_TEST(limits_contract, limit_that_is_not_positive_is_refused) {
  for (const std::chrono::nanoseconds limit : {0ns, -1ns, std::chrono::nanoseconds::min()}) {
    EXPECT_EQ(this->c.start(limit), UV_EINVAL);
    EXPECT_FALSE(this->c.timer.armed());
  }
}

TYPED_TEST(limits_contract, refused_start_keeps_earlier_limit) {
  ASSERT_EQ(this->c.start(60s), 0);
  EXPECT_EQ(this->c.start(0s), UV_EINVAL);
  EXPECT_TRUE(this->fires_in(60s, 2));
}

TYPED_TEST(limits_contract, longest_limit_never_expires) {
  ASSERT_EQ(this->c.start(std::chrono::nanoseconds::max()), 0);
  this->advance(24h * 365 * 100);
  if constexpr (requires { this->c.heard(); }) this->c.heard();
  EXPECT_EQ(this->fired_after(24h * 365 * 100), 0);
  EXPECT_TRUE(this->c.timer.armed());
}

}  // namespace
