// Cancelling from other threads, step by step: exactly one of the callable, a cancel and close wins, and a cancelled operation is freed
// before its time.
#include "../support/allocation_checks.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

using tickwheel::remote_handle;
using timer = tickwheel::remote_timer;
using outcome = tickwheel::remote_timer::outcome;

namespace {

class remote_timer : leak_check, public testing::Test {
 protected:
  int arm(std::chrono::nanoseconds after, timer& to) { return handle.arm(after, count_in(ran), to); }
  const tickwheel::service_stats& stats() { return service.timers.stats(); }

  manual_service service;
  remote_handle handle = service.timers.remote();
  int ran = 0;
  timer t;
};

TEST_F(remote_timer, cancelled_in_queue_or_wheel_never_runs) {
  for (const bool in_the_wheel : {false, true}) {
    ASSERT_EQ(arm(in_the_wheel ? 1s : 0s, t), 0);
    if (in_the_wheel) service.turn();
    EXPECT_EQ(stats().pending, in_the_wheel ? 1U : 0U);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(t.cancel(), outcome::cancelled);
    service.turn();
    EXPECT_EQ(stats().pending, 0U);
    service.advance(2s);
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(t.cancel(), outcome::cancelled);
    EXPECT_EQ(stats().armed, in_the_wheel ? 1U : 0U);
  }
  EXPECT_EQ(stats().remote_withdrawn, 2U);
}

TEST_F(remote_timer, cancel_after_it_ran_is_too_late) {
  for (const auto delay : {0ms, 5ms}) {
    ASSERT_EQ(arm(delay, t), 0);
    service.advance(10ms);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(t.cancel(), outcome::too_late);
  }
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(stats().remote_withdrawn, 0U);
  service.timers.close();
  EXPECT_EQ(t.cancel(), outcome::too_late);
}

TEST_F(remote_timer, cancel_in_its_callable_is_too_late) {
  for (const auto delay : {0ms, 5ms}) {
    auto answer = outcome::closed;
    ASSERT_EQ(handle.arm(
                  delay, [this, &answer]() noexcept { answer = t.cancel(); }, t),
              0);
    service.advance(10ms);
    EXPECT_EQ(answer, outcome::too_late);
  }
}

TEST_F(remote_timer, may_be_destroyed_in_its_callable) {
  for (const auto delay : {0ms, 5ms}) {
    auto* const own = new timer;
    const auto destroy = [this, own]() noexcept {
      delete own;
      ++ran;
    };
    ASSERT_EQ(handle.arm(delay, destroy, *own), 0);
    service.advance(10ms);
  }
  EXPECT_EQ(ran, 2);
}

TEST_F(remote_timer, cancel_after_close_says_closed) {
  timer queued;
  ASSERT_EQ(arm(1s, t), 0);
  service.turn();
  ASSERT_EQ(arm(1s, queued), 0);
  service.timers.close();
  for (timer* each : {&queued, &t, &queued, &t}) EXPECT_EQ(each->cancel(), outcome::closed);
  EXPECT_EQ(stats().remote_cancelled, 2U);
}

TEST_F(remote_timer, never_armed_moved_from_or_released_is_too_late) {
  EXPECT_EQ(t.cancel(), outcome::too_late);
  t.release();
  ASSERT_EQ(arm(1ms, t), 0);
  timer moved = std::move(t);
  EXPECT_EQ(t.cancel(), outcome::too_late);  // NOLINT(bugprone-use-after-move): that is what is tested
  moved.release();
  moved.release();
  EXPECT_EQ(moved.cancel(), outcome::too_late);
  service.advance(2ms);
  EXPECT_EQ(ran, 1) << "released, not cancelled";
}

TEST_F(remote_timer, assignment_cancels) {
  timer other;
  int second = 0;
  ASSERT_EQ(arm(1ms, t), 0);
  ASSERT_EQ(handle.arm(1ms, count_in(second), other), 0);
  t = std::move(other);
  service.advance(1s);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(second, 1);
  timer& self = t;
  t = std::move(self);
  EXPECT_EQ(t.cancel(), outcome::too_late);
}

TEST_F(remote_timer, arming_again_cancels_former) {
  int second = 0;
  ASSERT_EQ(arm(5ms, t), 0);
  ASSERT_EQ(handle.arm(5ms, count_in(second), t), 0);
  service.advance(1s);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(second, 1);
}

TEST_F(remote_timer, cancelled_is_freed_in_next_pass_not_at_deadline) {
  const auto before = allocations::outstanding();
  for (const bool in_the_wheel : {false, true}) {
    {
      timer own;
      ASSERT_EQ(arm(1h, own), 0);
      if (in_the_wheel) service.turn();
    }
    EXPECT_EQ(allocations::outstanding(), before + 1);
    service.turn();
    EXPECT_EQ(allocations::outstanding(), before);
    EXPECT_EQ(stats().pending, 0U);
    EXPECT_FALSE(service.time.alive()) << "an hour too long";
  }
  service.advance(2h);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(stats().remote_withdrawn, 2U);
}

TEST_F(remote_timer, notice_of_cancel_takes_no_place_in_queue) {
  manual_service small{{.max_queued = 1}};
  handle = small.timers.remote();
  ASSERT_EQ(handle.arm(1h, nothing, t), 0);
  small.turn();
  ASSERT_EQ(handle.post(nothing), 0);
  EXPECT_EQ(t.cancel(), outcome::cancelled);
  small.turn();
  EXPECT_EQ(small.timers.stats().pending, 0U);
  EXPECT_EQ(handle.post(nothing), 0) << "a notice takes no place";
}

// Due, cancelled, and the notice not read yet: whichever of the two the pass comes to first.
TEST_F(remote_timer, cancelled_when_due_never_runs) {
  for (unsigned i = 1; i <= 4; ++i) {
    timer own;
    ASSERT_EQ(arm(10ms, own), 0);
    service.turn();
    service.time.block(20ms);
    EXPECT_EQ(own.cancel(), outcome::cancelled);
    if (i % 2 == 0) {
      ASSERT_EQ(handle.post(nothing), 0);
    }
    service.advance(0ns);
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(own.cancel(), outcome::cancelled);
    EXPECT_EQ(stats().fired, 0U);
    EXPECT_EQ(stats().cancelled, i);
    EXPECT_EQ(stats().remote_withdrawn, i);
  }
}

// Both are due in one pass, and it may come to either first: the one that runs cancels the other.
TEST_F(remote_timer, cancelled_in_same_pass_never_runs) {
  for (unsigned i = 1; i <= 4; ++i) {
    timer a, b;
    ran = 0;
    for (auto [mine, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
      const auto cancel_other = [this, other = other]() noexcept {
        ++ran;
        EXPECT_EQ(other->cancel(), outcome::cancelled);
      };
      ASSERT_EQ(handle.arm(10ms, cancel_other, *mine), 0);
    }
    if (i % 2 == 0) service.turn();  // else both are due when they are taken
    service.time.block(20ms);
    service.advance(0ns);
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(stats().remote_ran, i);
    EXPECT_EQ(stats().remote_withdrawn, i);
  }
}

TEST_F(remote_timer, cancelled_as_it_expires_is_no_call_of_a_handler) {
  manual_service other{{.count_handlers = true}};
  ASSERT_EQ(other.timers.remote().arm(10ms, count_in(ran), t), 0);
  other.turn();
  cancel_in_steps cancel{t};
  ASSERT_TRUE(cancel.win());
  other.advance(20ms);
  cancel.tell_loop();
  other.advance(0ns);
  EXPECT_EQ(other.timers.stats().handler_time.count(), 0U);
  EXPECT_TRUE(other.timers.stats().handlers.all().empty());
}

// As above, and the callable closes the service before or after the wheel comes to the other, whose notice is unread.
TEST_F(remote_timer, cancelled_and_closed_in_same_pass_is_freed_once) {
  for (const auto closes_after : {9ms, 10ms, 11ms}) {
    manual_service other;
    handle = other.timers.remote();
    timer a, b;
    ASSERT_EQ(handle.arm(
                  9ms, [&b]() noexcept { b.cancel(); }, a),
              0);
    ASSERT_EQ(handle.arm(10ms, nothing, b), 0);
    ASSERT_EQ(handle.post(closes_after, [&other]() noexcept { other.timers.close(); }), 0);
    other.turn();
    other.time.block(20ms);
    other.time.turn();
    other.time.turn();
    EXPECT_FALSE(other.timers.is_open());
    EXPECT_TRUE(remote_adds_up(other.timers));
  }
}

// Only threads can do this to each other, here step by step: the thread that cancels is interrupted between winning and its notice.
TEST_F(remote_timer, late_notice_frees_operation_once) {
  const auto before = allocations::outstanding();
  for (const bool comes_due : {false, true}) {
    for (const bool closes : {false, true}) {
      manual_service other;
      timer own;
      ASSERT_EQ(other.timers.remote().arm(10ms, count_in(ran), own), 0);
      other.turn();
      cancel_in_steps cancel{own};
      ASSERT_TRUE(cancel.win());
      if (comes_due) other.advance(20ms);
      if (closes) other.timers.close();
      cancel.tell_loop();
      other.advance(0ns);
      EXPECT_EQ(own.cancel(), outcome::cancelled);
      EXPECT_EQ(other.timers.stats().remote_withdrawn, 1U);
      EXPECT_EQ(other.timers.stats().fired, 0U);
      other.timers.close();
      EXPECT_TRUE(remote_adds_up(other.timers));
    }
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(allocations::outstanding(), before);
  }
}

TEST_F(remote_timer, cancelling_some_of_many_leaves_the_others) {
  constexpr std::size_t count_of = 1000;
  std::vector<timer> timers(count_of);
  std::vector<int> fired(count_of);
  for (std::size_t i = 0; i < count_of; ++i) {
    ASSERT_EQ(handle.arm(std::chrono::microseconds{10 * i}, count_in(fired[i]), timers[i]), 0);
    if (i % 7 == 0) service.turn();
    if (i % 3 == 0) timers[i / 2].cancel();
    service.time.block(1us);
  }
  service.advance(1s);
  for (std::size_t i = 0; i < count_of; ++i) EXPECT_EQ(fired[i], timers[i].cancel() == outcome::cancelled ? 0 : 1);
  service.timers.close();
  EXPECT_TRUE(remote_adds_up(service.timers));
}

}  // namespace
