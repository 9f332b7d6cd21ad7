// Immediates: timers that wait for no tick, and run once the caller has collected them.
#include "../support/probe.hpp"

namespace tickwheel::test {
namespace {

constexpr tick start = 1000;

class immediates : public testing::Test {
 protected:
  void arm(probes& some) {
    for (probe& p : some) timers.arm_immediate(p, start);
  }
  void arm_and_collect(probe& p) {
    timers.arm_immediate(p, start);
    EXPECT_TRUE(timers.collect_immediates());
  }
  advance_result collect_and_run() {
    timers.collect_immediates();
    return timers.run_immediates(start);
  }

  wheel timers{{}, start};
  probe one{timers};
  probe other{timers};
};

TEST_F(immediates, collect_returns_false_without_any) {
  EXPECT_FALSE(timers.collect_immediates());
  timers.arm(one, start + 1);
  EXPECT_FALSE(timers.collect_immediates());
}

TEST_F(immediates, run_in_order_of_arming) {
  std::vector<int> order;
  one.then([&](probe&) { order.push_back(1); });
  other.then([&](probe&) { order.push_back(2); });
  timers.arm_immediate(one, start);
  arm_and_collect(other);
  EXPECT_EQ(timers.armed(), 2U);
  EXPECT_EQ(timers.run_immediates(start), ran(2U));
  EXPECT_EQ(order, (std::vector{1, 2}));
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
}

TEST_F(immediates, end_after_the_one_that_stopped_them) {
  one.then([&](probe&) { timers.stop_pass(); });
  timers.arm_immediate(one, start);
  arm_and_collect(other);
  EXPECT_EQ(timers.run_immediates(start), cut_after(1U));
  EXPECT_EQ(timers.run_immediates(start), ran(1U));
  EXPECT_EQ(other.fired(), 1U);
}

TEST_F(immediates, may_ask_for_the_next_expiry_which_stays_known) {
  timers.arm(other, start + 1000);
  timers.advance(start + 1);
  one.then([&](probe&) {
    EXPECT_GT(timers.next_in_slots(), start + 1);
    EXPECT_LE(timers.next_in_slots(), start + 1000);
  });
  arm_and_collect(one);
  EXPECT_EQ(timers.run_immediates(start + 1), ran(1U));
  EXPECT_GT(timers.next_expiry(), start + 1);
}

TEST_F(immediates, rearmed_for_later_leave_next_expiry_there) {
  timers.arm_immediate(one, start);
  timers.arm(one, start + 1000);
  EXPECT_FALSE(timers.collect_immediates());
  EXPECT_EQ(timers.next_expiry(), start + 1000);
}

TEST_F(immediates, destroyed_leave_next_expiry_to_others) {
  timers.arm(other, start + 1000);
  {
    probe gone{timers};
    timers.arm_immediate(gone, start);
    timers.cancel(gone);
  }
  EXPECT_FALSE(timers.collect_immediates());
  EXPECT_EQ(timers.next_expiry(), start + 1000);
}

TEST_F(immediates, keep_next_expiry_at_now) {
  timers.arm_immediate(one, start);
  EXPECT_EQ(one.deadline(), start);
  EXPECT_LE(timers.next_expiry(), timers.now());
  EXPECT_LE(timers.expiry_bound(), timers.now());
  EXPECT_GT(timers.next_in_slots(), timers.now());
  timers.collect_immediates();
  EXPECT_LE(timers.next_expiry(), timers.now());
  timers.run_immediates(start);
  EXPECT_EQ(timers.next_expiry(), never);
}

TEST_F(immediates, do_not_run_in_advance) {
  timers.arm_immediate(one, start);
  timers.advance(start + 5000);
  EXPECT_EQ(one.fired(), 0U);
  EXPECT_TRUE(one.armed());
}

TEST_F(immediates, run_only_if_they_were_collected) {
  arm_and_collect(one);
  timers.arm_immediate(other, start);
  EXPECT_TRUE(timers.run_immediates(start).done);
  EXPECT_EQ(one.fired(), 1U);
  EXPECT_EQ(other.fired(), 0U);
  EXPECT_TRUE(timers.collect_immediates());
  timers.run_immediates(start);
  EXPECT_EQ(other.fired(), 1U);
}

TEST_F(immediates, stop_at_the_work_bound) {
  probes all{timers, 5};
  arm(all);
  timers.collect_immediates();
  EXPECT_FALSE(timers.run_immediates(start, 0).done);
  EXPECT_EQ(all.fired(), 0U);
  EXPECT_EQ(timers.run_immediates(start, 3), cut_after(3U));
  EXPECT_LE(timers.next_expiry(), timers.now());
  EXPECT_EQ(timers.run_immediates(start, 3), ran(2U));
}

TEST_F(immediates, armed_in_a_callback_wait_for_the_next_collect) {
  one.then([&](probe& p) { timers.arm_immediate(p, start); });
  timers.arm_immediate(one, start);
  for (std::size_t runs = 1; runs != 4; ++runs) {
    EXPECT_TRUE(collect_and_run().done);
    EXPECT_EQ(one.fired(), runs);
    EXPECT_TRUE(valid(timers));
  }
}

// Two callbacks that each arm their own timer again: a round has those that were there when it began.
TEST_F(immediates, end_a_round_though_callbacks_arm_again) {
  probes all{timers, 2, [&](probe& p) { timers.arm_immediate(p, start); }};
  arm(all);
  EXPECT_FALSE(timers.in_immediate_round());
  for (std::size_t rounds = 1; rounds != 4; ++rounds) {
    for (int run = 0; run != 2; ++run) {
      timers.collect_immediates();  // the second time with the first one, which was armed again
      EXPECT_TRUE(timers.in_immediate_round());
      timers.run_immediates(start, 1);
    }
    EXPECT_FALSE(timers.in_immediate_round());
    EXPECT_EQ(all.fired(), 2 * rounds);
  }
}

// One that leaves without running no longer counts, whether later ones were collected before or after.
TEST_F(immediates, destroyed_and_moved_leave_their_round) {
  for (const bool moved : {false, true}) {
    for (const bool while_round_runs : {false, true}) {
      std::optional<probe> leaves{std::in_place, timers};
      probes others{timers, 2};
      timers.arm_immediate(one, start);
      timers.arm_immediate(*leaves, start);
      if (while_round_runs) timers.arm_immediate(other, start);
      timers.collect_immediates();
      timers.run_immediates(start, 1);
      if (moved)
        timers.arm(*leaves, start + 7);
      else
        leaves.reset();
      arm(others);
      timers.collect_immediates();
      EXPECT_TRUE(timers.in_immediate_round());
      if (while_round_runs) {
        timers.run_immediates(start, 1);
        EXPECT_FALSE(timers.in_immediate_round());
        timers.collect_immediates();
      }
      timers.run_immediates(start, 1);
      EXPECT_TRUE(timers.in_immediate_round());
      EXPECT_EQ(timers.run_immediates(start, 1), ran(1U));
      EXPECT_FALSE(timers.in_immediate_round());
      EXPECT_EQ(others.fired(), 2U);
    }
  }
}

TEST_F(immediates, do_not_run_if_they_are_cancelled) {
  arm_and_collect(one);
  EXPECT_TRUE(timers.cancel(one));
  EXPECT_EQ(timers.run_immediates(start), ran(0U));
  EXPECT_TRUE(timers.empty());
}

TEST_F(immediates, count_as_visits_if_they_are_cancelled) {
  timers.arm_immediate(one, start);
  arm_and_collect(other);
  timers.cancel(one);
  EXPECT_FALSE(timers.run_immediates(start, 1).done);
  EXPECT_EQ(other.fired(), 0U);
  timers.run_immediates(start, 1);
  EXPECT_EQ(other.fired(), 1U);
}

TEST_F(immediates, stay_linked_after_cancel_until_they_are_dropped) {
  timers.arm_immediate(one, start);
  timers.cancel(one);
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_FALSE(timers.empty());
  timers.sweep(1);
  EXPECT_TRUE(timers.empty());
  EXPECT_FALSE(timers.collect_immediates());
}

TEST_F(immediates, leave_their_list_if_they_are_armed_for_a_tick) {
  arm_and_collect(one);
  timers.arm(one, start + 7);
  EXPECT_EQ(timers.armed(), 1U);
  timers.run_immediates(start);
  EXPECT_EQ(one.fired(), 0U);
  run_until(timers, start + 10);
  EXPECT_EQ(one.fired_at(), ticks{start + 7});
}

TEST_F(immediates, leave_their_slot_if_they_were_armed_for_a_tick) {
  timers.arm(one, start + 7);
  timers.arm_immediate(one, start);
  EXPECT_EQ(timers.armed(), 1U);
  timers.advance(start + 10);
  EXPECT_EQ(one.fired(), 0U);
  collect_and_run();
  EXPECT_EQ(one.fired(), 1U);
}

TEST_F(immediates, are_as_late_as_the_time_of_their_run) {
  arm_and_collect(one);
  timers.run_immediates(start + 9);
  EXPECT_EQ(timers.now(), start);
  EXPECT_EQ(timers.lateness().count(), 1U);
  EXPECT_GE(timers.lateness().max(), 8U);
}

TEST_F(immediates, may_cancel_and_destroy_others) {
  auto gone = std::make_unique<probe>(timers);
  one.then([&](probe&) {
    gone.reset();
    timers.cancel(other);
  });
  timers.arm_immediate(one, start);
  timers.arm_immediate(*gone, start);
  timers.arm_immediate(other, start);
  EXPECT_EQ(collect_and_run().ran, 1U);
  EXPECT_EQ(other.fired(), 0U);
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_TRUE(valid(timers));
}

TEST_F(immediates, may_clear_the_wheel) {
  probes others{timers, 3};
  one.then([&](probe&) { clear(timers); });
  timers.arm(other, start + 100);
  timers.arm_immediate(one, start);
  arm(others);
  collect_and_run();
  EXPECT_EQ(others.fired(), 0U);
  EXPECT_TRUE(timers.empty());
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_TRUE(valid(timers));
}

TEST_F(immediates, may_destroy_the_wheel) {
  auto dying = std::make_unique<wheel>(wheel_geometry{}, start);
  one.then([&](probe&) { dying.reset(); });
  dying->arm_immediate(one, start);
  dying->arm_immediate(other, start);
  dying->collect_immediates();
  EXPECT_EQ(dying->run_immediates(start), ran(1U));
  EXPECT_FALSE(other.armed());
  EXPECT_EQ(other.fired(), 0U);
}

TEST_F(immediates, may_clear_the_wheel_and_arm_a_timer) {
  one.then([&](probe&) {
    clear(timers);
    timers.arm(other, start + 50);
  });
  timers.arm_immediate(one, start);
  collect_and_run();
  EXPECT_EQ(timers.next_expiry(), start + 50);
  run_until(timers, start + 60);
  EXPECT_EQ(other.fired_at(), ticks{start + 50});
}

}  // namespace
}  // namespace tickwheel::test
