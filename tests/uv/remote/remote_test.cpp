// Posting from other threads, on a clock turned by hand: when what is posted runs, in which order, and what can be posted.
#include "../../support/allocation_probe.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using tickwheel::remote_handle;
using tickwheel::remote_timer;
using tickwheel::timer_service;

namespace {

// handles and timers are values that never fail
static_assert(std::is_nothrow_copy_constructible_v<remote_handle> && std::is_nothrow_copy_assignable_v<remote_handle>);
static_assert(std::is_nothrow_move_constructible_v<remote_handle> && std::is_nothrow_move_assignable_v<remote_handle>);
static_assert(std::is_nothrow_move_constructible_v<remote_timer> && std::is_nothrow_move_assignable_v<remote_timer>);
static_assert(!std::is_copy_constructible_v<remote_timer> && !std::is_copy_assignable_v<remote_timer>);
static_assert(noexcept(std::declval<const timer_service&>().remote()));

// --- when it runs ---

TEST(a_post, without_delay_runs_in_the_next_pass_and_not_before) {
  manual_service service;
  int ran = 0;
  ASSERT_EQ(service.timers.remote().post([&ran]() noexcept { ++ran; }), 0);
  EXPECT_EQ(ran, 0);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(service.turn());
  EXPECT_EQ(service.timers.stats().remote_ran, 1U);
}

TEST(a_post, is_delivered_by_advancing_by_nothing) {
  manual_service service;
  int ran = 0;
  ASSERT_EQ(service.timers.remote().post(-1h, [&ran]() noexcept { ++ran; }), 0);
  service.advance(0ns);
  EXPECT_EQ(ran, 1);
}

TEST(a_post, with_a_delay_runs_once_that_has_passed_and_not_before) {
  manual_service service;
  const auto begin = service.time.now();
  tickwheel::clock::time_point at{};
  manual_service* const s = &service;
  ASSERT_EQ(service.timers.remote().post(10ms, [&at, s]() noexcept { at = s->time.now(); }), 0);
  service.advance(10ms - 1ns);
  EXPECT_EQ(at, tickwheel::clock::time_point{});
  service.advance(1s);
  EXPECT_GE(at, begin + 10ms);
  EXPECT_LE(at, begin + 10ms + service.tick());
}

TEST(a_post, counts_its_delay_from_the_call_and_not_from_its_delivery) {
  manual_service service;
  int ran = 0;
  ASSERT_EQ(service.timers.remote().post(10ms, [&ran]() noexcept { ++ran; }), 0);
  service.time.oversleep(10ms);  // the loop does not come to it meanwhile
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(ran, 1) << "what is due when it is taken runs in the pass that takes it";
}

TEST(a_post, that_saturates_stays_armed) {
  manual_service service;
  int ran = 0;
  const remote_handle handle = service.timers.remote();
  ASSERT_EQ(handle.post(std::chrono::hours::max(), [&ran]() noexcept { ++ran; }), 0);
  ASSERT_EQ(handle.post(std::chrono::nanoseconds::max(), [&ran]() noexcept { ++ran; }), 0);
  ASSERT_EQ(handle.post(std::chrono::duration<double>{1e300}, [&ran]() noexcept { ++ran; }), 0);
  service.advance(24h * 365 * 100);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(service.timers.stats().pending, 3U);
}

TEST(a_post, with_a_delay_that_underflows_runs_in_the_next_pass) {
  manual_service service;
  int ran = 0;
  ASSERT_EQ(service.timers.remote().post(std::chrono::hours::min(), [&ran]() noexcept { ++ran; }), 0);
  service.advance(0ns);
  EXPECT_EQ(ran, 1);
}

TEST(a_post_at_a_time, runs_then_and_not_before) {
  manual_service service;
  int ran = 0;
  const auto when = service.timers.now() + 10ms;
  ASSERT_EQ(service.timers.remote().post_at(when, [&ran]() noexcept { ++ran; }), 0);
  service.advance(10ms - 1ns);
  EXPECT_EQ(ran, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(ran, 1);
}

TEST(a_post_at_a_time, that_has_passed_runs_in_the_next_pass_and_not_before) {
  manual_service service;
  int ran = 0;
  const remote_handle handle = service.timers.remote();
  ASSERT_EQ(handle.post_at(service.timers.now() - 1h, [&ran]() noexcept { ++ran; }), 0);
  ASSERT_EQ(handle.post_at(tickwheel::clock::time_point::min(), [&ran]() noexcept { ++ran; }), 0);
  EXPECT_EQ(ran, 0);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(ran, 2);
}

TEST(a_post_at_a_time, beyond_the_clock_stays_armed) {
  manual_service service;
  int ran = 0;
  ASSERT_EQ(service.timers.remote().post_at(tickwheel::clock::time_point::max(), [&ran]() noexcept { ++ran; }), 0);
  service.advance(24h * 365 * 100);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(service.timers.stats().pending, 1U);
}

TEST(a_post_at_a_time, is_refused_as_any_other) {
  manual_service service{{.max_queued = 1}};
  const remote_handle handle = service.timers.remote();
  remote_timer deadline;
  const auto when = service.timers.now() + 1s;
  EXPECT_EQ(remote_handle{}.post_at(when, []() noexcept {}), UV_ECANCELED);
  ASSERT_EQ(handle.post_at(when, []() noexcept {}), 0);
  EXPECT_EQ(handle.post_at(when, []() noexcept {}), UV_EAGAIN);
  EXPECT_EQ(handle.arm_at(
                when, []() noexcept {}, deadline),
            UV_EAGAIN);
  service.timers.close();
  EXPECT_EQ(handle.post_at(when, []() noexcept {}), UV_ECANCELED);
}

TEST(a_timer_of_another_thread_armed_at_a_time, can_be_cancelled_until_then) {
  manual_service service;
  int ran = 0;
  remote_timer first, second;
  const remote_handle handle = service.timers.remote();
  const auto when = service.timers.now() + 10ms;
  ASSERT_EQ(handle.arm_at(
                when, [&ran]() noexcept { ran += 1; }, first),
            0);
  ASSERT_EQ(handle.arm_at(
                when, [&ran]() noexcept { ran += 10; }, second),
            0);
  EXPECT_EQ(first.cancel(), remote_timer::outcome::cancelled);
  service.advance(10ms + service.tick());
  EXPECT_EQ(ran, 10);
  EXPECT_EQ(second.cancel(), remote_timer::outcome::too_late);
}

TEST(a_post, made_in_a_handler_runs_in_a_later_pass) {
  manual_service service{{.max_queued = 1}};
  struct chain {
    remote_handle handle;
    int ran = 0;
    static void step(chain* c) noexcept {
      if (++c->ran == 3) return;
      EXPECT_EQ(c->handle.post(0s, [c]() noexcept { step(c); }), 0) << "its own place is free";
    }
  } c{service.timers.remote()};
  chain* const at = &c;
  ASSERT_EQ(c.handle.post(0s, [at]() noexcept { chain::step(at); }), 0);
  for (int turns = 1; turns <= 3; ++turns) {
    EXPECT_TRUE(service.turn());
    EXPECT_EQ(c.ran, turns);
    EXPECT_EQ(service.time.carrying(), turns < 3);
  }
  EXPECT_FALSE(service.turn());
}

TEST(posts, of_one_thread_run_in_the_order_of_posting) {
  manual_service service{{.work_per_pass = 7}};
  std::vector<int> order;
  order.reserve(100);
  auto* const to = &order;
  const remote_handle handle = service.timers.remote();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(handle.post(0s, [to, i]() noexcept { to->push_back(i); }), 0);
  service.turn();
  for (int i = 50; i < 100; ++i) ASSERT_EQ(handle.post(0s, [to, i]() noexcept { to->push_back(i); }), 0);
  service.advance(0ns);
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(posts, of_two_threads_run_in_the_order_in_which_one_came_after_the_other) {
  manual_service service;
  std::vector<int> order;
  order.reserve(100);
  auto* const to = &order;
  const remote_handle handle = service.timers.remote();
  const auto post = [&](int i) { EXPECT_EQ(handle.post(0s, [to, i]() noexcept { to->push_back(i); }), 0); };
  for (int i = 0; i < 100; i += 2) {
    post(i);
    std::thread{[&] { post(i + 1); }}.join();
  }
  service.advance(0ns);
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(posts, with_delays_run_in_the_order_of_their_deadlines) {
  manual_service service;
  std::vector<int> order;
  auto* const to = &order;
  const remote_handle handle = service.timers.remote();
  for (const int ms : {30, 10, 20})
    ASSERT_EQ(handle.post(std::chrono::milliseconds{ms}, [to, ms]() noexcept { to->push_back(ms); }), 0);
  service.advance(1s);
  EXPECT_EQ(order, (std::vector<int>{10, 20, 30}));
}

TEST(posts, keep_the_loop_alive_once_they_are_armed_as_timers_do) {
  manual_service service;
  ASSERT_EQ(service.timers.remote().post(10ms, []() noexcept {}), 0);
  EXPECT_FALSE(service.time.alive()) << "a loop that is not alive never polls, and nobody but the loop may ref";
  service.turn();
  EXPECT_TRUE(service.time.alive());
  service.advance(20ms);
  EXPECT_FALSE(service.time.alive());
}

TEST(posts, do_not_show_among_the_timers_that_are_walked) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(1s), 0);
  ASSERT_EQ(service.timers.remote().post(1s, []() noexcept {}), 0);
  service.turn();
  EXPECT_EQ(service.timers.stats().pending, 2U);
  int seen = 0;
  service.timers.for_each_armed([&](tickwheel::timer& t) {
    ++seen;
    t.cancel();
  });
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(service.timers.stats().pending, 1U);
}

// --- a bounded share of each pass ---

TEST(a_pass, delivers_no_more_than_its_work_bound_and_carries_the_rest_over) {
  manual_service service{{.work_per_pass = 10}};
  int ran = 0;
  for (int i = 0; i < 95; ++i) ASSERT_EQ(service.timers.remote().post(0s, [&ran]() noexcept { ++ran; }), 0);
  for (int passes = 1; passes <= 9; ++passes) {
    EXPECT_TRUE(service.turn());
    EXPECT_EQ(ran, 10 * passes);
    EXPECT_TRUE(service.time.carrying());
    EXPECT_TRUE(service.time.alive()) << "what was taken keeps the loop";
  }
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(ran, 95);
  EXPECT_FALSE(service.time.carrying());
  EXPECT_FALSE(service.time.alive());
  EXPECT_EQ(service.timers.stats().carried, 9U);
}

TEST(a_pass, of_slow_remote_handlers_ends_after_its_time) {
  manual_service service{{.time_per_pass = 1ms}};
  manual_service* const s = &service;
  int ran = 0;
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(service.timers.remote().post(0s,
                                           [&ran, s]() noexcept {
                                             ++ran;
                                             s->time.block(5ms);
                                           }),
              0);
  service.turn();
  EXPECT_EQ(ran, 1);
}

// What was posted before a deadline passed goes first. What is posted later and the wheel have turns.
TEST(a_pass, shares_its_work_between_the_wheel_and_what_was_posted) {
  for (const std::size_t work : {1U, 2U, 3U, 64U}) {
    manual_service service{{.work_per_pass = work}};
    constexpr int each = 400;
    std::vector<std::unique_ptr<probe>> timers;
    int fired = 0;
    int ran = 0;
    for (int i = 0; i < each; ++i) {
      timers.push_back(std::make_unique<probe>(service.timers, [&] {
        if (++fired != 1) return;
        for (int posts = 0; posts < each; ++posts)
          ASSERT_EQ(service.timers.remote().post(0s, [&ran]() noexcept { ++ran; }), 0);
      }));
      ASSERT_EQ(timers.back()->timeout.arm(1ms), 0);
    }
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

TEST(a_full_inbox, refuses_and_takes_again_once_it_was_delivered) {
  manual_service service{{.max_queued = 3}};
  const remote_handle handle = service.timers.remote();
  int ran = 0;
  const auto count = [&ran]() noexcept { ++ran; };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(handle.post(0s, count), 0);
  EXPECT_EQ(handle.post(0s, count), UV_EAGAIN);
  remote_timer timer;
  EXPECT_EQ(handle.arm(0s, count, timer), UV_EAGAIN);
  EXPECT_EQ(timer.cancel(), remote_timer::outcome::too_late) << "it was not touched";
  service.turn();
  EXPECT_EQ(ran, 3);
  EXPECT_EQ(handle.post(0s, count), 0);
  service.turn();
  EXPECT_EQ(ran, 4);
  EXPECT_EQ(service.timers.stats().remote_accepted, 4U);
  EXPECT_EQ(service.timers.stats().remote_refused, 2U);
}

TEST(a_full_inbox, counts_what_was_taken_and_waits_for_its_pass) {
  manual_service service{{.work_per_pass = 2, .max_queued = 5}};
  const remote_handle handle = service.timers.remote();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(handle.post(0s, []() noexcept {}), 0);
  service.turn();  // takes five, delivers two
  EXPECT_EQ(handle.post(0s, []() noexcept {}), 0);
  EXPECT_EQ(handle.post(0s, []() noexcept {}), 0);
  EXPECT_EQ(handle.post(0s, []() noexcept {}), UV_EAGAIN);
}

TEST(an_inbox_limit, of_zero_refuses_everything_and_no_limit_nothing) {
  manual_service none{{.max_queued = 0}};
  EXPECT_EQ(none.timers.remote().post(0s, []() noexcept {}), UV_EAGAIN);
  manual_service all{{.max_queued = tickwheel::unlimited}};
  for (int i = 0; i < 100'000; ++i) ASSERT_EQ(all.timers.remote().post(0s, []() noexcept {}), 0);
  all.advance(0ns);
  EXPECT_EQ(all.timers.stats().remote_ran, 100'000U);
}

TEST(max_armed, bounds_posted_operations_until_they_have_ended) {
  manual_service service{{.max_armed = 3}};
  const remote_handle handle = service.timers.remote();
  std::array<remote_timer, 3> timers;
  for (remote_timer& t : timers)
    ASSERT_EQ(handle.arm(
                  1s, []() noexcept {}, t),
              0);
  EXPECT_EQ(handle.post(1s, []() noexcept {}), UV_EAGAIN);
  service.turn();
  EXPECT_EQ(service.timers.stats().pending, 3U);
  EXPECT_EQ(handle.post(1s, []() noexcept {}), UV_EAGAIN) << "armed is not ended";
  EXPECT_EQ(timers[0].cancel(), remote_timer::outcome::cancelled);
  service.turn();
  EXPECT_EQ(handle.post(1s, []() noexcept {}), 0) << "cancelled is";
  EXPECT_EQ(handle.post(1s, []() noexcept {}), UV_EAGAIN);
  service.advance(2s);
  EXPECT_EQ(handle.post(1s, []() noexcept {}), 0) << "and so is run";
}

TEST(max_armed, does_not_refuse_what_was_accepted_and_counts_it_for_others) {
  manual_service service{{.max_armed = 2}};
  probe a{service.timers};
  probe b{service.timers};
  probe c{service.timers};
  ASSERT_EQ(a.timeout.arm(1s), 0);
  ASSERT_EQ(b.timeout.arm(1s), 0);
  int ran = 0;
  ASSERT_EQ(service.timers.remote().post(500ms, [&ran]() noexcept { ++ran; }), 0);
  service.turn();
  service.check();
  EXPECT_EQ(service.timers.stats().pending, 3U);
  a.timeout.cancel();
  EXPECT_EQ(c.timeout.arm(1s), UV_ENOBUFS);
  service.advance(600ms);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(c.timeout.arm(1s), 0);
}

TEST(without_memory, posting_answers_so_and_changes_nothing) {
  manual_service service{{.max_queued = 1}};
  const remote_handle handle = service.timers.remote();
  remote_timer timer;
  int ran = 0;
  const auto count = [&ran]() noexcept { ++ran; };
  {
    const allocations::failure failure{0};
    EXPECT_EQ(handle.post(0s, count), UV_ENOMEM);
    EXPECT_EQ(handle.arm(0s, count, timer), UV_ENOMEM);
  }
  EXPECT_FALSE(service.turn());
  EXPECT_EQ(service.timers.stats().remote_accepted, 0U);
  EXPECT_EQ(handle.arm(0s, count, timer), 0) << "the place was given back";
  service.turn();
  EXPECT_EQ(ran, 1);
}

TEST(a_post, allocates_one_block_and_frees_it_when_it_has_run) {
  manual_service service;
  const remote_handle handle = service.timers.remote();
  const auto outstanding = allocations::outstanding();
  const auto bytes = allocations::bytes();
  ASSERT_EQ(handle.post(1ms, []() noexcept {}), 0);
  EXPECT_EQ(allocations::outstanding(), outstanding + 1);
  EXPECT_LE(allocations::bytes() - bytes, 128U);
  service.advance(2ms);
  EXPECT_EQ(allocations::outstanding(), outstanding);
}

// --- handles ---

TEST(an_empty_handle, answers_that_it_was_cancelled) {
  const remote_handle empty;
  remote_timer timer;
  EXPECT_EQ(empty.post(0s, []() noexcept {}), UV_ECANCELED);
  EXPECT_EQ(empty.arm(
                0s, []() noexcept {}, timer),
            UV_ECANCELED);
  EXPECT_EQ(timer_service{}.remote().post(0s, []() noexcept {}), UV_ECANCELED) << "of a service that was never opened";
}

TEST(a_moved_from_handle, is_empty) {
  manual_service service;
  remote_handle from = service.timers.remote();
  const remote_handle to = std::move(from);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(from.post(0s, []() noexcept {}), UV_ECANCELED);
  EXPECT_EQ(to.post(0s, []() noexcept {}), 0);
  from = to;
  EXPECT_EQ(from.post(0s, []() noexcept {}), 0);
  service.advance(0ns);
  EXPECT_EQ(service.timers.stats().remote_ran, 2U);
}

TEST(a_handle, of_a_closed_service_answers_that_it_was_cancelled) {
  manual_service service;
  const remote_handle before = service.timers.remote();
  service.timers.close();
  const remote_handle after = service.timers.remote();
  for (const remote_handle& h : {before, after}) {
    EXPECT_EQ(h.post(0s, []() noexcept {}), UV_ECANCELED);
    EXPECT_EQ(h.post(1s, []() noexcept {}), UV_ECANCELED);
  }
}

TEST(a_handle, outlives_service_and_driver) {
  remote_handle handle;
  remote_timer timer;
  {
    manual_service service;
    handle = service.timers.remote();
    ASSERT_EQ(handle.arm(
                  1s, []() noexcept {}, timer),
              0);
  }
  EXPECT_EQ(handle.post(1s, []() noexcept {}), UV_ECANCELED);
  EXPECT_EQ(timer.cancel(), remote_timer::outcome::closed);
}

TEST(a_handle, from_before_stays_closed_when_the_service_is_opened_again) {
  manual_service service;
  const remote_handle before = service.timers.remote();
  service.timers.close();
  ASSERT_EQ(service.timers.open(service.time), 0);
  EXPECT_EQ(before.post(0s, []() noexcept {}), UV_ECANCELED);
  int ran = 0;
  EXPECT_EQ(service.timers.remote().post(0s, [&ran]() noexcept { ++ran; }), 0);
  service.advance(0ns);
  EXPECT_EQ(ran, 1);
}

TEST(a_handle, of_a_closed_service_stays_closed_when_opening_again_fails) {
  manual_service service;
  service.timers.close();
  {
    const allocations::failure failure{0};
    ASSERT_EQ(service.timers.open(service.time), UV_ENOMEM);
  }
  EXPECT_EQ(service.timers.remote().post(0s, []() noexcept {}), UV_ECANCELED);
}

// --- closing ---

TEST(closing, counts_what_has_not_run_wherever_it_is) {
  manual_service service{{.work_per_pass = 4}};
  const remote_handle handle = service.timers.remote();
  int ran = 0;
  const auto count = [&ran]() noexcept { ++ran; };
  std::array<remote_timer, 6> timers;
  for (remote_timer& t : timers) ASSERT_EQ(handle.arm(1s, count, t), 0);
  service.turn();                                                    // four in the wheel, two wait
  for (int i = 0; i < 3; ++i) ASSERT_EQ(handle.post(0s, count), 0);  // three in the inbox
  EXPECT_EQ(timers[0].cancel(), remote_timer::outcome::cancelled);   // a notice in the inbox
  EXPECT_EQ(timers[5].cancel(), remote_timer::outcome::cancelled);   // one that waits
  service.timers.close();
  EXPECT_EQ(ran, 0);
  const auto& s = service.timers.stats();
  EXPECT_EQ(s.remote_cancelled, 7U);
  EXPECT_EQ(s.remote_withdrawn, 2U);
  EXPECT_EQ(s.remote_accepted, 9U);
  EXPECT_EQ(s.pending, 0U);
  EXPECT_TRUE(remote_adds_up(service.timers));
  EXPECT_EQ(timers[0].cancel(), remote_timer::outcome::cancelled) << "asked again it is the same";
  EXPECT_EQ(timers[1].cancel(), remote_timer::outcome::closed);
  EXPECT_EQ(timers[5].cancel(), remote_timer::outcome::cancelled);
}

TEST(closing, frees_every_node_and_the_queue_with_the_last_handle) {
  const auto before = allocations::outstanding();
  {
    std::optional<manual_service> service{std::in_place};
    remote_handle handle = service->timers.remote();
    remote_timer timer;
    for (int i = 0; i < 10; ++i) ASSERT_EQ(handle.post(std::chrono::milliseconds{i}, []() noexcept {}), 0);
    ASSERT_EQ(handle.arm(
                  1s, []() noexcept {}, timer),
              0);
    service->advance(5ms);
    ASSERT_EQ(handle.post(0s, []() noexcept {}), 0);
    service.reset();
    EXPECT_EQ(allocations::outstanding(), before + 2) << "the post queue, and what the timer keeps";
  }
  EXPECT_EQ(allocations::outstanding(), before);
}

TEST(closing, in_a_posted_handler_is_the_last_thing_that_happens) {
  for (const auto delay : {0ms, 5ms}) {
    manual_service service;
    manual_service* const s = &service;
    int later = 0;
    const remote_handle handle = service.timers.remote();
    ASSERT_EQ(handle.post(delay, [s]() noexcept { s->timers.close(); }), 0);
    ASSERT_EQ(handle.post(delay, [&later]() noexcept { ++later; }), 0);
    service.time.advance(10ms);
    EXPECT_EQ(later, 0);
    EXPECT_EQ(service.timers.stats().remote_cancelled, 1U);
    EXPECT_TRUE(remote_adds_up(service.timers));
  }
}

TEST(destroying_the_service, in_a_posted_handler_is_safe) {
  for (const auto delay : {0ms, 5ms}) {
    tickwheel::manual_driver time;
    auto* service = new timer_service;
    ASSERT_EQ(service->open(time), 0);
    const remote_handle handle = service->remote();
    int later = 0;
    ASSERT_EQ(handle.post(delay, [service]() noexcept { delete service; }), 0);
    ASSERT_EQ(handle.post(delay, [&later]() noexcept { ++later; }), 0);
    time.advance(10ms);
    EXPECT_EQ(later, 0);
    EXPECT_EQ(time.bound(), nullptr);
    EXPECT_EQ(handle.post(0s, []() noexcept {}), UV_ECANCELED);
  }
}

// What the old service judged by must not be applied to the new one, whose time begins now.
TEST(opening_again, in_a_posted_handler_begins_anew) {
  manual_service service;
  probe p{service.timers};
  manual_service* const s = &service;
  const remote_handle handle = service.timers.remote();
  service.time.block(1h);
  probe* const timer = &p;
  ASSERT_EQ(handle.post(0s,
                        [s, timer]() noexcept {
                          s->timers.close();
                          ASSERT_EQ(s->timers.open(s->time), 0);
                          ASSERT_EQ(timer->timeout.arm(1s), 0);
                        }),
            0);
  ASSERT_EQ(handle.post(0s, []() noexcept {}), 0);
  service.turn();
  EXPECT_EQ(p.fired, 0);
  service.advance(2s);
  EXPECT_EQ(p.fired, 1);
}

// As above, and the new service stands where the old one stood, on the driver that is turning it, in the middle of a pass
// that has more to do.
TEST(another_service, opened_in_a_handler_in_the_place_of_the_one_it_destroyed_begins_anew) {
  tickwheel::manual_driver time;
  std::optional<timer_service> service{std::in_place};
  ASSERT_EQ(service->open(time), 0);
  std::optional<probe> p;
  std::array<std::optional<probe>, 8> due;
  for (auto& d : due) ASSERT_EQ(d.emplace(*service).timeout.arm(1ms), 0);
  const auto replace = [&]() noexcept {
    for (auto& d : due) d.reset();
    service.emplace();
    ASSERT_EQ(service->open(time), 0);
    ASSERT_EQ(p.emplace(*service).timeout.arm(1s), 0);
  };
  ASSERT_EQ(service->remote().post(0s, [to = &replace]() noexcept { (*to)(); }), 0);
  time.block(1h);
  EXPECT_TRUE(time.turn());
  ASSERT_TRUE(p);
  EXPECT_EQ(p->fired, 0) << "it was armed for a second";
  EXPECT_TRUE(is_valid(*service));
  time.advance(2s);
  EXPECT_EQ(p->fired, 1);
  EXPECT_GE(p->at, tickwheel::clock::time_point{} + 1h + 1s);
  p.reset();
}

TEST(stats, of_other_threads_begin_anew_when_the_service_is_opened_again) {
  manual_service service;
  ASSERT_EQ(service.timers.remote().post(1s, []() noexcept {}), 0);
  service.timers.close();
  EXPECT_EQ(service.timers.stats().remote_cancelled, 1U);
  ASSERT_EQ(service.timers.open(service.time), 0);
  EXPECT_EQ(service.timers.stats().remote_cancelled, 0U);
  EXPECT_EQ(service.timers.stats().remote_accepted, 0U);
}

}  // namespace
