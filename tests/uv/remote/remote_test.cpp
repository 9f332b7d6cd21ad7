// Posting from other threads, on a clock turned by hand: when a callable runs, in which order, what is refused, and what close does.
// posted_callable_test has what becomes of the callables, remote_cancel_test what cancels them.
#include "../../support/allocation_probe.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

using tickwheel::timer_service;
using handle = tickwheel::remote_handle;

namespace {

// handles and timers are values that never fail
static_assert(std::is_nothrow_copy_constructible_v<handle> && std::is_nothrow_copy_assignable_v<handle>);
static_assert(std::is_nothrow_move_constructible_v<handle> && std::is_nothrow_move_assignable_v<handle>);
static_assert(std::is_nothrow_move_constructible_v<tickwheel::remote_timer> &&
              std::is_nothrow_move_assignable_v<tickwheel::remote_timer>);
static_assert(!std::is_copy_constructible_v<tickwheel::remote_timer> &&
              !std::is_copy_assignable_v<tickwheel::remote_timer>);
static_assert(noexcept(std::declval<const timer_service&>().remote()));

/// A service, a handle of it, and callables that count.
class remote_test : public manual_test {
 protected:
  auto count() { return count_in(ran); }
  auto note(int i) {
    return [this, i]() noexcept { order.push_back(i); };
  }
  /// Opens the service anew.
  void open(const tickwheel::service_options& options) {
    reopen(options);
    remote = timers.remote();
  }
  const tickwheel::service_stats& stats() const { return timers.stats(); }
  void expect_ascending(int end) const {
    ASSERT_EQ(order.size(), static_cast<std::size_t>(end));
    for (int i = 0; i < end; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }

  handle remote = timers.remote();
  int ran = 0;
  std::vector<int> order;
};
using remote_handle = remote_test;
using remote_limits = remote_test;
using remote_close = remote_test;

// --- when it runs ---

TEST_F(remote_handle, post_runs_in_next_pass) {
  ASSERT_EQ(remote.post(count()), 0);
  EXPECT_EQ(ran, 0);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(service.turn());
  EXPECT_EQ(stats().remote_ran, 1U);
}

TEST_F(remote_handle, past_time_runs_in_next_pass) {
  for (const auto after : {0h, -1h, std::chrono::hours::min()}) ASSERT_EQ(remote.post(after, count()), 0);
  ASSERT_EQ(remote.post_at(timers.now() - 1h, count()), 0);
  ASSERT_EQ(remote.post_at(tickwheel::clock::time_point::min(), count()), 0);
  EXPECT_EQ(ran, 0);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(ran, 5);
}

TEST_F(remote_handle, delayed_post_is_never_early) {
  for (const bool at_a_time : {false, true}) {
    const auto begin = service.time.now();
    tickwheel::clock::time_point at{};
    const auto note_time = [&at, this]() noexcept { at = service.time.now(); };
    ASSERT_EQ(at_a_time ? remote.post_at(begin + 10ms, note_time) : remote.post(10ms, note_time), 0);
    service.advance(10ms - 1ns);
    EXPECT_EQ(at, tickwheel::clock::time_point{});
    service.advance(1s);
    EXPECT_GE(at, begin + 10ms);
    EXPECT_LE(at, begin + 10ms + service.tick());
  }
}

TEST_F(remote_handle, delay_counts_from_call_not_from_delivery) {
  ASSERT_EQ(remote.post(10ms, count()), 0);
  service.time.oversleep(10ms);  // the loop does not come to it meanwhile
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(ran, 1) << "a post that is due when it is taken runs in the pass that takes it";
}

TEST_F(remote_handle, time_beyond_clock_stays_armed) {
  ASSERT_EQ(remote.post(std::chrono::hours::max(), count()), 0);
  ASSERT_EQ(remote.post(std::chrono::nanoseconds::max(), count()), 0);
  ASSERT_EQ(remote.post(std::chrono::duration<double>{1e300}, count()), 0);
  ASSERT_EQ(remote.post_at(tickwheel::clock::time_point::max(), count()), 0);
  service.advance(24h * 365 * 100);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(stats().pending, 4U);
}

TEST_F(remote_handle, arm_at_can_be_cancelled_until_then) {
  tickwheel::remote_timer first, second;
  const auto when = timers.now() + 10ms;
  ASSERT_EQ(remote.arm_at(when, note(1), first), 0);
  ASSERT_EQ(remote.arm_at(when, note(2), second), 0);
  EXPECT_EQ(first.cancel(), tickwheel::remote_timer::outcome::cancelled);
  service.advance(10ms + service.tick());
  EXPECT_EQ(order, std::vector{2});
  EXPECT_EQ(second.cancel(), tickwheel::remote_timer::outcome::too_late);
}

TEST_F(remote_handle, post_in_handler_runs_in_later_pass) {
  open({.max_queued = 1});
  struct chain {
    handle to;
    int ran = 0;
    void step() noexcept {
      if (++ran == 3) return;
      EXPECT_EQ(to.post([this]() noexcept { step(); }), 0) << "its own place is free";
    }
  } c{remote};
  ASSERT_EQ(remote.post([at = &c]() noexcept { at->step(); }), 0);
  for (int turns = 1; turns <= 3; ++turns) {
    EXPECT_TRUE(service.turn());
    EXPECT_EQ(c.ran, turns);
    EXPECT_EQ(service.time.carrying(), turns < 3);
  }
  EXPECT_FALSE(service.turn());
}

TEST_F(remote_handle, posts_of_one_thread_run_in_order) {
  open({.work_per_pass = 7});
  for (int i = 0; i < 50; ++i) ASSERT_EQ(remote.post(note(i)), 0);
  service.turn();
  for (int i = 50; i < 100; ++i) ASSERT_EQ(remote.post(note(i)), 0);
  service.advance(0ns);
  expect_ascending(100);
}

TEST_F(remote_handle, posts_of_two_threads_run_in_order_of_calls) {
  for (int i = 0; i < 100; i += 2) {
    EXPECT_EQ(remote.post(note(i)), 0);
    std::thread{[&] { EXPECT_EQ(remote.post(note(i + 1)), 0); }}.join();
  }
  service.advance(0ns);
  expect_ascending(100);
}

TEST_F(remote_handle, delayed_posts_run_in_order_of_deadlines) {
  for (const int ms : {30, 10, 20}) ASSERT_EQ(remote.post(std::chrono::milliseconds{ms}, note(ms)), 0);
  service.advance(1s);
  EXPECT_EQ(order, (std::vector{10, 20, 30}));
}

TEST_F(remote_handle, armed_post_keeps_loop_alive) {
  ASSERT_EQ(remote.post(10ms, nothing), 0);
  EXPECT_FALSE(service.time.alive()) << "a loop that is not alive never polls, and only the loop may ref";
  service.turn();
  EXPECT_TRUE(service.time.alive());
  service.advance(20ms);
  EXPECT_FALSE(service.time.alive());
}

TEST_F(remote_handle, armed_post_is_not_walked_with_timers) {
  p.arm(1s);
  ASSERT_EQ(remote.post(1s, nothing), 0);
  service.turn();
  EXPECT_EQ(stats().pending, 2U);
  int seen = 0;
  timers.for_each_armed([&](tickwheel::timer& t) {
    ++seen;
    t.cancel();
  });
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(stats().pending, 1U);
}

// --- a bounded share of each pass ---

TEST_F(remote_limits, pass_delivers_up_to_its_work_bound) {
  open({.work_per_pass = 10});
  for (int i = 0; i < 95; ++i) ASSERT_EQ(remote.post(count()), 0);
  for (int passes = 1; passes <= 9; ++passes) {
    EXPECT_TRUE(service.turn());
    EXPECT_EQ(ran, 10 * passes);
    EXPECT_TRUE(service.time.carrying());
    EXPECT_TRUE(service.time.alive()) << "posts that were taken keep the loop";
  }
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(ran, 95);
  EXPECT_FALSE(service.time.carrying());
  EXPECT_FALSE(service.time.alive());
  EXPECT_EQ(stats().carried, 9U);
}

TEST_F(remote_limits, pass_of_slow_callables_ends_after_its_time) {
  open({.time_per_pass = 1ms});
  const auto slow = [this]() noexcept {
    ++ran;
    service.time.block(5ms);
  };
  for (int i = 0; i < 10; ++i) ASSERT_EQ(remote.post(slow), 0);
  service.turn();
  EXPECT_EQ(ran, 1);
}

// Posts that were made before a deadline passed go first. Later posts and the wheel take turns.
TEST_F(remote_limits, pass_shares_its_work_between_timers_and_posts) {
  for (const std::size_t work : {1U, 2U, 3U, 64U}) {
    open({.work_per_pass = work});
    constexpr int each = 400;
    int fired = 0;
    ran = 0;
    const probes due{timers, each, 1ms, [&] {
                       if (++fired != 1) return;
                       for (int posts = 0; posts < each; ++posts) ASSERT_EQ(remote.post(count()), 0);
                     }};
    service.time.oversleep(2ms);
    for (int passes = 0; fired + ran < each; ++passes) {
      ASSERT_LT(passes, 2 * each);
      ASSERT_TRUE(service.turn());
      EXPECT_NEAR(fired, ran, 40 + 2 * static_cast<int>(work)) << work << " a pass";
    }
    service.advance(1s);
    EXPECT_EQ(fired, each);
    EXPECT_EQ(ran, each);
  }
}

// --- limits and refusals ---

TEST_F(remote_limits, full_queue_refuses_until_delivered) {
  open({.max_queued = 3});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(remote.post(count()), 0);
  EXPECT_EQ(remote.post(count()), UV_EAGAIN);
  tickwheel::remote_timer timer;
  EXPECT_EQ(remote.arm(0s, count(), timer), UV_EAGAIN);
  EXPECT_EQ(timer.cancel(), tickwheel::remote_timer::outcome::too_late) << "it was not touched";
  EXPECT_EQ(stats().remote_queued, 3U);
  service.turn();
  EXPECT_EQ(stats().remote_queued, 0U);
  EXPECT_EQ(ran, 3);
  EXPECT_EQ(remote.post(count()), 0);
  service.turn();
  EXPECT_EQ(ran, 4);
  EXPECT_EQ(stats().remote_accepted, 4U);
  EXPECT_EQ(stats().remote_refused, 2U);
}

TEST_F(remote_limits, taken_posts_count_as_queued_until_delivered) {
  open({.work_per_pass = 2, .max_queued = 5});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(remote.post(nothing), 0);
  service.turn();  // takes five, delivers two
  EXPECT_EQ(stats().remote_queued, 3U);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(remote.post(nothing), 0);
  EXPECT_EQ(remote.post(nothing), UV_EAGAIN);
}

TEST_F(remote_limits, posts_that_wait_for_their_delay_are_not_queued) {
  open({.max_queued = 2});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(remote.post(1min, nothing), 0);
  service.turn();
  EXPECT_EQ(stats().remote_accepted - stats().remote_ran, 2U);
  EXPECT_EQ(stats().remote_queued, 0U);
  EXPECT_EQ(remote.post(1min, nothing), 0);
  EXPECT_EQ(stats().remote_queued, 1U);
  timers.close();
  EXPECT_EQ(stats().remote_queued, 0U);
}

TEST_F(remote_limits, max_queued_of_zero_refuses_all_and_unlimited_none) {
  open({.max_queued = 0});
  EXPECT_EQ(remote.post(nothing), UV_EAGAIN);
  open({.max_queued = tickwheel::unlimited});
  for (int i = 0; i < 100'000; ++i) ASSERT_EQ(remote.post(nothing), 0);
  service.advance(0ns);
  EXPECT_EQ(stats().remote_ran, 100'000U);
}

TEST_F(remote_limits, max_armed_bounds_operations_until_they_end) {
  open({.max_armed = 3});
  std::array<tickwheel::remote_timer, 3> three;
  for (tickwheel::remote_timer& t : three) ASSERT_EQ(remote.arm(1s, nothing, t), 0);
  EXPECT_EQ(remote.post(1s, nothing), UV_EAGAIN);
  service.turn();
  EXPECT_EQ(stats().pending, 3U);
  EXPECT_EQ(remote.post(1s, nothing), UV_EAGAIN) << "armed is not ended";
  EXPECT_EQ(three[0].cancel(), tickwheel::remote_timer::outcome::cancelled);
  service.turn();
  EXPECT_EQ(remote.post(1s, nothing), 0) << "cancelled is";
  EXPECT_EQ(remote.post(1s, nothing), UV_EAGAIN);
  service.advance(2s);
  EXPECT_EQ(remote.post(1s, nothing), 0) << "and so is run";
}

TEST_F(remote_limits, accepted_post_counts_as_armed_for_timers) {
  open({.max_armed = 2});
  probe a{timers, 1s}, b{timers, 1s}, c{timers};
  ASSERT_EQ(remote.post(500ms, count()), 0);
  service.turn();
  service.check();
  EXPECT_EQ(stats().pending, 3U);
  a.timeout.cancel();
  EXPECT_EQ(c.timeout.arm(1s), UV_ENOBUFS);
  service.advance(600ms);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(c.timeout.arm(1s), 0);
}

// --- handles ---

TEST_F(remote_handle, moved_from_handle_is_empty) {
  const handle to = std::move(remote);
  EXPECT_EQ(remote.post(nothing), UV_ECANCELED);  // NOLINT(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(to.post(nothing), 0);
  remote = to;
  EXPECT_EQ(remote.post(nothing), 0);
  service.advance(0ns);
  EXPECT_EQ(stats().remote_ran, 2U);
}

TEST_F(remote_handle, handle_of_closed_service_refuses) {
  timers.close();
  for (const handle& h : {remote, timers.remote(), handle{}, timer_service{}.remote()}) {
    EXPECT_EQ(h.post(nothing), UV_ECANCELED);
    EXPECT_EQ(h.post(1s, nothing), UV_ECANCELED);
  }
}

TEST_F(remote_handle, handle_outlives_service_and_driver) {
  handle left;
  tickwheel::remote_timer timer;
  {
    manual_service gone;
    left = gone.timers.remote();
    ASSERT_EQ(left.arm(1s, nothing, timer), 0);
  }
  EXPECT_EQ(left.post(1s, nothing), UV_ECANCELED);
  EXPECT_EQ(timer.cancel(), tickwheel::remote_timer::outcome::closed);
}

TEST_F(remote_handle, handle_stays_closed_when_service_opens_again) {
  timers.close();
  ASSERT_EQ(timers.open(service.time), 0);
  EXPECT_EQ(remote.post(nothing), UV_ECANCELED);
  EXPECT_EQ(timers.remote().post(count()), 0);
  service.advance(0ns);
  EXPECT_EQ(ran, 1);
}

// --- closing ---

TEST_F(remote_close, counts_operations_wherever_they_are) {
  open({.work_per_pass = 4});
  std::array<tickwheel::remote_timer, 6> six;
  for (tickwheel::remote_timer& t : six) ASSERT_EQ(remote.arm(1s, count(), t), 0);
  service.turn();                                                           // four in the wheel, two wait
  for (int i = 0; i < 3; ++i) ASSERT_EQ(remote.post(count()), 0);           // three in the inbox
  EXPECT_EQ(six[0].cancel(), tickwheel::remote_timer::outcome::cancelled);  // a notice in the inbox
  EXPECT_EQ(six[5].cancel(), tickwheel::remote_timer::outcome::cancelled);  // one that waits
  timers.close();
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(stats().remote_cancelled, 7U);
  EXPECT_EQ(stats().remote_withdrawn, 2U);
  EXPECT_EQ(stats().remote_accepted, 9U);
  EXPECT_EQ(stats().pending, 0U);
  EXPECT_TRUE(remote_adds_up(timers));
  EXPECT_EQ(six[0].cancel(), tickwheel::remote_timer::outcome::cancelled) << "the answer stays the same";
  EXPECT_EQ(six[1].cancel(), tickwheel::remote_timer::outcome::closed);
  EXPECT_EQ(six[5].cancel(), tickwheel::remote_timer::outcome::cancelled);
}

TEST_F(remote_close, frees_nodes_and_last_handle_frees_queue) {
  const auto before = allocations::outstanding();
  {
    std::optional<manual_service> own{std::in_place};
    const handle to = own->timers.remote();
    tickwheel::remote_timer timer;
    for (int i = 0; i < 10; ++i) ASSERT_EQ(to.post(std::chrono::milliseconds{i}, nothing), 0);
    ASSERT_EQ(to.arm(1s, nothing, timer), 0);
    own->advance(5ms);
    ASSERT_EQ(to.post(nothing), 0);
    own.reset();
    EXPECT_EQ(allocations::outstanding(), before + 2) << "the post queue, and the timer's node";
  }
  EXPECT_EQ(allocations::outstanding(), before);
}

TEST_F(remote_close, in_posted_callable_is_last_thing_to_happen) {
  for (const auto delay : {0ms, 5ms}) {
    open({});
    ASSERT_EQ(remote.post(delay, [this]() noexcept { timers.close(); }), 0);
    ASSERT_EQ(remote.post(delay, count()), 0);
    service.time.advance(10ms);
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(stats().remote_cancelled, 1U);
    EXPECT_TRUE(remote_adds_up(timers));
  }
}

TEST_F(remote_close, posted_callable_may_destroy_service) {
  for (const auto delay : {0ms, 5ms}) {
    tickwheel::manual_driver time;
    auto* own = new timer_service;
    ASSERT_EQ(own->open(time), 0);
    remote = own->remote();
    ASSERT_EQ(remote.post(delay, [own]() noexcept { delete own; }), 0);
    ASSERT_EQ(remote.post(delay, count()), 0);
    time.advance(10ms);
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(time.bound(), nullptr);
    EXPECT_EQ(remote.post(nothing), UV_ECANCELED);
  }
}

// The old service's stamp must not be applied to the new one, whose time begins now.
TEST_F(remote_close, opening_again_in_posted_callable_begins_anew) {
  service.time.block(1h);
  const auto open_again = [this]() noexcept {
    timers.close();
    ASSERT_EQ(timers.open(service.time), 0);
    ASSERT_EQ(p.timeout.arm(1s), 0);
  };
  ASSERT_EQ(remote.post(open_again), 0);
  ASSERT_EQ(remote.post(nothing), 0);
  service.turn();
  EXPECT_EQ(p.fired, 0);
  service.advance(2s);
  EXPECT_EQ(p.fired, 1);
}

// As above, and the new service stands where the old one stood, on the driver that is turning it, in the middle of a pass that has more
// to do.
TEST_F(remote_close, new_service_in_place_of_destroyed_one_begins_anew) {
  tickwheel::manual_driver time;
  std::optional<timer_service> own{std::in_place};
  ASSERT_EQ(own->open(time), 0);
  std::optional<probe> late;
  std::optional<probes> due{std::in_place, *own, 8, 1ms};
  const auto replace = [&]() noexcept {
    due.reset();
    own.emplace();
    ASSERT_EQ(own->open(time), 0);
    ASSERT_EQ(late.emplace(*own).timeout.arm(1s), 0);
  };
  ASSERT_EQ(own->remote().post(replace), 0);
  time.block(1h);
  EXPECT_TRUE(time.turn());
  ASSERT_TRUE(late);
  EXPECT_EQ(late->fired, 0) << "it was armed for a second";
  EXPECT_TRUE(is_valid(*own));
  time.advance(2s);
  EXPECT_EQ(late->fired, 1);
  EXPECT_GE(late->at, tickwheel::clock::time_point{} + 1h + 1s);
  late.reset();
}

TEST_F(remote_close, opening_again_resets_stats) {
  ASSERT_EQ(remote.post(1s, nothing), 0);
  timers.close();
  EXPECT_EQ(stats().remote_cancelled, 1U);
  ASSERT_EQ(timers.open(service.time), 0);
  EXPECT_EQ(stats().remote_cancelled, 0U);
  EXPECT_EQ(stats().remote_accepted, 0U);
}

}  // namespace
