// Cancelling from other threads, step by step: exactly one of the handler, who cancels and closing wins, and what was
// cancelled is let go before its time.
#include "../../support/allocation_probe.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using tickwheel::remote_handle;
using tickwheel::remote_timer;
using outcome = tickwheel::remote_timer::outcome;

namespace {

class cancelling : public testing::Test {
 protected:
  int arm(std::chrono::nanoseconds after, remote_timer& timer) {
    return handle.arm(
        after, [this]() noexcept { ++ran; }, timer);
  }
  const tickwheel::service_stats& stats() { return service.timers.stats(); }

  manual_service service;
  remote_handle handle = service.timers.remote();
  int ran = 0;
};

TEST_F(cancelling, before_delivery_wins_and_answers_the_same_again) {
  remote_timer t;
  ASSERT_EQ(arm(0s, t), 0);
  EXPECT_EQ(t.cancel(), outcome::cancelled);
  EXPECT_EQ(t.cancel(), outcome::cancelled);
  service.advance(1s);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(t.cancel(), outcome::cancelled);
  EXPECT_EQ(stats().remote_withdrawn, 1U);
  EXPECT_EQ(stats().armed, 0U);
}

TEST_F(cancelling, in_the_wheel_wins_and_answers_the_same_again) {
  remote_timer t;
  ASSERT_EQ(arm(1s, t), 0);
  service.turn();
  EXPECT_EQ(stats().pending, 1U);
  EXPECT_EQ(t.cancel(), outcome::cancelled);
  EXPECT_EQ(t.cancel(), outcome::cancelled);
  service.turn();
  EXPECT_EQ(stats().pending, 0U);
  EXPECT_EQ(stats().remote_withdrawn, 1U);
  service.advance(2s);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(t.cancel(), outcome::cancelled);
}

TEST_F(cancelling, after_it_fired_is_too_late) {
  for (const auto delay : {0ms, 5ms}) {
    remote_timer t;
    ASSERT_EQ(arm(delay, t), 0);
    service.advance(10ms);
    EXPECT_EQ(t.cancel(), outcome::too_late);
    EXPECT_EQ(t.cancel(), outcome::too_late);
  }
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(stats().remote_withdrawn, 0U);
}

TEST_F(cancelling, from_its_own_handler_is_too_late) {
  for (const auto delay : {0ms, 5ms}) {
    remote_timer t;
    auto answer = outcome::closed;
    auto* const timer = &t;
    auto* const to = &answer;
    ASSERT_EQ(handle.arm(
                  delay, [timer, to]() noexcept { *to = timer->cancel(); }, t),
              0);
    service.advance(10ms);
    EXPECT_EQ(answer, outcome::too_late);
  }
}

TEST_F(cancelling, destroying_the_timer_in_its_own_handler_is_safe) {
  for (const auto delay : {0ms, 5ms}) {
    auto* const t = new remote_timer;
    int* const count = &ran;
    ASSERT_EQ(handle.arm(
                  delay,
                  [t, count]() noexcept {
                    delete t;
                    ++*count;
                  },
                  *t),
              0);
    service.advance(10ms);
  }
  EXPECT_EQ(ran, 2);
}

TEST_F(cancelling, after_the_service_closed_says_so) {
  remote_timer queued;
  remote_timer armed;
  ASSERT_EQ(arm(1s, armed), 0);
  service.turn();
  ASSERT_EQ(arm(1s, queued), 0);
  service.timers.close();
  for (remote_timer* t : {&queued, &armed}) {
    EXPECT_EQ(t->cancel(), outcome::closed);
    EXPECT_EQ(t->cancel(), outcome::closed);
  }
  EXPECT_EQ(stats().remote_cancelled, 2U);
}

TEST_F(cancelling, one_that_fired_before_the_service_closed_is_too_late) {
  remote_timer t;
  ASSERT_EQ(arm(1ms, t), 0);
  service.advance(2ms);
  service.timers.close();
  EXPECT_EQ(t.cancel(), outcome::too_late);
}

TEST_F(cancelling, one_that_was_never_armed_moved_from_or_released_is_too_late) {
  remote_timer t;
  EXPECT_EQ(t.cancel(), outcome::too_late);
  t.release();
  ASSERT_EQ(arm(1ms, t), 0);
  remote_timer moved = std::move(t);
  EXPECT_EQ(t.cancel(), outcome::too_late);  // NOLINT(bugprone-use-after-move): that is what is tested
  moved.release();
  moved.release();
  EXPECT_EQ(moved.cancel(), outcome::too_late);
  service.advance(2ms);
  EXPECT_EQ(ran, 1) << "released, not cancelled";
}

TEST_F(cancelling, is_what_the_destructor_does) {
  {
    remote_timer queued;
    ASSERT_EQ(arm(1ms, queued), 0);
  }
  {
    remote_timer armed;
    ASSERT_EQ(arm(1ms, armed), 0);
    service.turn();
  }
  service.advance(1s);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(stats().remote_withdrawn, 2U);
}

TEST_F(cancelling, is_what_assigning_does) {
  remote_timer a;
  remote_timer b;
  int first = 0;
  int second = 0;
  ASSERT_EQ(handle.arm(
                1ms, [&first]() noexcept { ++first; }, a),
            0);
  ASSERT_EQ(handle.arm(
                1ms, [&second]() noexcept { ++second; }, b),
            0);
  a = std::move(b);
  service.advance(1s);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  remote_timer& self = a;
  a = std::move(self);
  EXPECT_EQ(a.cancel(), outcome::too_late);
}

TEST_F(cancelling, is_what_arming_with_a_timer_in_use_does) {
  remote_timer t;
  int second = 0;
  ASSERT_EQ(arm(5ms, t), 0);
  ASSERT_EQ(handle.arm(
                5ms, [&second]() noexcept { ++second; }, t),
            0);
  service.advance(1s);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(second, 1);
}

TEST_F(cancelling, leaves_a_timer_in_use_armed_when_arming_it_again_is_refused) {
  remote_timer t;
  ASSERT_EQ(arm(5ms, t), 0);
  {
    const allocations::failure failure{0};
    EXPECT_EQ(arm(1h, t), UV_ENOMEM);
  }
  EXPECT_EQ(remote_handle{}.arm(
                1h, []() noexcept {}, t),
            UV_ECANCELED);
  service.advance(10ms);
  EXPECT_EQ(ran, 1);
}

TEST_F(cancelling, frees_at_the_next_delivery_and_not_at_the_deadline) {
  const auto before = allocations::outstanding();
  for (const bool in_the_wheel : {false, true}) {
    {
      remote_timer t;
      ASSERT_EQ(arm(1h, t), 0);
      if (in_the_wheel) service.turn();
    }
    EXPECT_EQ(allocations::outstanding(), before + 1);
    service.turn();
    EXPECT_EQ(allocations::outstanding(), before);
    EXPECT_EQ(stats().pending, 0U);
    EXPECT_FALSE(service.time.alive()) << "an hour too long";
  }
}

TEST_F(cancelling, is_noticed_although_the_inbox_is_full) {
  manual_service small{{.max_queued = 1}};
  remote_timer t;
  ASSERT_EQ(small.timers.remote().arm(
                1h, []() noexcept {}, t),
            0);
  small.turn();
  ASSERT_EQ(small.timers.remote().post(0s, []() noexcept {}), 0);
  EXPECT_EQ(t.cancel(), outcome::cancelled);
  small.turn();
  EXPECT_EQ(small.timers.stats().pending, 0U);
  EXPECT_EQ(small.timers.remote().post(0s, []() noexcept {}), 0) << "a notice takes no place";
}

// Due, cancelled, and the notice not read yet: whichever of the two the pass comes to first.
TEST_F(cancelling, what_is_due_already_is_final) {
  const auto before = allocations::outstanding();
  for (unsigned i = 1; i <= 4; ++i) {
    remote_timer t;
    ASSERT_EQ(arm(10ms, t), 0);
    service.turn();
    service.time.block(20ms);
    EXPECT_EQ(t.cancel(), outcome::cancelled);
    if (i % 2 == 0) {
      ASSERT_EQ(handle.post(0s, []() noexcept {}), 0);
    }
    service.advance(0ns);
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(t.cancel(), outcome::cancelled);
    EXPECT_EQ(stats().fired, 0U);
    EXPECT_EQ(stats().cancelled, i);
    EXPECT_EQ(stats().remote_withdrawn, i);
  }
  EXPECT_EQ(allocations::outstanding(), before);
}

// Both are due in one pass, and it may come to either first: the one that runs cancels the other.
TEST_F(cancelling, in_a_handler_of_the_same_pass_is_final) {
  const auto before = allocations::outstanding();
  for (unsigned i = 1; i <= 4; ++i) {
    remote_timer a;
    remote_timer b;
    int count = 0;
    int* const ran_here = &count;
    for (auto [mine, other] : {std::pair{&a, &b}, std::pair{&b, &a}})
      ASSERT_EQ(handle.arm(
                    10ms,
                    [ran_here, other = other]() noexcept {
                      ++*ran_here;
                      EXPECT_EQ(other->cancel(), outcome::cancelled);
                    },
                    *mine),
                0);
    if (i % 2 == 0) service.turn();  // else both are due when they are taken
    service.time.block(20ms);
    service.advance(0ns);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(stats().remote_ran, i);
    EXPECT_EQ(stats().remote_withdrawn, i);
  }
  EXPECT_EQ(allocations::outstanding(), before);
}

// As above, and the handler closes the service before or after the wheel comes to the other, whose notice is unread.
TEST_F(cancelling, and_closing_in_the_same_pass_frees_the_timer_once) {
  const auto before = allocations::outstanding();
  for (const auto closes_after : {9ms, 10ms, 11ms}) {
    manual_service other;
    const remote_handle h = other.timers.remote();
    remote_timer a;
    remote_timer b;
    remote_timer* const cancelled = &b;
    auto* const timers = &other.timers;
    ASSERT_EQ(h.arm(
                  9ms, [cancelled]() noexcept { cancelled->cancel(); }, a),
              0);
    ASSERT_EQ(h.arm(
                  10ms, []() noexcept {}, b),
              0);
    ASSERT_EQ(h.post(closes_after, [timers]() noexcept { timers->close(); }), 0);
    other.turn();
    other.time.block(20ms);
    other.time.turn();
    other.time.turn();
    EXPECT_FALSE(other.timers.is_open());
    EXPECT_TRUE(remote_adds_up(other.timers));
  }
  EXPECT_EQ(allocations::outstanding(), before);
}

// What only threads can do to each other, here step by step: who cancels is interrupted between winning and saying so.
TEST_F(cancelling, and_being_slow_to_say_so_frees_the_timer_once) {
  const auto before = allocations::outstanding();
  for (const bool comes_due : {false, true}) {
    for (const bool closes : {false, true}) {
      manual_service other;
      remote_timer t;
      ASSERT_EQ(other.timers.remote().arm(
                    10ms, [this]() noexcept { ++ran; }, t),
                0);
      other.turn();
      cancel_in_steps cancel{t};
      ASSERT_TRUE(cancel.win());
      if (comes_due) other.advance(20ms);
      if (closes) other.timers.close();
      cancel.tell_loop();
      other.advance(0ns);
      EXPECT_EQ(t.cancel(), outcome::cancelled);
      EXPECT_EQ(other.timers.stats().remote_withdrawn, 1U);
      EXPECT_EQ(other.timers.stats().fired, 0U);
      other.timers.close();
      EXPECT_TRUE(remote_adds_up(other.timers));
    }
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(allocations::outstanding(), before);
  }
}

TEST_F(cancelling, some_of_many_leaves_exactly_the_others) {
  constexpr int count = 1000;
  std::vector<remote_timer> timers(count);
  std::vector<int> fired(count);
  for (int i = 0; i < count; ++i) {
    int* const at = &fired[static_cast<std::size_t>(i)];
    ASSERT_EQ(handle.arm(
                  std::chrono::microseconds{10 * i}, [at]() noexcept { ++*at; }, timers[static_cast<std::size_t>(i)]),
              0);
    if (i % 7 == 0) service.turn();
    if (i % 3 == 0) timers[static_cast<std::size_t>(i / 2)].cancel();
    service.time.block(1us);
  }
  service.advance(1s);
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(fired[static_cast<std::size_t>(i)],
              timers[static_cast<std::size_t>(i)].cancel() == outcome::cancelled ? 0 : 1);
  service.timers.close();
  EXPECT_TRUE(remote_adds_up(service.timers));
}

}  // namespace
