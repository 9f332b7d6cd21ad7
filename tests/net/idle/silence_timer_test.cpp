// What all idle timeouts can do, shown with the one that is touched: repeated notices, pauses, and use in a pool.
#include <tickwheel/net/idle_timeout.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"
#include "../support/connection.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <vector>

using namespace std::chrono_literals;

namespace {

/// A connection that asks to be told again, and notes how often it was told in a row.
struct pinging {
  explicit pinging(tickwheel::timer_service& timers, unsigned most = 1'000'000) : connection_{timers} {
    connection_.then = [this, most] {
      notices.push_back(idle.consecutive_timeouts());
      if (idle.consecutive_timeouts() < most) {
        EXPECT_EQ(idle.notify_again(), 0);
      }
    };
  }

 private:
  connection connection_;

 public:
  decltype(connection::idle)& idle = connection_.idle;
  std::vector<unsigned> notices;
};

using list = std::vector<unsigned>;

TEST(a_notice, comes_again_after_each_further_limit_when_the_handler_asks_for_it) {
  manual_service service;
  pinging c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(10s - 1ns);
  EXPECT_EQ(c.notices, list{});
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.notices, (list{1}));
  service.advance(10s - service.tick());
  EXPECT_EQ(c.notices, (list{1}));
  service.advance(2 * service.tick());
  EXPECT_EQ(c.notices, (list{1, 2}));
  service.advance(10s + service.tick());
  EXPECT_EQ(c.notices, (list{1, 2, 3}));
}

TEST(a_notice, is_the_last_when_the_handler_does_not_ask_again) {
  manual_service service;
  pinging c{service.timers, 3};
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(1h);
  EXPECT_EQ(c.notices, (list{1, 2, 3}));
  EXPECT_FALSE(c.idle.armed());
}

TEST(a_notice, counts_from_one_again_after_a_touch) {
  manual_service service;
  pinging c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(25s);
  EXPECT_EQ(c.idle.consecutive_timeouts(), 2U);
  c.idle.touch();
  EXPECT_EQ(c.idle.consecutive_timeouts(), 0U);
  service.advance(10s - 1ns);
  EXPECT_EQ(c.notices, (list{1, 2}));
  service.advance(11s);
  EXPECT_EQ(c.notices, (list{1, 2, 1, 2}));
}

TEST(a_notice, counts_from_one_again_after_a_start) {
  manual_service service;
  pinging c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(25s);
  ASSERT_EQ(c.idle.start(10s), 0);
  EXPECT_EQ(c.idle.consecutive_timeouts(), 0U);
  service.advance(11s);
  EXPECT_EQ(c.notices, (list{1, 2, 1}));
}

TEST(a_notice, is_followed_by_another_a_limit_after_a_touch_within_the_handler) {
  manual_service service;
  connection c{service.timers};
  std::vector<unsigned> notices;
  c.then = [&] {
    notices.push_back(c.idle.consecutive_timeouts());
    c.idle.touch();
    EXPECT_EQ(c.idle.notify_again(), 0);
  };
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(10s + service.tick());
  service.advance(10s - service.tick());
  EXPECT_EQ(c.evicted, 1);
  service.advance(2 * service.tick());
  EXPECT_EQ(notices, (list{1, 1}));
}

TEST(a_notice, may_be_asked_for_after_the_handler) {
  // the ping is sent later; the limit counts from the notice all the same
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(10s + service.tick());
  ASSERT_EQ(c.evicted, 1);
  service.advance(4s);
  ASSERT_EQ(c.idle.notify_again(), 0);
  service.advance(6s - service.tick());
  EXPECT_EQ(c.evicted, 1);
  service.advance(2 * service.tick());
  EXPECT_EQ(c.evicted, 2);
  EXPECT_EQ(c.idle.consecutive_timeouts(), 2U);
}

TEST(a_notice, that_is_very_late_is_not_followed_by_a_burst) {
  manual_service service{{.stall_grace = std::chrono::nanoseconds::max()}};
  pinging c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  service.time.block(10s);
  service.advance(0ns);
  EXPECT_EQ(c.notices, (list{1}));
  service.advance(1s - service.tick());
  EXPECT_EQ(c.notices, (list{1}));
  service.advance(2 * service.tick());
  EXPECT_EQ(c.notices, (list{1, 2}));
}

TEST(a_notice, that_follows_does_not_charge_the_peer_with_a_stall) {
  manual_service service{{.stall_grace = 10ms}};
  pinging c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  service.advance(1s + service.tick());
  ASSERT_EQ(c.notices, (list{1}));
  service.time.block(500ms);  // 490 ms of it are ours
  service.advance(989ms);
  EXPECT_EQ(c.notices, (list{1}));
  service.advance(2ms + service.tick());
  EXPECT_EQ(c.notices, (list{1, 2}));
}

TEST(asking_again, is_refused_of_one_that_was_never_started) {
  manual_service service;
  connection c{service.timers};
  EXPECT_EQ(c.idle.notify_again(), UV_EINVAL);
  EXPECT_FALSE(c.idle.armed());
}

TEST(asking_again, has_no_effect_on_one_that_is_armed) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(5s);
  EXPECT_EQ(c.idle.notify_again(), 0);
  service.advance(5s + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(asking_again, does_not_end_a_pause) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  c.idle.pause();
  EXPECT_EQ(c.idle.notify_again(), 0);
  EXPECT_TRUE(c.idle.paused());
  service.advance(1h);
  EXPECT_EQ(c.evicted, 0);
}

// Such as one for the ping that the handler sends: a connection that could not ask again would never be reaped.
TEST(asking_again, keeps_its_place_when_handler_arms_another) {
  manual_service service{{.max_armed = 1}};
  connection c{service.timers};
  probe other{service.timers};
  c.then = [&] {
    EXPECT_EQ(other.timeout.arm(1h), UV_ENOBUFS);
    service.check();
    EXPECT_EQ(c.idle.notify_again(), 0);
    EXPECT_TRUE(c.idle.armed());
    EXPECT_EQ(other.timeout.arm(1h), UV_ENOBUFS);
    service.check();
  };
  ASSERT_EQ(c.idle.start(20s), 0);
  service.advance(21s);
  EXPECT_EQ(c.evicted, 1);
  service.advance(20s);
  EXPECT_EQ(c.evicted, 2);
  EXPECT_EQ(c.idle.consecutive_timeouts(), 2U);
}

TEST(asking_again, leaves_other_places_to_others) {
  manual_service service{{.max_armed = 3}};
  connection c{service.timers};
  probe first{service.timers}, second{service.timers}, third{service.timers};
  c.then = [&] {
    EXPECT_EQ(first.timeout.arm(1h), 0);
    EXPECT_EQ(c.idle.notify_again(), 0);
    EXPECT_EQ(second.timeout.arm(1h), 0);
    EXPECT_EQ(third.timeout.arm(1h), UV_ENOBUFS);
    EXPECT_EQ(service.timers.stats().pending, 3U);
    service.check();
  };
  ASSERT_EQ(c.idle.start(20s), 0);
  service.advance(21s);
  EXPECT_EQ(c.evicted, 1);
}

TEST(asking_again, keeps_its_place_for_start_in_handler) {
  manual_service service{{.max_armed = 2}};
  connection c{service.timers};
  probe first{service.timers}, second{service.timers};
  c.then = [&] {
    EXPECT_EQ(first.timeout.arm(1h), 0);
    EXPECT_EQ(second.timeout.arm(1h), UV_ENOBUFS);
    EXPECT_EQ(c.idle.start(10s), 0);
    service.check();
  };
  ASSERT_EQ(c.idle.start(20s), 0);
  service.advance(21s);
  EXPECT_TRUE(c.idle.armed());
}

TEST(asking_again, gives_its_place_up_when_handler_returns) {
  manual_service service{{.max_armed = 1}};
  connection c{service.timers};
  probe other{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  service.advance(2s);
  ASSERT_EQ(c.evicted, 1);
  ASSERT_EQ(other.timeout.arm(1h), 0);
  EXPECT_EQ(c.idle.notify_again(), UV_ENOBUFS);
  other.timeout.cancel();
  EXPECT_EQ(c.idle.notify_again(), 0);
}

TEST(asking_again, keeps_no_place_from_next_handler_of_the_pass) {
  manual_service service{{.max_armed = 2, .stall_grace = std::chrono::nanoseconds::max()}};
  connection c{service.timers};
  probe other{service.timers}, late{service.timers};
  other.then = [&] {
    EXPECT_EQ(late.timeout.arm(1h), 0);
    EXPECT_EQ(other.timeout.arm(1h), 0);
  };
  ASSERT_EQ(c.idle.start(1s), 0);
  ASSERT_EQ(other.timeout.arm(1s + 2 * service.tick()), 0);
  service.time.block(1s + 10ms);
  service.advance(10ms);
  EXPECT_EQ(c.evicted, 1);
  EXPECT_EQ(other.fired, 1);
}

TEST(asking_again, keeps_its_place_without_reference) {
  manual_service service{{.max_armed = 2}};
  connection c{service.timers};
  probe other{service.timers};
  c.idle.unref();
  c.then = [&] {
    EXPECT_EQ(other.timeout.arm(1h), 0);
    EXPECT_EQ(c.idle.notify_again(), 0);
  };
  ASSERT_EQ(c.idle.start(20s), 0);
  service.advance(21s);
  EXPECT_TRUE(service.time.alive());
  other.timeout.cancel();
  EXPECT_FALSE(service.time.alive());
}

TEST(asking_again, is_refused_when_service_is_closed) {
  manual_service service;
  connection c{service.timers};
  c.then = [&] {
    service.timers.close();
    EXPECT_EQ(c.idle.notify_again(), UV_ECANCELED);
  };
  ASSERT_EQ(c.idle.start(1s), 0);
  service.time.advance(2s);
  EXPECT_EQ(c.evicted, 1);
  EXPECT_EQ(c.idle.notify_again(), UV_ECANCELED);
}

TEST(a_touch, does_not_count_from_before_the_start_that_came_late_in_the_same_iteration) {
  manual_service service{{.stall_grace = 10ms}};
  connection c{service.timers};
  service.timers.now();  // the time of the iteration, 8 ms before the start
  service.time.block(8ms);
  ASSERT_EQ(c.idle.start(100ms), 0);
  c.idle.touch();
  service.advance(100ms - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(2 * service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_paused_one, is_not_found_idle_however_long_the_pause) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(4s);
  c.idle.pause();
  EXPECT_TRUE(c.idle.paused());
  EXPECT_TRUE(c.idle.armed());
  service.advance(24h);
  EXPECT_EQ(c.evicted, 0);
  EXPECT_TRUE(c.idle.armed());
}

TEST(a_paused_one, has_left_what_it_had_left_when_it_is_resumed) {
  for (const std::chrono::nanoseconds pause : {0s, 3s, 6s, 10s, 1000s}) {
    manual_service service;
    connection c{service.timers};
    ASSERT_EQ(c.idle.start(10s), 0);
    service.advance(4s);
    c.idle.pause();
    service.advance(pause);
    c.idle.resume();
    EXPECT_FALSE(c.idle.paused());
    service.advance(6s - 1ns);
    EXPECT_EQ(c.evicted, 0) << pause.count();
    service.advance(1ns + service.tick());
    EXPECT_EQ(c.evicted, 1) << pause.count();
  }
}

TEST(a_paused_one, that_was_touched_meanwhile_has_all_of_its_limit_left) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(9s);
  c.idle.pause();
  service.advance(3s);
  c.idle.touch();
  service.advance(30s);
  c.idle.resume();
  service.advance(10s - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_paused_one, that_is_touched_after_it_was_resumed_counts_from_there) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(9s);
  c.idle.pause();
  service.advance(30s);
  c.idle.resume();
  service.advance(500ms);
  c.idle.touch();
  service.advance(10s - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_paused_one, may_be_paused_many_times_and_only_the_rest_counts) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  for (int i = 0; i < 99; ++i) {
    service.advance(100ms);
    c.idle.pause();
    service.advance(7s);
    c.idle.resume();
  }
  service.advance(100ms - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_paused_one, is_paused_once_however_often_it_is_told) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(4s);
  c.idle.pause();
  service.advance(5s);
  c.idle.pause();
  service.advance(5s);
  c.idle.resume();
  EXPECT_FALSE(c.idle.paused());
  c.idle.resume();
  service.advance(6s - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_paused_one, does_not_count_the_pause_as_silence_after_a_notice_either) {
  manual_service service;
  connection c{service.timers};
  std::vector<std::chrono::nanoseconds> silences;
  c.then = [&] {
    silences.push_back(c.idle.silence());
    EXPECT_EQ(c.idle.notify_again(), 0);
  };
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(11s);
  ASSERT_EQ(silences.size(), 1U);
  c.idle.pause();
  service.advance(100s);
  c.idle.resume();
  service.advance(10s);
  ASSERT_EQ(silences.size(), 2U);
  EXPECT_GE(silences[1], 20s);
  EXPECT_LE(silences[1], 20s + 4 * service.tick());
  EXPECT_EQ(c.idle.consecutive_timeouts(), 2U);
}

TEST(a_paused_one, keeps_its_count_of_notices) {
  manual_service service;
  pinging c{service.timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  service.advance(24s);
  ASSERT_EQ(c.notices, (list{1, 2}));
  c.idle.pause();
  service.advance(1h);
  c.idle.resume();
  EXPECT_EQ(c.idle.consecutive_timeouts(), 2U);
  service.advance(6s - service.tick());
  EXPECT_EQ(c.notices, (list{1, 2}));
  service.advance(3 * service.tick());
  EXPECT_EQ(c.notices, (list{1, 2, 3}));
}

TEST(a_paused_one, that_had_run_out_before_is_judged_after_it_is_resumed_and_waiting_bytes_were_handled) {
  manual_service service{{.work_per_pass = 1, .stall_grace = std::chrono::nanoseconds::max()}};
  std::deque<connection> all;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(all.emplace_back(service.timers).idle.start(10s), 0);
  service.time.block(11s);
  while (all[0].evicted + all[1].evicted + all[2].evicted == 0) service.turn();
  std::vector<connection*> left;  // they have run out, too, and wait for the next pass
  for (connection& c : all)
    if (c.evicted == 0) left.push_back(&c);
  ASSERT_EQ(left.size(), 2U);
  for (connection* c : left) c->idle.pause();
  service.advance(1min);
  EXPECT_EQ(left[0]->evicted + left[1]->evicted, 0);
  for (connection* c : left) c->idle.resume();
  left[1]->idle.touch();  // what had waited to be read
  service.advance(service.tick());
  EXPECT_EQ(left[0]->evicted, 1);
  EXPECT_EQ(left[1]->evicted, 0);
}

TEST(a_paused_one, does_not_charge_the_peer_with_a_stall_before_during_or_after_the_pause) {
  manual_service service{{.stall_grace = 10ms}};
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  service.time.block(510ms);  // 500 ms of it are ours
  service.advance(90ms);      // 100 ms of silence
  c.idle.pause();
  service.time.block(5s);
  service.advance(1s);
  c.idle.resume();
  service.time.block(510ms);
  service.advance(889ms);  // 999 ms
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ms + 2 * service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_paused_one, does_not_charge_the_peer_with_a_stall_of_the_very_iteration_in_which_it_is_paused) {
  manual_service service{{.stall_grace = 10ms}};
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(100ms), 0);
  service.advance(50ms);
  service.time.block(1s);  // by another callback, before ours pauses: of this the peer is charged 10 ms
  c.idle.pause();
  service.advance(0ns);
  service.advance(10s);
  c.idle.resume();
  service.advance(39ms);
  EXPECT_EQ(c.evicted, 0);
  service.advance(2ms);
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_paused_one, wakes_the_loop_about_once_a_limit) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(60s), 0);
  service.advance(59s);
  c.idle.pause();
  const auto before = service.time.wakeups();
  service.advance(600s);
  EXPECT_LE(service.time.wakeups() - before, 60U);  // with the few steps each that a far timer takes
}

TEST(a_paused_one, keeps_its_place_at_the_limit_of_armed_timers) {
  manual_service service{{.max_armed = 1}};
  connection c{service.timers};
  connection other{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  c.idle.pause();
  service.advance(10s);
  EXPECT_EQ(other.idle.start(1s), UV_ENOBUFS);
  c.idle.resume();
  service.advance(1s + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_paused_one, holds_the_loop_unless_it_was_told_not_to) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  c.idle.pause();
  service.advance(10s);
  EXPECT_TRUE(service.time.alive());
  c.idle.unref();
  EXPECT_FALSE(service.time.alive());
  c.idle.resume();
  EXPECT_FALSE(service.time.alive());
}

TEST(a_paused_one, is_not_paused_any_more_once_cancelled_and_started) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  c.idle.pause();
  EXPECT_TRUE(c.idle.cancel());
  EXPECT_FALSE(c.idle.paused());
  c.idle.resume();
  EXPECT_FALSE(c.idle.armed()) << "resuming does not start what was cancelled";
  ASSERT_EQ(c.idle.start(1s), 0);
  EXPECT_FALSE(c.idle.paused());
  service.advance(1s + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_paused_one, whose_service_closes_is_neither_armed_nor_paused) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  c.idle.pause();
  service.timers.close();
  EXPECT_FALSE(c.idle.armed());
  EXPECT_FALSE(c.idle.paused());
  c.idle.resume();
  EXPECT_FALSE(c.idle.armed());
  ASSERT_EQ(service.timers.open(service.time), 0);
  ASSERT_EQ(c.idle.start(1s), 0);
  service.advance(1s + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_paused_one, that_asks_again_once_its_service_is_opened_again_is_not_paused) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(1s), 0);
  c.idle.pause();
  service.timers.close();
  ASSERT_EQ(service.timers.open(service.time), 0);
  EXPECT_EQ(c.idle.notify_again(), 0);
  EXPECT_FALSE(c.idle.paused());
  service.advance(1s + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(pausing, has_no_effect_on_one_that_is_not_armed) {
  manual_service service;
  connection c{service.timers};
  c.idle.pause();
  EXPECT_FALSE(c.idle.paused());
  ASSERT_EQ(c.idle.start(1s), 0);
  EXPECT_FALSE(c.idle.paused());
  service.advance(2s);
  EXPECT_EQ(c.evicted, 1);
}

TEST(pausing, is_possible_in_the_handler_once_it_asked_again) {
  manual_service service;
  connection c{service.timers};
  c.then = [&] {
    EXPECT_EQ(c.idle.notify_again(), 0);
    c.idle.pause();
  };
  ASSERT_EQ(c.idle.start(1s), 0);
  service.advance(1h);
  EXPECT_EQ(c.evicted, 1);
  c.idle.resume();
  service.advance(1s - service.tick());
  EXPECT_EQ(c.evicted, 1);
  service.advance(3 * service.tick());
  EXPECT_EQ(c.evicted, 2);
}

TEST(pausing, by_the_handler_of_another_in_the_same_pass_saves_it) {
  for (const bool first : {false, true}) {
    manual_service service;
    connection a{service.timers};
    connection b{service.timers};
    a.then = [&] { b.idle.pause(); };
    b.then = [&] { a.idle.pause(); };
    ASSERT_EQ((first ? a : b).idle.start(1s), 0);
    ASSERT_EQ((first ? b : a).idle.start(1s), 0);
    service.advance(1h);
    EXPECT_EQ(a.evicted + b.evicted, 1) << "whichever came first paused the other";
  }
}

TEST(a_pooled_connection, that_is_used_again_has_no_touch_pause_or_notice_of_its_earlier_use) {
  manual_service service;
  pinging c{service.timers, 2};
  for (int use = 0; use < 3; ++use) {
    c.notices.clear();
    ASSERT_EQ(c.idle.start(10s), 0);
    EXPECT_EQ(c.idle.consecutive_timeouts(), 0U);
    EXPECT_FALSE(c.idle.paused());
    service.advance(10s - 1ns);
    EXPECT_EQ(c.notices, list{});
    service.advance(1ns + service.tick());
    EXPECT_EQ(c.notices, (list{1}));
    c.idle.pause();
    service.advance(5s);
    c.idle.touch();
    if (use == 1) c.idle.cancel();  // handed back, or not: the next start begins anew in any case
    service.advance(1h);
    EXPECT_EQ(c.notices, (list{1}));
  }
}

TEST(a_pooled_connection, may_change_its_limit_from_use_to_use) {
  manual_service service;
  connection c{service.timers};
  ASSERT_EQ(c.idle.start(5min), 0);  // waits in the pool
  service.advance(1min);
  ASSERT_EQ(c.idle.start(10s), 0);  // has a request
  service.advance(9s);
  c.idle.touch();
  ASSERT_EQ(c.idle.start(5min), 0);  // is back
  service.advance(5min - 1ns);
  EXPECT_EQ(c.evicted, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(c.evicted, 1);
}

TEST(a_pooled_connection, begins_anew_on_a_driver_whose_clock_is_behind_that_of_the_last) {
  tickwheel::manual_driver late{tickwheel::clock::time_point{100h}};
  tickwheel::manual_driver early{tickwheel::clock::time_point{1h}};
  tickwheel::timer_service timers;
  ASSERT_EQ(timers.open(late), 0);
  connection c{timers};
  ASSERT_EQ(c.idle.start(10s), 0);
  late.advance(11s);
  ASSERT_EQ(c.evicted, 1);
  timers.close();
  ASSERT_EQ(timers.open(early), 0);
  ASSERT_EQ(c.idle.start(10s), 0);
  EXPECT_EQ(c.idle.consecutive_timeouts(), 0U);
  early.advance(11s);
  EXPECT_EQ(c.evicted, 2);
  EXPECT_EQ(c.idle.consecutive_timeouts(), 1U);
}

TEST(silence_timer, allocates_nothing_in_notices_and_pauses) {
  manual_service service;
  connection c{service.timers};
  c.then = [&] { c.idle.notify_again(); };
  ASSERT_EQ(c.idle.start(50ms), 0);
  const auto before = allocations::count();
  for (int i = 0; i < 1000; ++i) {
    service.time.advance(60ms);
    c.idle.pause();
    service.time.advance(60ms);
    c.idle.resume();
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_GE(c.evicted, 1000);
}

TEST(silence_timer, may_be_destroyed_while_paused) {
  manual_service service;
  auto c = std::make_unique<connection>(service.timers);
  ASSERT_EQ(c->idle.start(1s), 0);
  c->idle.pause();
  c.reset();
  service.advance(1h);
  EXPECT_EQ(service.timers.stats().pending, 0U);
}

}  // namespace
