// Immediates: timers that wait for no tick, and run once the caller has collected them.
#include "../support/probe.hpp"

#include <memory>
#include <vector>

namespace tickwheel::test {
namespace {

class wheel_immediates : public testing::Test {
 protected:
  static constexpr tick start = 1000;

  wheel timers{{}, start};
};

TEST_F(wheel_immediates, collect_is_false_without_any) {
  EXPECT_FALSE(timers.collect_immediates());
  probe in_a_slot{timers};
  timers.arm(in_a_slot, start + 1);
  EXPECT_FALSE(timers.collect_immediates());
}

TEST_F(wheel_immediates, run_in_order_of_arming) {
  std::vector<int> order;
  probe first{timers, [&](probe&) { order.push_back(1); }};
  probe second{timers, [&](probe&) { order.push_back(2); }};
  timers.arm_immediate(first, start);
  timers.arm_immediate(second, start);
  EXPECT_EQ(timers.armed(), 2U);
  EXPECT_TRUE(timers.collect_immediates());
  const advance_result result = timers.run_immediates(start);
  EXPECT_EQ(result.ran, 2U);
  EXPECT_TRUE(result.done);
  EXPECT_EQ(order, (std::vector{1, 2}));
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
}

TEST_F(wheel_immediates, next_expiry_is_now_while_one_is_armed) {
  probe one{timers};
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

TEST_F(wheel_immediates, advance_does_not_run_one) {
  probe one{timers};
  timers.arm_immediate(one, start);
  timers.advance(start + 5000);
  EXPECT_EQ(one.fired(), 0U);
  EXPECT_TRUE(one.armed());
}

TEST_F(wheel_immediates, run_leaves_those_that_were_not_collected) {
  probe collected{timers};
  probe later{timers};
  timers.arm_immediate(collected, start);
  timers.collect_immediates();
  timers.arm_immediate(later, start);
  EXPECT_TRUE(timers.run_immediates(start).done);
  EXPECT_EQ(collected.fired(), 1U);
  EXPECT_EQ(later.fired(), 0U);
  EXPECT_TRUE(timers.collect_immediates());
  timers.run_immediates(start);
  EXPECT_EQ(later.fired(), 1U);
}

TEST_F(wheel_immediates, run_stops_at_its_bound) {
  probes all{timers, 5};
  for (probe& p : all) timers.arm_immediate(p, start);
  timers.collect_immediates();
  EXPECT_FALSE(timers.run_immediates(start, 0).done);
  EXPECT_EQ(all.fired(), 0U);
  const advance_result part = timers.run_immediates(start, 3);
  EXPECT_EQ(part.ran, 3U);
  EXPECT_FALSE(part.done);
  EXPECT_LE(timers.next_expiry(), timers.now());
  const advance_result rest = timers.run_immediates(start, 3);
  EXPECT_EQ(rest.ran, 2U);
  EXPECT_TRUE(rest.done);
}

TEST_F(wheel_immediates, one_armed_in_a_callback_waits_for_the_next_collect) {
  probe again{timers, [&](probe& p) { timers.arm_immediate(p, start); }};
  timers.arm_immediate(again, start);
  for (std::size_t runs = 1; runs != 4; ++runs) {
    timers.collect_immediates();
    EXPECT_TRUE(timers.run_immediates(start).done);
    EXPECT_EQ(again.fired(), runs);
    EXPECT_TRUE(timers.validate());
  }
}

// Two callbacks that each arm their own timer again: a round has those that were there when it began.
TEST_F(wheel_immediates, round_ends_though_callbacks_arm_again) {
  probes all{timers, 2, [&](probe& p) { timers.arm_immediate(p, start); }};
  for (probe& p : all) timers.arm_immediate(p, start);
  EXPECT_FALSE(timers.in_immediate_round());
  for (std::size_t rounds = 1; rounds != 4; ++rounds) {
    timers.collect_immediates();
    EXPECT_TRUE(timers.in_immediate_round());
    timers.run_immediates(start, 1);
    timers.collect_immediates();  // with the first one, which was armed again
    EXPECT_TRUE(timers.in_immediate_round());
    timers.run_immediates(start, 1);
    EXPECT_FALSE(timers.in_immediate_round());
    EXPECT_EQ(all.fired(), 2 * rounds);
  }
}

TEST_F(wheel_immediates, cancelled_one_does_not_run) {
  probe one{timers};
  timers.arm_immediate(one, start);
  timers.collect_immediates();
  EXPECT_TRUE(timers.cancel(one));
  const advance_result result = timers.run_immediates(start);
  EXPECT_EQ(result.ran, 0U);
  EXPECT_TRUE(result.done);
  EXPECT_TRUE(timers.empty());
}

TEST_F(wheel_immediates, cancelled_one_counts_as_a_visit) {
  probes all{timers, 2};
  for (probe& p : all) timers.arm_immediate(p, start);
  timers.collect_immediates();
  timers.cancel(all[0]);
  EXPECT_FALSE(timers.run_immediates(start, 1).done);
  EXPECT_EQ(all.fired(), 0U);
  timers.run_immediates(start, 1);
  EXPECT_EQ(all.fired(), 1U);
}

TEST_F(wheel_immediates, cancelled_one_stays_linked_until_it_is_dropped) {
  probe one{timers};
  timers.arm_immediate(one, start);
  timers.cancel(one);
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_FALSE(timers.empty());
  timers.sweep(1);
  EXPECT_TRUE(timers.empty());
  EXPECT_FALSE(timers.collect_immediates());
}

TEST_F(wheel_immediates, one_that_is_armed_for_a_tick_leaves_the_list) {
  probe one{timers};
  timers.arm_immediate(one, start);
  timers.collect_immediates();
  timers.arm(one, start + 7);
  EXPECT_EQ(timers.armed(), 1U);
  timers.run_immediates(start);
  EXPECT_EQ(one.fired(), 0U);
  run_until(timers, start + 10);
  EXPECT_EQ(one.fired_at(), (std::vector<tick>{start + 7}));
}

TEST_F(wheel_immediates, one_that_was_armed_for_a_tick_leaves_its_slot) {
  probe one{timers};
  timers.arm(one, start + 7);
  timers.arm_immediate(one, start);
  EXPECT_EQ(timers.armed(), 1U);
  timers.advance(start + 10);
  EXPECT_EQ(one.fired(), 0U);
  timers.collect_immediates();
  timers.run_immediates(timers.now());
  EXPECT_EQ(one.fired(), 1U);
}

TEST_F(wheel_immediates, lateness_counts_until_the_given_time) {
  probe one{timers};
  timers.arm_immediate(one, start);
  timers.collect_immediates();
  timers.run_immediates(start + 9);
  EXPECT_EQ(timers.now(), start);
  EXPECT_EQ(timers.lateness().count(), 1U);
  EXPECT_GE(timers.lateness().max(), 8U);
}

TEST_F(wheel_immediates, callback_may_cancel_and_destroy_another) {
  auto gone = std::make_unique<probe>(timers);
  probe cancelled{timers};
  probe first{timers, [&](probe&) {
                gone.reset();
                timers.cancel(cancelled);
              }};
  timers.arm_immediate(first, start);
  timers.arm_immediate(*gone, start);
  timers.arm_immediate(cancelled, start);
  timers.collect_immediates();
  EXPECT_EQ(timers.run_immediates(start).ran, 1U);
  EXPECT_EQ(cancelled.fired(), 0U);
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_TRUE(valid(timers));
}

TEST_F(wheel_immediates, callback_may_clear_the_wheel) {
  probes others{timers, 3};
  probe in_a_slot{timers};
  probe first{timers, [&](probe&) { timers.clear([](wheel_entry&) noexcept {}); }};
  timers.arm(in_a_slot, start + 100);
  timers.arm_immediate(first, start);
  for (probe& p : others) timers.arm_immediate(p, start);
  timers.collect_immediates();
  timers.run_immediates(start);
  EXPECT_EQ(others.fired(), 0U);
  EXPECT_TRUE(timers.empty());
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_TRUE(valid(timers));
}

TEST_F(wheel_immediates, callback_may_destroy_the_wheel) {
  auto dying = std::make_unique<wheel>(wheel_geometry{}, start);
  wheel_entry other{[](wheel_entry&) noexcept { ADD_FAILURE(); }};
  struct owner : wheel_entry {
    explicit owner(std::unique_ptr<wheel>& w)
        : wheel_entry{[](wheel_entry& e) noexcept { static_cast<owner&>(e).its.reset(); }}, its{w} {}
    std::unique_ptr<wheel>& its;
  } first{dying};
  dying->arm_immediate(first, start);
  dying->arm_immediate(other, start);
  dying->collect_immediates();
  const advance_result result = dying->run_immediates(start);
  EXPECT_EQ(result.ran, 1U);
  EXPECT_TRUE(result.done);
  EXPECT_FALSE(other.armed());
}

TEST_F(wheel_immediates, advance_goes_on_after_a_clear_in_a_callback) {
  probe later{timers};
  probe first{timers, [&](probe&) {
                timers.clear([](wheel_entry&) noexcept {});
                timers.arm(later, start + 50);
              }};
  timers.arm_immediate(first, start);
  timers.collect_immediates();
  timers.run_immediates(start);
  EXPECT_EQ(timers.next_expiry(), start + 50);
  run_until(timers, start + 60);
  EXPECT_EQ(later.fired_at(), (std::vector<tick>{start + 50}));
}

}  // namespace
}  // namespace tickwheel::test
