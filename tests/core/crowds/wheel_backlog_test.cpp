// A crowd in one slot whose time has come, in calls with a work bound: later slots do not wait for it. Visits and calls are
// counted, never time.
#include "../support/probe.hpp"

namespace tickwheel::test {
namespace {

constexpr std::size_t work = 1024;
constexpr std::size_t count = 100'000;
constexpr tick due = 500;

// Returns how many calls with a work bound it takes until `p` has fired.
std::size_t calls_until_fired(wheel& timers, const probe& p, tick now, std::size_t bound = work) {
  std::size_t calls = 0;
  for (; p.fired() == 0 && calls < 10 * count; ++calls) timers.advance(now, bound);
  return calls;
}

class backlog : public testing::Test {
 protected:
  // Arms the crowd, and advances to `due`, so that the bound cuts the visit of its slot.
  void arm_and_cut_crowd() {
    all.arm(due);
    EXPECT_FALSE(timers.advance(due, work).done);
  }

  checked_wheel timers;
  counters all{timers, count};
  probe next{timers};
  probe later{timers};
};

TEST_F(backlog, of_cancelled_timers_does_not_delay_the_next_slot) {
  all.arm(due);
  timers.arm(next, due + 1);
  all.cancel();
  timers.advance(due - 1, work);
  timers.advance(due, work);
  EXPECT_LE(calls_until_fired(timers, next, due + 1), 2U);
}

// No single call makes a crowd of the slot, but all of them together do.
TEST_F(backlog, cut_by_small_bounds_does_not_delay_a_slot) {
  constexpr std::size_t small = 100;
  all.arm(due);
  timers.arm(next, due + 1);
  EXPECT_LE(calls_until_fired(timers, next, due + 1, small), 2 * work / small + 2);
}

TEST_F(backlog, does_not_keep_a_timer_that_is_moved_later) {
  probes crowd{timers, 20 * work};
  crowd.arm(due);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(timers.advance(due, work).done);
  int moved = 0;
  for (const std::size_t i : {std::size_t{0}, crowd.size() / 2, crowd.size() - 1}) {
    if (crowd[i].fired() != 0) continue;
    ++moved;
    timers.arm(crowd[i], timers.now() + 1);
    EXPECT_LE(calls_until_fired(timers, crowd[i], timers.now() + 1), 2U) << i;
  }
  EXPECT_GT(moved, 0);
}

// It was not visited at all, so it is no crowd.
TEST_F(backlog, does_not_get_a_slot_because_a_callback_before_it_stopped) {
  all.arm(5000);
  timers.advance(7000, work + 76);  // late: the rest is in all chains of the backlog
  probe stopper{timers, [&](probe&) { timers.stop_pass(); }};
  timers.arm(stopper, 7001);
  timers.arm(next, 7002);
  calls_until_fired(timers, stopper, 7002, 256);
  EXPECT_LE(calls_until_fired(timers, next, 7002, 256), 2U);
}

// Whether the slots or the crowd come first in the call that ends the crowd depends on how many timers it has.
TEST_F(backlog, knows_a_timer_armed_by_its_last_callback) {
  for (const std::size_t size : {3 * work, 3 * work + 1}) {
    wheel small{wheel_geometry::hierarchical(2, 64)};
    probe soon{small};
    probe far{small};
    small.arm(far, 100);
    probes others{small, size, [&](probe&) {
                    if (small.armed() == 1) small.arm(soon, small.now() + 5);
                  }};
    others.arm(50);
    small.advance(50, work);
    while (!soon.armed()) small.advance(50, 1);
    EXPECT_LE(small.next_expiry(), soon.deadline());
    run_until(small, 60);
    EXPECT_EQ(soon.fired_at(), ticks{55});
  }
}

TEST_F(backlog, runs_each_timer_once_and_does_not_delay_a_slot) {
  for (const wheel_geometry& geometry : {wheel_geometry{}, wheel_geometry::hashed(256)}) {
    checked_wheel fresh{geometry};
    counters crowd{fresh, count};
    probe after{fresh};
    crowd.arm(due);
    fresh.arm(after, due + 1);
    EXPECT_FALSE(fresh.advance(due, work).done);
    EXPECT_LE(calls_until_fired(fresh, after, due + 1), 2U);
    EXPECT_FALSE(fresh.advance(due + 1, work).done);
    finish(fresh, due + 1, work);
    EXPECT_EQ(crowd.fired_once(), count);
  }
}

TEST_F(backlog, whose_last_timer_uses_up_the_bound_is_done) {
  for (const std::size_t calls : {1U, 2U}) {  // the backlog goes before the slots in every other call
    checked_wheel fresh;
    probes crowd{fresh, (calls + 1) * work};
    probe after{fresh};
    crowd.arm(due);
    fresh.arm(after, due + 9);
    for (std::size_t i = 0; i < calls; ++i) EXPECT_EQ(fresh.advance(due, work), cut_after(work));
    EXPECT_EQ(fresh.advance(due, work), ran(work));
    EXPECT_EQ(fresh.next_expiry(), due + 9);
  }
}

TEST_F(backlog, whose_last_timer_uses_up_the_bound_leaves_due_slot) {
  probes crowd{timers, 2 * work};
  crowd.arm(due);
  EXPECT_EQ(timers.advance(due, work), cut_after(work));
  timers.arm(next, due + 1);
  EXPECT_EQ(timers.advance(due + 1, work), cut_after(work));
  EXPECT_LE(timers.next_expiry(), due + 1);
  EXPECT_EQ(timers.advance(due + 1, work), ran(1));
}

TEST_F(backlog, does_not_delay_two_timers_of_a_slot) {
  arm_and_cut_crowd();
  timers.arm(next, due + 1);
  timers.arm(later, due + 1);
  EXPECT_LE(calls_until_fired(timers, next, due + 1, 1), 2U);
  EXPECT_LE(calls_until_fired(timers, later, due + 1, 1), 2U);
}

TEST_F(backlog, of_a_late_coarse_slot_does_not_delay_due_slots) {
  constexpr tick begin = 10'240;
  for (const bool live : {false, true}) {
    wheel late;
    probe soon{late};
    probe in_crowd{late};
    counters crowd{late, count};
    late.arm(in_crowd, begin + 200);
    crowd.arm(begin, 1024);
    if (!live) crowd.cancel();
    late.advance(begin - 1000);
    late.arm(soon, begin + 300);
    late.advance(begin + 400, work);
    EXPECT_LE(calls_until_fired(late, soon, begin + 400), 2U);
    finish(late, 12'000, work);
    EXPECT_EQ(in_crowd.fired(), 1U);
  }
}

// A timer in each later tick, and one visit a call: of two calls one is for the slots, the other for the backlog.
TEST_F(backlog, takes_turns_with_the_slots_with_a_work_of_one) {
  arm_and_cut_crowd();
  probes others{timers, 100};
  others.arm(due + 1, 100);
  std::size_t of_crowd = 0;
  for (std::size_t call = 1; call <= 100; ++call) {
    const std::size_t before = others.fired();
    ASSERT_EQ(timers.advance_unchecked(due + 100, 1).ran, 1U);
    of_crowd += others.fired() == before;
  }
  EXPECT_EQ(of_crowd, 50U);
  EXPECT_EQ(others.fired(), 50U);
}

TEST_F(backlog, keeps_next_expiry_from_being_ahead) {
  arm_and_cut_crowd();
  EXPECT_LE(timers.next_expiry(), due);
  EXPECT_LE(timers.expiry_bound(), due);
  EXPECT_FALSE(timers.advance(due + 1, 0).done);
  EXPECT_LE(timers.next_expiry(), due);
  EXPECT_FALSE(timers.empty());
  finish(timers, due + 1, work);
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_TRUE(timers.empty());
}

TEST_F(backlog, keeps_next_expiry_beside_an_immediate) {
  probes others{timers, 3000};
  all.arm(due);
  others.arm(due + 50);
  for (const std::size_t bound : {1100U, 1U, 10U, 10U}) timers.advance(due + 100, bound);
  timers.arm_immediate(next, due + 100);
  EXPECT_LE(timers.next_expiry(), due);
}

TEST_F(backlog, runs_as_a_whole_in_an_unlimited_advance) {
  arm_and_cut_crowd();
  EXPECT_TRUE(timers.advance(due).done);
  EXPECT_EQ(all.fired_once(), count);
}

TEST_F(backlog, may_be_cancelled_and_armed_again_in_a_callback) {
  arm_and_cut_crowd();
  std::size_t armed_again = 0;
  std::size_t cancelled = 0;
  next.then([&](probe&) {
    for (std::size_t i = 0; i < count / 3; ++i) cancelled += timers.cancel(all[i]);
    for (std::size_t i = count / 3; i < count / 2; ++i)
      if (all[i].armed()) {
        timers.arm(all[i], due + 50);
        ++armed_again;
      }
  });
  timers.arm(next, due + 1);
  EXPECT_LE(calls_until_fired(timers, next, due + 1), 2U);
  EXPECT_TRUE(valid(timers));
  EXPECT_GT(armed_again, count / 10);
  finish(timers, due + 49, work);
  EXPECT_EQ(timers.armed(), armed_again);
  finish(timers, due + 50, work);
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_EQ(all.fired(), count - cancelled);
}

TEST_F(backlog, may_be_destroyed_in_a_callback) {
  arm_and_cut_crowd();
  next.then([&](probe&) { all.destroy(); });
  timers.arm(next, due + 1);
  timers.arm(later, due + 9);
  EXPECT_LE(calls_until_fired(timers, next, due + 1), 2U);
  EXPECT_TRUE(timers.advance(due + 1, work).done);
  EXPECT_EQ(timers.next_expiry(), due + 9);
  EXPECT_TRUE(timers.advance(due + 9, work).done);
  EXPECT_EQ(later.fired(), 1U);
}

TEST_F(backlog, is_dropped_by_sweep_after_cancel) {
  arm_and_cut_crowd();
  std::size_t listed = 0;
  timers.for_each_armed([&](wheel_entry&) { ++listed; });
  EXPECT_EQ(listed, count - work);
  all.cancel();
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_TRUE(timers.advance(due + 1, 0).done);
  timers.sweep(count - work - 1);
  EXPECT_FALSE(timers.empty());
  timers.sweep(2);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
}

TEST_F(backlog, may_be_cleared_in_a_callback) {
  arm_and_cut_crowd();
  std::size_t disposed = 0;
  next.then([&](probe&) { timers.clear([&](wheel_entry&) { ++disposed; }); });
  timers.arm(next, due + 1);
  calls_until_fired(timers, next, due + 1);
  EXPECT_GE(disposed, count - 3 * work);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
}

TEST_F(backlog, does_not_delay_a_timer_after_idle_time) {
  arm_and_cut_crowd();
  all.cancel();
  timers.advance(1'000'000, 0);
  timers.arm(next, 1'000'010);
  EXPECT_TRUE(valid(timers));
  EXPECT_LE(calls_until_fired(timers, next, 1'000'010), 2U);
  finish(timers, 1'000'011, work);
}

}  // namespace
}  // namespace tickwheel::test
