// A crowd in one slot whose time has come, in calls with a work bound: later slots do not wait for it. Visits and calls are
// counted, never time.
#include "../support/probe.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace tickwheel::test {
namespace {

constexpr std::size_t work = 1024;
constexpr std::size_t count = 100'000;
constexpr tick due = 500;

struct counter : wheel_entry {
  counter() : wheel_entry{[](wheel_entry& e) noexcept { ++static_cast<counter&>(e).fired; }} {}
  unsigned fired = 0;
};

class wheel_backlog : public testing::Test {
 protected:
  ~wheel_backlog() override {
    timers.clear([](wheel_entry&) noexcept {});
  }

  void arm_crowd(tick deadline) {
    for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], deadline);
  }

  void cancel_crowd() {
    for (std::size_t i = 0; i < count; ++i) timers.cancel(all[i]);
  }

  // Returns how many calls with the work bound it takes until `p` has fired.
  std::size_t calls_until_fired(const probe& p, tick now, std::size_t bound = work) {
    std::size_t calls = 0;
    for (; p.fired() == 0 && calls < 10 * count; ++calls) timers.advance(now, bound);
    return calls;
  }

  // Advances to `due`, so that the bound cuts the visit of the crowd's slot.
  void cut_crowd() {
    ASSERT_FALSE(timers.advance(due, work).done);
    EXPECT_TRUE(valid(timers));
  }

  void finish(tick now) {
    while (!timers.advance(now, work).done) {
    }
    EXPECT_TRUE(valid(timers));
  }

  wheel timers;
  std::unique_ptr<counter[]> all = std::make_unique<counter[]>(count);
};

TEST_F(wheel_backlog, dead_crowd_does_not_delay_next_slot) {
  probe next{timers};
  arm_crowd(due);
  timers.arm(next, due + 1);
  cancel_crowd();
  timers.advance(due - 1, work);
  timers.advance(due, work);
  EXPECT_LE(calls_until_fired(next, due + 1), 2U);
}

// No single call makes a crowd of the slot, but all of them together do.
TEST_F(wheel_backlog, crowd_that_is_cut_by_small_bounds_delays_no_slot) {
  constexpr std::size_t small = 100;
  probe next{timers};
  arm_crowd(due);
  timers.arm(next, due + 1);
  EXPECT_LE(calls_until_fired(next, due + 1, small), 2 * work / small + 2);
}

// Whether the slots or the crowd come first in the call that ends the crowd depends on how many timers it has.
TEST_F(wheel_backlog, timer_armed_by_the_last_of_a_crowd_is_known) {
  for (const std::size_t size : {3 * work, 3 * work + 1}) {
    wheel small{wheel_geometry::hierarchical(2, 64)};
    probe soon{small};
    probe far{small};
    small.arm(far, 100);
    probes others{small, size, [&](probe&) {
                    if (small.armed() == 1) small.arm(soon, small.now() + 5);
                  }};
    for (probe& p : others) small.arm(p, 50);
    small.advance(50, work);
    while (!soon.armed()) small.advance(50, 1);
    EXPECT_LE(small.next_expiry(), soon.deadline());
    run_until(small, 60);
    EXPECT_EQ(soon.fired_at(), (std::vector<tick>{55}));
  }
}

TEST_F(wheel_backlog, live_crowd_runs_once_each_and_delays_no_slot) {
  probe next{timers};
  arm_crowd(due);
  timers.arm(next, due + 1);
  timers.advance(due, work);
  EXPECT_LE(calls_until_fired(next, due + 1), 2U);
  EXPECT_FALSE(timers.advance(due + 1, work).done);
  finish(due + 1);
  EXPECT_EQ(std::count_if(&all[0], &all[count], [](const counter& c) { return c.fired == 1; }), count);
}

TEST_F(wheel_backlog, two_timers_in_a_slot_stay_ahead_of_a_backlog) {
  probe first{timers};
  probe second{timers};
  arm_crowd(due);
  timers.arm(first, due + 1);
  timers.arm(second, due + 1);
  cut_crowd();
  EXPECT_LE(calls_until_fired(first, due + 1, 1), 2U);
  EXPECT_LE(calls_until_fired(second, due + 1, 1), 2U);
}

TEST_F(wheel_backlog, late_coarse_crowd_does_not_delay_due_slots) {
  for (const std::size_t live : {std::size_t{0}, std::size_t{1}}) {
    wheel late;
    probe soon{late};
    probe in_crowd{late};
    late.arm(in_crowd, 10'240 + 200);
    for (std::size_t i = 0; i < count; ++i) late.arm(all[i], 10'240 + i % 1024);
    if (live == 0)
      for (std::size_t i = 0; i < count; ++i) late.cancel(all[i]);
    late.advance(10'240 - 1000, wheel::npos);
    late.arm(soon, 10'240 + 300);
    late.advance(10'240 + 400, work);
    std::size_t calls = 1;
    for (; soon.fired() == 0; ++calls) late.advance(10'240 + 400, work);
    EXPECT_LE(calls, 3U);
    while (!late.advance(12'000, work).done) {
    }
    EXPECT_EQ(in_crowd.fired(), 1U);
    EXPECT_TRUE(valid(late));
    late.clear([](wheel_entry&) noexcept {});
  }
}

TEST_F(wheel_backlog, crowded_slot_of_a_hashed_wheel_delays_no_slot) {
  wheel hashed{wheel_geometry::hashed(256)};
  probe next{hashed};
  for (std::size_t i = 0; i < count; ++i) hashed.arm(all[i], 100);
  hashed.arm(next, 101);
  EXPECT_FALSE(hashed.advance(100, work).done);
  EXPECT_TRUE(valid(hashed));
  hashed.advance(101, work);
  hashed.advance(101, work);
  EXPECT_EQ(next.fired(), 1U);
  while (!hashed.advance(101, work).done) {
  }
  EXPECT_EQ(std::count_if(&all[0], &all[count], [](const counter& c) { return c.fired == 1; }), count);
  EXPECT_TRUE(valid(hashed));
}

// A timer in each later tick, and one visit a call: of two calls one is for the slots, the other for the backlog.
TEST_F(wheel_backlog, slots_and_backlog_have_turns_with_a_work_of_one) {
  arm_crowd(due);
  cut_crowd();
  probes later{timers, 100};
  for (std::size_t i = 0; i < later.size(); ++i) timers.arm(later[i], due + 1 + i);
  std::size_t of_crowd = 0;
  for (std::size_t call = 1; call <= 100; ++call) {
    const std::size_t before = later.fired();
    const std::size_t ran = timers.advance(due + 100, 1).ran;
    ASSERT_EQ(ran, 1U);
    of_crowd += later.fired() == before;
  }
  EXPECT_EQ(of_crowd, 50U);
  EXPECT_EQ(later.fired(), 50U);
}

TEST_F(wheel_backlog, next_expiry_is_not_ahead_while_entries_are_left) {
  arm_crowd(due);
  cut_crowd();
  EXPECT_LE(timers.next_expiry(), due);
  EXPECT_LE(timers.expiry_bound(), due);
  EXPECT_FALSE(timers.advance(due + 1, 0).done);
  EXPECT_LE(timers.next_expiry(), due);
  EXPECT_FALSE(timers.empty());
  finish(due + 1);
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_TRUE(timers.empty());
}

TEST_F(wheel_backlog, next_expiry_beside_an_immediate_is_not_after_what_is_left) {
  probe immediate{timers};
  probes later{timers, 3000};
  arm_crowd(due);
  for (probe& p : later) timers.arm(p, due + 50);
  for (const int bound : {1100, 1, 10, 10}) timers.advance(due + 100, static_cast<std::size_t>(bound));
  timers.arm_immediate(immediate, due + 100);
  EXPECT_LE(timers.next_expiry(), due);
}

TEST_F(wheel_backlog, unlimited_advance_runs_all_that_is_left) {
  arm_crowd(due);
  cut_crowd();
  EXPECT_TRUE(timers.advance(due).done);
  EXPECT_EQ(std::count_if(&all[0], &all[count], [](const counter& c) { return c.fired == 1; }), count);
}

TEST_F(wheel_backlog, entries_can_be_cancelled_rearmed_and_destroyed) {
  arm_crowd(due);
  cut_crowd();
  std::size_t armed_again = 0;
  std::size_t cancelled = 0;
  probe busy{timers, [&](probe&) {
               for (std::size_t i = 0; i < count / 3; ++i) cancelled += timers.cancel(all[i]);
               for (std::size_t i = count / 3; i < count / 2; ++i)
                 if (all[i].armed()) {
                   timers.arm(all[i], due + 50);
                   ++armed_again;
                 }
             }};
  timers.arm(busy, due + 1);
  EXPECT_LE(calls_until_fired(busy, due + 1), 2U);
  EXPECT_TRUE(valid(timers));
  EXPECT_GT(armed_again, count / 10);
  finish(due + 49);
  EXPECT_EQ(timers.armed(), armed_again);
  finish(due + 50);
  EXPECT_EQ(timers.armed(), 0U);
  std::size_t fired = 0;
  for (std::size_t i = 0; i < count; ++i) fired += all[i].fired;
  EXPECT_EQ(fired, count - cancelled);
}

TEST_F(wheel_backlog, entries_may_be_destroyed_in_a_callback) {
  arm_crowd(due);
  cut_crowd();
  probe killer{timers, [&](probe&) {
                 cancel_crowd();
                 all.reset();
               }};
  probe later{timers};
  timers.arm(killer, due + 1);
  timers.arm(later, due + 9);
  EXPECT_LE(calls_until_fired(killer, due + 1), 2U);
  EXPECT_TRUE(valid(timers));
  EXPECT_TRUE(timers.advance(due + 1, work).done);
  EXPECT_EQ(timers.next_expiry(), due + 9);
  EXPECT_TRUE(timers.advance(due + 9, work).done);
  EXPECT_EQ(later.fired(), 1U);
}

TEST_F(wheel_backlog, sweep_drops_what_is_left) {
  arm_crowd(due);
  cut_crowd();
  std::size_t listed = 0;
  timers.for_each_armed([&](wheel_entry&) { ++listed; });
  EXPECT_EQ(listed, count - work);
  cancel_crowd();
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_TRUE(timers.advance(due + 1, 0).done);
  timers.sweep(count - work - 1);
  EXPECT_FALSE(timers.empty());
  timers.sweep(2);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
}

TEST_F(wheel_backlog, clear_in_a_callback_detaches_what_is_left) {
  arm_crowd(due);
  cut_crowd();
  std::size_t disposed = 0;
  probe last{timers, [&](probe&) { timers.clear([&](wheel_entry&) { ++disposed; }); }};
  timers.arm(last, due + 1);
  calls_until_fired(last, due + 1);
  EXPECT_GE(disposed, count - 3 * work);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
}

TEST_F(wheel_backlog, timer_is_on_time_after_idle_time_beyond_dead_links) {
  arm_crowd(due);
  cut_crowd();
  cancel_crowd();
  timers.advance(1'000'000, 0);
  probe timer{timers};
  timers.arm(timer, 1'000'010);
  EXPECT_TRUE(valid(timers));
  EXPECT_LE(calls_until_fired(timer, 1'000'010), 2U);
  finish(1'000'011);
}

}  // namespace
}  // namespace tickwheel::test
