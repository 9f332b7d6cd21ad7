// Repeated notifications and pauses, which all idle timeouts have, shown with `idle_timeout`.
#include <tickwheel/net/idle_timeout.hpp>
#include <tickwheel/uv/remote.hpp>

#include "../../support/allocation_probe.hpp"
#include "../support/connection.hpp"

namespace {

using list = std::vector<unsigned>;

class idle_pause : public subject_test<connection> {
 protected:
  /// From now on the handler asks to be notified again, up to `most` times, and notes the count of timeouts.
  void keep_notifying(unsigned most = 1'000'000) {
    c.then = [this, most] {
      notices.push_back(c.timer.consecutive_timeouts());
      if (notices.back() < most) {
        EXPECT_EQ(c.timer.notify_again(), 0);
      }
    };
  }
  /// A limit that had run out before the pause is then judged during the next one.
  void pause_again_after_poll() {
    c.timer.resume();
    EXPECT_FALSE(service.time.turn());
    c.timer.pause();
  }
  list notices;
};
class notify_again : public idle_pause {};

TEST_F(notify_again, notifies_after_each_further_limit) {
  keep_notifying();
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(10s - 1ns);
  EXPECT_EQ(notices, list{});
  advance(1ns + tick());
  EXPECT_EQ(notices, (list{1}));
  advance(10s - tick());
  EXPECT_EQ(notices, (list{1}));
  advance(2 * tick());
  EXPECT_EQ(notices, (list{1, 2}));
  advance(10s + tick());
  EXPECT_EQ(notices, (list{1, 2, 3}));
}

TEST_F(notify_again, without_it_handler_runs_no_more) {
  keep_notifying(3);
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(1h);
  EXPECT_EQ(notices, (list{1, 2, 3}));
  EXPECT_FALSE(c.timer.armed());
}

TEST_F(notify_again, touch_in_handler_counts) {
  c.then = [&] {
    notices.push_back(c.timer.consecutive_timeouts());
    c.timer.touch();
    EXPECT_EQ(c.timer.notify_again(), 0);
  };
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(10s + tick());
  EXPECT_EQ(fired_after(10s - tick()), 1);
  advance(2 * tick());
  EXPECT_EQ(notices, (list{1, 1}));
}

TEST_F(notify_again, after_handler_still_counts_from_notification) {
  // the ping is sent later; the limit counts from the notice all the same
  ASSERT_EQ(c.timer.start(10s), 0);
  ASSERT_EQ(fired_after(10s + tick()), 1);
  advance(4s);
  ASSERT_EQ(c.timer.notify_again(), 0);
  EXPECT_EQ(fired_after(6s - tick()), 1);
  EXPECT_EQ(fired_after(2 * tick()), 2);
  EXPECT_EQ(c.timer.consecutive_timeouts(), 2U);
}

// The posted call asks again in a pass whose stamp is older than the call. The wheel's time is behind that by several ticks.
TEST_F(notify_again, after_its_limit_is_judged_after_the_next_poll) {
  ASSERT_EQ(c.timer.start(5ms), 0);
  ASSERT_EQ(fired_after(6ms), 1);
  advance(40ms);
  const probe other{service.timers, 3 * tick()};
  ASSERT_EQ(service.timers.remote().post(0s, [&]() noexcept { EXPECT_EQ(c.timer.notify_again(), 0); }), 0);
  service.time.oversleep(1ms);
  service.turn();
  EXPECT_TRUE(c.timer.armed());
  EXPECT_EQ(c.fired, 1);
  EXPECT_EQ(fired_after(2 * tick()), 2);
}

TEST_F(notify_again, late_notification_is_not_followed_by_burst) {
  reopen({.stall_grace = std::chrono::nanoseconds::max()});
  keep_notifying();
  ASSERT_EQ(c.timer.start(1s), 0);
  service.time.block(10s);
  advance(0ns);
  EXPECT_EQ(notices, (list{1}));
  advance(1s - tick());
  EXPECT_EQ(notices, (list{1}));
  advance(2 * tick());
  EXPECT_EQ(notices, (list{1, 2}));
}

// The handler before it in the same pass is slow: the time of the iteration is then older than the notification.
class notify_after_slow_handler : public idle_pause {
 protected:
  void SetUp() override {
    reopen({.stall_grace = std::chrono::nanoseconds::max(), .time_per_pass = std::chrono::nanoseconds::max()});
    ASSERT_EQ(c.timer.start(100ms), 0);
    ASSERT_EQ(slow_.arm(50ms), 0);
    service.time.block(150ms);
  }

 private:
  void work() noexcept {
    (void)service.timers.now();
    service.time.block(200ms);
  }
  tickwheel::member_timer<&notify_after_slow_handler::work> slow_{service.timers, *this};
};

TEST_F(notify_after_slow_handler, is_not_followed_by_burst) {
  keep_notifying();
  advance(0ns);
  EXPECT_EQ(notices, list{1});
  advance(100ms - tick());
  EXPECT_EQ(notices, list{1});
  advance(2 * tick());
  EXPECT_EQ(notices, (list{1, 2}));
}

TEST_F(notify_after_slow_handler, touch_in_handler_counts) {
  c.then = [&] {
    notices.push_back(c.timer.consecutive_timeouts());
    c.timer.touch();
    notices.push_back(c.timer.consecutive_timeouts());
  };
  advance(0ns);
  EXPECT_EQ(notices, (list{1, 0}));
}

TEST_F(notify_again, stall_does_not_count) {
  reopen({.stall_grace = 10ms});
  keep_notifying();
  ASSERT_EQ(c.timer.start(1s), 0);
  advance(1s + tick());
  ASSERT_EQ(notices, (list{1}));
  service.time.block(500ms);  // 490 ms of it are ours
  advance(989ms);
  EXPECT_EQ(notices, (list{1}));
  advance(2ms + tick());
  EXPECT_EQ(notices, (list{1, 2}));
}

TEST_F(notify_again, never_started_is_refused) {
  EXPECT_EQ(c.timer.notify_again(), UV_EINVAL);
  EXPECT_FALSE(c.timer.armed());
}

TEST_F(notify_again, armed_timeout_is_unchanged) {
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(5s);
  EXPECT_EQ(c.timer.notify_again(), 0);
  EXPECT_EQ(fired_after(5s + tick()), 1);
}

TEST_F(notify_again, does_not_end_pause) {
  ASSERT_EQ(c.timer.start(10s), 0);
  c.timer.pause();
  EXPECT_EQ(c.timer.notify_again(), 0);
  EXPECT_TRUE(c.timer.paused());
  EXPECT_EQ(fired_after(1h), 0);
}

// Such as one for the ping that the handler sends: a connection that could not ask again would never be reaped.
TEST_F(notify_again, keeps_its_place_when_handler_arms_another) {
  reopen({.max_armed = 1});
  probe other{service.timers};
  c.then = [&] {
    EXPECT_EQ(other.timeout.arm(1h), UV_ENOBUFS);
    service.check();
    EXPECT_EQ(c.timer.notify_again(), 0);
    EXPECT_TRUE(c.timer.armed());
    EXPECT_EQ(other.timeout.arm(1h), UV_ENOBUFS);
    service.check();
  };
  ASSERT_EQ(c.timer.start(20s), 0);
  EXPECT_EQ(fired_after(21s), 1);
  EXPECT_EQ(fired_after(20s), 2);
  EXPECT_EQ(c.timer.consecutive_timeouts(), 2U);
}

TEST_F(notify_again, leaves_other_places_to_others) {
  reopen({.max_armed = 3});
  probe first{service.timers}, second{service.timers}, third{service.timers};
  c.then = [&] {
    EXPECT_EQ(first.timeout.arm(1h), 0);
    EXPECT_EQ(c.timer.notify_again(), 0);
    EXPECT_EQ(second.timeout.arm(1h), 0);
    EXPECT_EQ(third.timeout.arm(1h), UV_ENOBUFS);
    EXPECT_EQ(service.timers.stats().pending, 3U);
    service.check();
  };
  ASSERT_EQ(c.timer.start(20s), 0);
  EXPECT_EQ(fired_after(21s), 1);
}

TEST_F(notify_again, keeps_its_place_for_start_in_handler) {
  reopen({.max_armed = 2});
  probe first{service.timers}, second{service.timers};
  c.then = [&] {
    EXPECT_EQ(first.timeout.arm(1h), 0);
    EXPECT_EQ(second.timeout.arm(1h), UV_ENOBUFS);
    EXPECT_EQ(c.timer.start(10s), 0);
    service.check();
  };
  ASSERT_EQ(c.timer.start(20s), 0);
  advance(21s);
  EXPECT_TRUE(c.timer.armed());
}

TEST_F(notify_again, place_is_free_once_handler_returns) {
  reopen({.max_armed = 1});
  probe other{service.timers};
  ASSERT_EQ(c.timer.start(1s), 0);
  ASSERT_EQ(fired_after(2s), 1);
  ASSERT_EQ(other.timeout.arm(1h), 0);
  EXPECT_EQ(c.timer.notify_again(), UV_ENOBUFS);
  other.timeout.cancel();
  EXPECT_EQ(c.timer.notify_again(), 0);
}

TEST_F(notify_again, keeps_no_place_from_next_handler_of_pass) {
  reopen({.max_armed = 2, .stall_grace = std::chrono::nanoseconds::max()});
  probe other{service.timers}, late{service.timers};
  other.then = [&] {
    EXPECT_EQ(late.timeout.arm(1h), 0);
    EXPECT_EQ(other.timeout.arm(1h), 0);
  };
  ASSERT_EQ(c.timer.start(1s), 0);
  ASSERT_EQ(other.timeout.arm(1s + 2 * tick()), 0);
  service.time.block(1s + 10ms);
  EXPECT_EQ(fired_after(10ms), 1);
  EXPECT_EQ(other.fired, 1);
}

TEST_F(notify_again, keeps_its_place_without_reference) {
  reopen({.max_armed = 2});
  probe other{service.timers};
  c.timer.unref();
  c.then = [&] {
    EXPECT_EQ(other.timeout.arm(1h), 0);
    EXPECT_EQ(c.timer.notify_again(), 0);
  };
  ASSERT_EQ(c.timer.start(20s), 0);
  advance(21s);
  EXPECT_TRUE(service.time.alive());
  other.timeout.cancel();
  EXPECT_FALSE(service.time.alive());
}

TEST_F(notify_again, closed_service_refuses) {
  c.then = [&] {
    service.timers.close();
    EXPECT_EQ(c.timer.notify_again(), UV_ECANCELED);
  };
  ASSERT_EQ(c.timer.start(1s), 0);
  service.time.advance(2s);
  EXPECT_EQ(c.fired, 1);
  EXPECT_EQ(c.timer.notify_again(), UV_ECANCELED);
}

TEST_F(idle_pause, touch_while_paused_restores_whole_limit) {
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(9s);
  c.timer.pause();
  advance(3s);
  c.timer.touch();
  advance(30s);
  c.timer.resume();
  EXPECT_TRUE(fires_in(10s));
}

TEST_F(idle_pause, touch_after_resume_counts_from_touch) {
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(9s);
  pause_for(30s);
  advance(500ms);
  c.timer.touch();
  EXPECT_TRUE(fires_in(10s));
}

TEST_F(idle_pause, silence_leaves_pause_out_after_notification) {
  std::vector<std::chrono::nanoseconds> silences;
  c.then = [&] {
    silences.push_back(c.timer.silence());
    EXPECT_EQ(c.timer.notify_again(), 0);
  };
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(11s);
  ASSERT_EQ(silences.size(), 1U);
  pause_for(100s);
  advance(10s);
  ASSERT_EQ(silences.size(), 2U);
  EXPECT_GE(silences[1], 20s);
  EXPECT_LE(silences[1], 20s + 4 * tick());
  EXPECT_EQ(c.timer.consecutive_timeouts(), 2U);
}

TEST_F(idle_pause, keeps_count_of_timeouts) {
  keep_notifying();
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(24s);
  ASSERT_EQ(notices, (list{1, 2}));
  pause_for(1h);
  EXPECT_EQ(c.timer.consecutive_timeouts(), 2U);
  advance(6s - tick());
  EXPECT_EQ(notices, (list{1, 2}));
  advance(3 * tick());
  EXPECT_EQ(notices, (list{1, 2, 3}));
}

TEST_F(idle_pause, expired_before_pause_is_judged_after_waiting_bytes) {
  reopen({.work_per_pass = 1, .stall_grace = std::chrono::nanoseconds::max()});
  std::deque<connection> all;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(all.emplace_back(service.timers).timer.start(10s), 0);
  service.time.block(11s);
  while (all[0].fired + all[1].fired + all[2].fired == 0) service.turn();
  std::vector<connection*> left;  // they have run out, too, and wait for the next pass
  for (connection& each : all)
    if (each.fired == 0) left.push_back(&each);
  ASSERT_EQ(left.size(), 2U);
  for (connection* each : left) each->timer.pause();
  advance(1min);
  EXPECT_EQ(left[0]->fired + left[1]->fired, 0);
  for (connection* each : left) each->timer.resume();
  left[1]->timer.touch();  // what had waited to be read
  advance(tick());
  EXPECT_EQ(left[0]->fired, 1);
  EXPECT_EQ(left[1]->fired, 0);
}

TEST_F(idle_pause, stall_in_iteration_of_pause_does_not_count) {
  reopen({.stall_grace = 10ms});
  ASSERT_EQ(c.timer.start(100ms), 0);
  advance(50ms);
  service.time.block(1s);  // by another callback, before ours pauses: of this the peer is charged 10 ms
  c.timer.pause();
  advance(0ns);
  advance(10s);
  c.timer.resume();
  EXPECT_EQ(fired_after(39ms), 0);
  EXPECT_EQ(fired_after(2ms), 1);
}

TEST_F(idle_pause, wakes_loop_about_once_per_limit) {
  ASSERT_EQ(c.timer.start(60s), 0);
  advance(59s);
  c.timer.pause();
  const auto before = service.time.wakeups();
  advance(600s);
  EXPECT_LE(service.time.wakeups() - before, 60U);  // with the few steps each that a far timer takes
}

TEST_F(idle_pause, notify_again_after_reopen_ends_it) {
  ASSERT_EQ(c.timer.start(1s), 0);
  c.timer.pause();
  service.timers.close();
  ASSERT_EQ(service.timers.open(service.time), 0);
  EXPECT_EQ(c.timer.notify_again(), 0);
  EXPECT_FALSE(c.timer.paused());
  EXPECT_EQ(fired_after(1s + tick()), 1);
}

TEST_F(notify_again, after_reopen_counts_from_the_opening) {
  reopen({.stall_grace = 10ms});
  service.time.block(1min);  // responsive time is behind by almost as much
  service.advance(0ns);
  ASSERT_EQ(c.timer.start(10s), 0);
  ASSERT_EQ(fired_after(10s + tick()), 1);
  service.timers.close();
  service.time.advance(1h);
  ASSERT_EQ(service.timers.open(service.time, {.stall_grace = 10ms}), 0);
  ASSERT_EQ(c.timer.notify_again(), 0);
  EXPECT_EQ(c.timer.consecutive_timeouts(), 1U);
  EXPECT_EQ(fired_after(10s - 1ns), 1);
  EXPECT_EQ(fired_after(1ns + tick()), 2);
  EXPECT_EQ(c.timer.consecutive_timeouts(), 2U);
}

TEST_F(notify_again, after_reopen_leaves_out_a_block_before_the_opening) {
  reopen({.stall_grace = 10ms});
  ASSERT_EQ(c.timer.start(10s), 0);
  service.timers.close();
  service.time.turn();
  service.time.block(1min);
  ASSERT_EQ(service.timers.open(service.time, {.stall_grace = 10ms}), 0);
  ASSERT_EQ(c.timer.notify_again(), 0);
  EXPECT_EQ(fired_after(10s - 1ns), 0);
  EXPECT_EQ(fired_after(1ns + tick()), 1);
}

// The limit had run out before the first pause. So it is judged although the owner has paused again, after a poll.
TEST_F(idle_pause, goes_on_if_verdict_comes_during_it) {
  keep_notifying();
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(9s);
  service.time.oversleep(2s);
  c.timer.pause();
  advance(20s);
  ASSERT_EQ(notices, list{});
  pause_again_after_poll();
  advance(1s);
  ASSERT_EQ(notices, list{1});
  EXPECT_TRUE(c.timer.paused());
  advance(1h);
  EXPECT_EQ(notices, list{1});
  c.timer.resume();
  advance(10s - 2 * tick());
  EXPECT_EQ(notices, list{1});
  advance(4 * tick());
  EXPECT_EQ(notices, (list{1, 2}));
}

// Bytes refute the verdict that a resume has put off. Then a block lasts longer than the limit, and the owner pauses before the next
// bytes are read.
TEST_F(idle_pause, verdict_that_a_touch_has_refuted_is_not_given_in_the_next_pause) {
  reopen({.stall_grace = std::chrono::nanoseconds::max()});
  for (const bool in_iteration_of_resume : {false, true}) {
    ASSERT_EQ(c.timer.start(10s), 0);
    advance(9s);
    service.time.oversleep(2s);
    c.timer.pause();
    advance(20s);
    c.timer.resume();
    if (in_iteration_of_resume) c.timer.touch();
    service.turn();
    if (!in_iteration_of_resume) c.timer.touch();
    service.turn();
    service.time.block(11s);
    c.timer.pause();
    EXPECT_EQ(fired_after(1min), 0) << in_iteration_of_resume;
    c.timer.resume();
    service.turn();
    c.timer.touch();
    EXPECT_EQ(fired_after(10s - tick()), 0) << in_iteration_of_resume;
    c.timer.cancel();
  }
}

TEST_F(idle_pause, may_end_between_verdict_and_notify_again) {
  ASSERT_EQ(c.timer.start(10s), 0);
  advance(9s);
  service.time.oversleep(2s);
  c.timer.pause();
  advance(20s);
  pause_again_after_poll();
  ASSERT_EQ(fired_after(1s), 1);
  c.timer.resume();
  ASSERT_EQ(c.timer.notify_again(), 0);
  EXPECT_FALSE(c.timer.paused());
  EXPECT_EQ(fired_after(10s), 2);
}

// The pass that gives the verdict comes long after the pause.
TEST_F(idle_pause, next_limit_counts_from_verdict_during_it) {
  keep_notifying();
  ASSERT_EQ(c.timer.start(50ms), 0);
  advance(49ms);
  service.time.oversleep(2ms);
  c.timer.pause();
  advance(1s);
  pause_again_after_poll();
  service.time.block(400ms);
  advance(0ns);
  while (notices.empty()) service.turn();
  c.timer.resume();
  advance(50ms - 2 * tick());
  EXPECT_EQ(notices, list{1});
  advance(4 * tick());
  EXPECT_EQ(notices, (list{1, 2}));
}

// The verdict is as of a time before two pauses.
TEST_F(idle_pause, silence_is_at_least_the_limit_if_verdict_comes_during_it) {
  std::chrono::nanoseconds silence{-1};
  c.then = [&] { silence = c.timer.silence(); };
  turn_with_input(
      135ms);  // until the next 1024 ticks begin: the timer is then placed in its slot of the finest level at once
  ASSERT_EQ(c.timer.start(60ms), 0);
  turn_with_input(56ms);
  service.time.block(40ms);
  service.timers.update_now();
  c.timer.pause();
  c.timer.resume();
  service.time.block(1ms);  // the stamp of the verdict is later than the tick for which it is armed
  turn_with_input(5ms);
  c.timer.pause();
  turn_with_input(60ms);
  c.timer.resume();
  turn_with_input(5ms);
  c.timer.pause();
  turn_with_input(3s);
  ASSERT_EQ(c.fired, 1);
  EXPECT_GE(silence, 60ms);
}

TEST_F(idle_pause, handler_may_pause_after_notify_again) {
  c.then = [&] {
    EXPECT_EQ(c.timer.notify_again(), 0);
    c.timer.pause();
  };
  ASSERT_EQ(c.timer.start(1s), 0);
  EXPECT_EQ(fired_after(1h), 1);
  c.timer.resume();
  EXPECT_EQ(fired_after(1s - tick()), 1);
  EXPECT_EQ(fired_after(3 * tick()), 2);
}

}  // namespace
