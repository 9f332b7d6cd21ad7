// Zero delays: due in the next pass, in the order of arming, and otherwise timers like all others.
#include "../support/probe.hpp"

#include <tickwheel/uv/remote.hpp>

namespace {

using zero_delay = manual_test;

TEST_F(zero_delay, runs_in_next_turn) {
  p.arm(0s);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(p.fired, 1);
  EXPECT_FALSE(service.turn());
}

TEST_F(zero_delay, negative_delays_and_past_times_are_zero_delays) {
  service.advance(1h);
  using clock = tickwheel::clock;
  const std::function<int()> arms[] = {[&] { return p.timeout.arm(-1ns); },
                                       [&] { return p.timeout.arm(-1h); },
                                       [&] { return p.timeout.arm(std::chrono::nanoseconds::min()); },
                                       [&] { return p.timeout.arm(std::chrono::hours::min()); },
                                       [&] { return p.timeout.arm_at(timers.now()); },
                                       [&] { return p.timeout.arm_at(timers.now() - 1ns); },
                                       [&] { return p.timeout.arm_at(timers.now() - 90min); },  // before the open
                                       [&] { return p.timeout.arm_at(clock::time_point{}); },
                                       [&] { return p.timeout.arm_at(clock::time_point::min()); }};
  int expected = 0;
  for (const auto& arm : arms) {
    ASSERT_EQ(arm(), 0);
    EXPECT_TRUE(p.timeout.armed());
    service.turn();
    EXPECT_EQ(p.fired, ++expected);
  }
}

TEST_F(zero_delay, slack_or_a_later_time_is_no_zero_delay) {
  p.arm(0s, 1ms);
  EXPECT_FALSE(service.turn());
  ASSERT_EQ(p.timeout.arm_at(timers.now() + 1ns), 0);
  EXPECT_FALSE(service.turn());
  service.advance(service.tick());
  EXPECT_EQ(p.fired, 1);
}

TEST_F(zero_delay, waits_for_next_pass_if_armed_in_one) {
  p.then = [&] { p.arm(0s); };
  p.arm(0s);
  for (int turns = 1; turns <= 5; ++turns) {
    service.turn();
    EXPECT_EQ(p.fired, turns);
  }
}

TEST_F(zero_delay, rearm_of_collected_timer_waits_for_next_pass) {
  probe second{timers};
  probe first{timers, 0s, [&] { second.arm(0s); }};
  second.arm(0s);
  service.turn();
  EXPECT_EQ(second.fired, 0);
  service.turn();
  EXPECT_EQ(second.fired, 1);
}

// A timer that is armed as of an old time lies in a coarse slot, and costs a wakeup to move it.
TEST_F(zero_delay, arms_others_as_of_the_present_also_after_idle_time) {
  const probe far{timers, 24h};
  probe second{timers};
  service.advance(1h + 100s);
  p.then = [&] { second.arm(10 * service.tick()); };
  p.arm(0s);
  service.turn();
  const auto passes = timers.stats().passes;
  service.advance(11 * service.tick());
  EXPECT_EQ(second.fired, 1);
  EXPECT_EQ(timers.stats().passes, passes + 1);
}

// A flush that results of another thread ask for, and a handler that also arms itself.
TEST_F(zero_delay, that_handlers_of_each_pass_arm_anew_runs) {
  probe itself{timers};
  for (const std::size_t work : {1U, 2U, 1024U}) {
    for (const int calls : {1, 2, 3}) {
      const auto arm = [&] {
        for (int call = 0; call < calls; ++call) p.arm(0s);
      };
      const std::function<void()> each_turn[] = {
          [&] { ASSERT_EQ(timers.remote().post([&]() noexcept { arm(); }), 0); },
          [&] {
            itself.then = [&] {
              itself.arm(0s);
              arm();
            };
            if (!itself.timeout.armed()) itself.arm(0s);
          },
      };
      for (const auto& begin_turn : each_turn) {
        reopen({.work_per_pass = work});
        p.fired = 0;
        for (int turns = 0; turns < 1000; ++turns) {
          begin_turn();
          service.time.oversleep(20us);
          service.turn();
        }
        const auto ticks = static_cast<int>(20ms / timers.tick_duration());
        EXPECT_GE(p.fired, ticks / 4) << "work_per_pass " << work << ", " << calls << " calls";
        itself.timeout.cancel();
      }
    }
  }
}

TEST_F(zero_delay, that_a_handler_and_a_callback_arm_anew_runs) {
  probe itself{timers};
  itself.then = [&] {
    itself.arm(0s);
    p.arm(0s);
  };
  itself.arm(0s);
  for (int turns = 0; turns < 1000; ++turns) {
    p.arm(0s);  // a callback of the loop, before the stamp of the next pass
    service.time.oversleep(20us);
    service.turn();
  }
  EXPECT_GE(p.fired, static_cast<int>(20ms / timers.tick_duration()) / 4);
  itself.timeout.cancel();
}

TEST_F(zero_delay, keeps_time_of_its_first_call) {
  p.arm(0s);
  const tickwheel::clock::time_point first = p.timeout.deadline();
  service.time.block(10 * service.tick());
  p.arm(0s);
  EXPECT_EQ(p.timeout.deadline(), first);
  p.timeout.cancel();
  p.arm(0s);
  EXPECT_GT(p.timeout.deadline(), first);
}

TEST_F(zero_delay, runs_in_order_of_arming_and_across_cut_passes) {
  for (const std::size_t work : {1U, 2U, 3U, 1024U}) {
    reopen({.work_per_pass = work});
    std::vector<int> order;
    std::deque<probe> all;
    for (int i = 0; i < 50; ++i) all.emplace_back(timers, [&order, i] { order.push_back(i); });
    for (probe& each : all) each.arm(0s);
    all[0].arm(0s);  // anew: behind all others
    service.advance(0s);
    std::vector<int> expected(50);
    std::iota(expected.begin(), expected.end() - 1, 1);
    EXPECT_EQ(order, expected) << work;
  }
}

TEST_F(zero_delay, runs_after_what_is_due_in_a_slot) {
  std::vector<char> order;
  probe zero{timers, [&] { order.push_back('z'); }};
  probe slot{timers, 1ms, [&] { order.push_back('s'); }};
  service.time.oversleep(2ms);
  zero.arm(0s);
  service.turn();
  EXPECT_EQ(order, (std::vector{'s', 'z'}));
}

TEST_F(zero_delay, takes_turns_with_due_slots) {
  reopen({.work_per_pass = 1});
  const probes slots{timers, 20, 1ms};
  service.time.oversleep(2ms);
  const probes zeros{timers, 20, 0s};
  while (slots.fired() + zeros.fired() < 20) {
    ASSERT_TRUE(service.turn());
    EXPECT_NEAR(slots.fired(), zeros.fired(), 1);
  }
  service.advance(0s);
  EXPECT_EQ(slots.fired() + zeros.fired(), 40);
}

TEST_F(zero_delay, does_not_run_after_cancel) {
  probe sibling{timers, [&] { EXPECT_TRUE(p.timeout.cancel()); }};
  p.arm(0s);
  EXPECT_TRUE(p.timeout.cancel());
  EXPECT_FALSE(p.timeout.cancel());
  service.turn();
  sibling.arm(0s);
  p.arm(0s);  // collected in the same pass
  service.turn();
  service.turn();
  EXPECT_EQ(p.fired, 0);
  EXPECT_EQ(sibling.fired, 1);
}

TEST_F(zero_delay, moves_to_a_tick_and_back) {
  p.arm(0s);
  p.arm(10ms);
  EXPECT_FALSE(service.turn() && p.fired != 0);
  p.arm(0s);
  service.turn();
  EXPECT_EQ(p.fired, 1);
  service.advance(20ms);
  EXPECT_EQ(p.fired, 1);
}

TEST_F(zero_delay, moved_or_destroyed_lets_loop_rest) {
  { const probe gone{timers, 0s}; }
  p.arm(0s);
  p.arm(10ms);
  service.turn();
  EXPECT_GT(service.time.next_wakeup(), timers.now());
  EXPECT_FALSE(service.turn());
}

TEST_F(zero_delay, may_be_destroyed_and_outlive_its_service) {
  std::optional<probe> doomed{std::in_place, timers};
  doomed->arm(0s);
  doomed.reset();
  probe left{timers, 0s};
  timers.close();
  EXPECT_FALSE(left.timeout.armed());
  EXPECT_EQ(left.timeout.arm(0s), UV_ECANCELED);
  EXPECT_EQ(timers.stats().pending, 0U);
}

TEST_F(zero_delay, counts_for_max_armed_and_is_listed) {
  reopen({.max_armed = 1});
  probe refused{timers};
  p.arm(0s);
  EXPECT_EQ(refused.timeout.arm(0s), UV_ENOBUFS);
  EXPECT_EQ(refused.timeout.arm(1s), UV_ENOBUFS);
  int listed = 0;
  timers.for_each_armed([&](tickwheel::timer& t) { listed += &t == &p.timeout; });
  EXPECT_EQ(listed, 1);
  EXPECT_EQ(timers.stats().pending, 1U);
  p.arm(0s);
}

TEST_F(zero_delay, holds_loop_unless_unreferenced) {
  p.timeout.unref();
  p.arm(0s);
  EXPECT_FALSE(service.time.alive());
  p.timeout.ref();
  EXPECT_TRUE(service.time.alive());
  service.turn();
  EXPECT_EQ(p.fired, 1);
  EXPECT_FALSE(service.time.alive());
}

TEST_F(zero_delay, deadline_is_not_after_the_call) {
  for (const auto wait : {0ns, std::chrono::nanoseconds{77us}, std::chrono::nanoseconds{1h}}) {
    service.time.oversleep(wait);
    p.arm(0s);
    EXPECT_LE(p.timeout.deadline(), service.time.now());
    EXPECT_GT(p.timeout.deadline(), service.time.now() - service.tick());
    EXPECT_EQ(service.time.next_wakeup(), service.time.now());
    service.turn();
  }
}

TEST_F(zero_delay, report_has_no_rounding) {
  tickwheel::expiry_report report;
  p.then = [&] { report = timers.why(); };
  p.arm(0s);
  const tickwheel::clock::time_point due = p.timeout.deadline();
  service.time.oversleep(3ms);
  service.turn();
  EXPECT_EQ(report.due, due);
  EXPECT_EQ(report.rounding, 0ns);
  EXPECT_GE(report.late, 3ms);
  EXPECT_TRUE(adds_up(report));
}

TEST_F(zero_delay, does_not_wait_for_input_after_a_block) {
  probe zero{timers}, slot{timers, 1ms};
  service.time.block(20ms);
  zero.arm(0s);
  service.turn();
  EXPECT_EQ(zero.fired, 1);
  EXPECT_EQ(slot.fired, 0);
  service.advance(0s);
  EXPECT_EQ(slot.fired, 1);
}

TEST_F(zero_delay, advance_ends_though_handler_rearms) {
  p.then = [&] { p.arm(0s); };
  p.arm(0s);
  service.advance(0s);
  EXPECT_EQ(p.fired, 1);
  const tickwheel::clock::time_point end = service.time.now() + 1ms;
  service.advance(1ms);
  EXPECT_EQ(service.time.now(), end);
  EXPECT_GE(p.fired, 10);
}

TEST_F(zero_delay, advance_ends_though_more_rearm_than_a_pass_runs) {
  for (const std::size_t work : {1U, 2U, 1024U}) {
    reopen({.work_per_pass = work});
    std::deque<probe> all;
    for (std::size_t i = 0; i <= work; ++i) {
      probe& each = all.emplace_back(timers);
      each.then = [&each] { each.arm(0s); };
      each.arm(0s);
    }
    service.advance(0s);
    for (const probe& each : all) EXPECT_GE(each.fired, 1) << work;
    for (const probe& each : all)
      EXPECT_LE(each.fired, 2) << work;  // a pass that runs the last of them goes on with new ones
    service.advance(1ms);
    for (const probe& each : all) EXPECT_GT(each.fired, 5) << work;
  }
}

TEST_F(zero_delay, chain_ends_within_an_advance) {
  p.then = [&] {
    if (p.fired < 4) p.arm(0s);
  };
  p.arm(5ms);
  service.advance(10ms);
  EXPECT_EQ(p.fired, 4);
}

}  // namespace
