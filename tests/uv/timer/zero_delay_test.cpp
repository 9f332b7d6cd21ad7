// Zero delays: due in the next pass, in the order of arming, and otherwise timers like all others.
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <optional>
#include <vector>

using namespace std::chrono_literals;

namespace {

TEST(zero_delay, runs_in_next_turn) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(0s), 0);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(p.fired, 1);
  EXPECT_FALSE(service.turn());
}

TEST(zero_delay, is_what_is_negative_or_at_or_before_now) {
  manual_service service;
  probe p{service.timers};
  const std::function<int()> arms[] = {[&] { return p.timeout.arm(-1ns); },
                                       [&] { return p.timeout.arm(-1h); },
                                       [&] { return p.timeout.arm_at(service.timers.now()); },
                                       [&] { return p.timeout.arm_at(service.timers.now() - 1ns); },
                                       [&] { return p.timeout.arm_at(tickwheel::clock::time_point{}); },
                                       [&] { return p.timeout.arm_at(tickwheel::clock::time_point::min()); }};
  int expected = 0;
  for (const auto& arm : arms) {
    ASSERT_EQ(arm(), 0);
    EXPECT_TRUE(p.timeout.armed());
    service.turn();
    EXPECT_EQ(p.fired, ++expected);
  }
}

TEST(zero_delay, is_none_with_slack_or_after_now) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(0s, 1ms), 0);
  EXPECT_FALSE(service.turn());
  ASSERT_EQ(p.timeout.arm_at(service.timers.now() + 1ns), 0);
  EXPECT_FALSE(service.turn());
  service.advance(service.tick());
  EXPECT_EQ(p.fired, 1);
}

TEST(zero_delay, waits_for_next_pass_if_armed_in_one) {
  manual_service service;
  probe p{service.timers};
  p.then = [&] { EXPECT_EQ(p.timeout.arm(0s), 0); };
  ASSERT_EQ(p.timeout.arm(0s), 0);
  for (int turns = 1; turns <= 5; ++turns) {
    service.turn();
    EXPECT_EQ(p.fired, turns);
  }
}

TEST(zero_delay, of_a_collected_timer_that_is_armed_again_waits) {
  manual_service service;
  probe second{service.timers};
  probe first{service.timers, [&] { EXPECT_EQ(second.timeout.arm(0s), 0); }};
  ASSERT_EQ(first.timeout.arm(0s), 0);
  ASSERT_EQ(second.timeout.arm(0s), 0);
  service.turn();
  EXPECT_EQ(second.fired, 0);
  service.turn();
  EXPECT_EQ(second.fired, 1);
}

TEST(zero_delay, runs_in_order_of_arming_and_across_cut_passes) {
  for (const std::size_t work : {1U, 2U, 3U, 1024U}) {
    manual_service service{{.work_per_pass = work}};
    std::vector<int> order;
    std::deque<probe> all;
    for (int i = 0; i < 50; ++i) all.emplace_back(service.timers, [&order, i] { order.push_back(i); });
    for (probe& p : all) ASSERT_EQ(p.timeout.arm(0s), 0);
    ASSERT_EQ(all[0].timeout.arm(0s), 0);  // anew: behind all others
    service.advance(0s);
    std::vector<int> expected;
    for (int i = 1; i < 50; ++i) expected.push_back(i);
    expected.push_back(0);
    EXPECT_EQ(order, expected) << work;
  }
}

TEST(zero_delay, runs_after_what_is_due_in_a_slot) {
  manual_service service;
  std::vector<char> order;
  probe zero{service.timers, [&] { order.push_back('z'); }};
  probe slot{service.timers, [&] { order.push_back('s'); }};
  ASSERT_EQ(slot.timeout.arm(1ms), 0);
  service.time.oversleep(2ms);
  ASSERT_EQ(zero.timeout.arm(0s), 0);
  service.turn();
  EXPECT_EQ(order, (std::vector{'s', 'z'}));
}

TEST(zero_delay, has_turns_with_due_slots) {
  manual_service service{{.work_per_pass = 1}};
  std::deque<probe> slots, zeros;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(slots.emplace_back(service.timers).timeout.arm(1ms), 0);
  service.time.oversleep(2ms);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(zeros.emplace_back(service.timers).timeout.arm(0s), 0);
  const auto fired = [](const std::deque<probe>& all) {
    int sum = 0;
    for (const probe& p : all) sum += p.fired;
    return sum;
  };
  while (fired(slots) + fired(zeros) < 20) {
    ASSERT_TRUE(service.turn());
    EXPECT_NEAR(fired(slots), fired(zeros), 1);
  }
  service.advance(0s);
  EXPECT_EQ(fired(slots) + fired(zeros), 40);
}

TEST(zero_delay, does_not_run_after_cancel) {
  manual_service service;
  probe p{service.timers}, sibling{service.timers, [&] { EXPECT_TRUE(p.timeout.cancel()); }};
  ASSERT_EQ(p.timeout.arm(0s), 0);
  EXPECT_TRUE(p.timeout.cancel());
  EXPECT_FALSE(p.timeout.cancel());
  service.turn();
  ASSERT_EQ(sibling.timeout.arm(0s), 0);
  ASSERT_EQ(p.timeout.arm(0s), 0);  // collected in the same pass
  service.turn();
  service.turn();
  EXPECT_EQ(p.fired, 0);
  EXPECT_EQ(sibling.fired, 1);
}

TEST(zero_delay, moves_to_a_tick_and_back) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(0s), 0);
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  EXPECT_FALSE(service.turn() && p.fired != 0);
  ASSERT_EQ(p.timeout.arm(0s), 0);
  service.turn();
  EXPECT_EQ(p.fired, 1);
  service.advance(20ms);
  EXPECT_EQ(p.fired, 1);
}

TEST(zero_delay, may_be_destroyed_and_outlive_its_service) {
  manual_service service;
  std::optional<probe> doomed{std::in_place, service.timers};
  ASSERT_EQ(doomed->timeout.arm(0s), 0);
  doomed.reset();
  probe left{service.timers};
  ASSERT_EQ(left.timeout.arm(0s), 0);
  service.timers.close();
  EXPECT_FALSE(left.timeout.armed());
  EXPECT_EQ(left.timeout.arm(0s), UV_ECANCELED);
  EXPECT_EQ(service.timers.stats().pending, 0U);
}

TEST(zero_delay, counts_for_max_armed_and_is_listed) {
  manual_service service{{.max_armed = 1}};
  probe p{service.timers}, refused{service.timers};
  ASSERT_EQ(p.timeout.arm(0s), 0);
  EXPECT_EQ(refused.timeout.arm(0s), UV_ENOBUFS);
  EXPECT_EQ(refused.timeout.arm(1s), UV_ENOBUFS);
  int listed = 0;
  service.timers.for_each_armed([&](tickwheel::timer& t) { listed += &t == &p.timeout; });
  EXPECT_EQ(listed, 1);
  EXPECT_EQ(service.timers.stats().pending, 1U);
  EXPECT_EQ(p.timeout.arm(0s), 0);
}

TEST(zero_delay, holds_loop_unless_unref) {
  manual_service service;
  probe p{service.timers};
  p.timeout.unref();
  ASSERT_EQ(p.timeout.arm(0s), 0);
  EXPECT_FALSE(service.time.alive());
  p.timeout.ref();
  EXPECT_TRUE(service.time.alive());
  service.turn();
  EXPECT_EQ(p.fired, 1);
  EXPECT_FALSE(service.time.alive());
}

TEST(zero_delay, has_a_deadline_that_is_not_after_the_call) {
  manual_service service;
  probe p{service.timers};
  for (const auto wait : {0ns, std::chrono::nanoseconds{77us}, std::chrono::nanoseconds{1h}}) {
    service.time.oversleep(wait);
    ASSERT_EQ(p.timeout.arm(0s), 0);
    EXPECT_LE(p.timeout.deadline(), service.time.now());
    EXPECT_GT(p.timeout.deadline(), service.time.now() - service.tick());
    EXPECT_EQ(service.time.next_wakeup(), service.time.now());
    service.turn();
  }
}

TEST(zero_delay, explains_itself_without_rounding) {
  manual_service service;
  tickwheel::expiry_report report;
  probe p{service.timers, [&] { report = service.timers.why(); }};
  ASSERT_EQ(p.timeout.arm(0s), 0);
  const tickwheel::clock::time_point due = p.timeout.deadline();
  service.time.oversleep(3ms);
  service.turn();
  EXPECT_EQ(report.due, due);
  EXPECT_EQ(report.rounding, 0ns);
  EXPECT_GE(report.late, 3ms);
  EXPECT_TRUE(adds_up(report));
}

TEST(zero_delay, does_not_wait_for_input_after_a_block) {
  manual_service service;
  probe zero{service.timers}, slot{service.timers};
  ASSERT_EQ(slot.timeout.arm(1ms), 0);
  service.time.block(20ms);
  ASSERT_EQ(zero.timeout.arm(0s), 0);
  service.turn();
  EXPECT_EQ(zero.fired, 1);
  EXPECT_EQ(slot.fired, 0);
  service.advance(0s);
  EXPECT_EQ(slot.fired, 1);
}

TEST(zero_delay, ends_an_advance_though_its_handler_arms_it_again) {
  manual_service service;
  probe p{service.timers};
  p.then = [&] { EXPECT_EQ(p.timeout.arm(0s), 0); };
  ASSERT_EQ(p.timeout.arm(0s), 0);
  service.advance(0s);
  EXPECT_EQ(p.fired, 1);
  const tickwheel::clock::time_point end = service.time.now() + 1ms;
  service.advance(1ms);
  EXPECT_EQ(service.time.now(), end);
  EXPECT_GE(p.fired, 10);
}

TEST(zero_delay, ends_an_advance_though_more_arm_themselves_than_a_pass_runs) {
  for (const std::size_t work : {1U, 2U, 1024U}) {
    manual_service service{{.work_per_pass = work}};
    std::deque<probe> all;
    for (std::size_t i = 0; i <= work; ++i) {
      probe& p = all.emplace_back(service.timers);
      p.then = [&p] { EXPECT_EQ(p.timeout.arm(0s), 0); };
      ASSERT_EQ(p.timeout.arm(0s), 0);
    }
    service.advance(0s);
    for (const probe& p : all) EXPECT_GE(p.fired, 1) << work;
    for (const probe& p : all)
      EXPECT_LE(p.fired, 2) << work;  // a pass that runs the last of them goes on with new ones
    service.advance(1ms);
    for (const probe& p : all) EXPECT_GT(p.fired, 5) << work;
  }
}

TEST(zero_delay, of_a_chain_ends_within_an_advance) {
  manual_service service;
  probe p{service.timers};
  p.then = [&] {
    if (p.fired < 4) {
      EXPECT_EQ(p.timeout.arm(0s), 0);
    }
  };
  ASSERT_EQ(p.timeout.arm(5ms), 0);
  service.advance(10ms);
  EXPECT_EQ(p.fired, 4);
}

}  // namespace
