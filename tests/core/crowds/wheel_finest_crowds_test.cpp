// A crowd in one slot of the finest level, before its time has come: what was cancelled or put off leaves it ahead of its time, so
// that a live timer of that slot does not wait for it. Calls and visits are counted, never time.
#include "../support/probe.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <sstream>
#include <string>

namespace tickwheel::test {
namespace {

constexpr std::size_t work = 1024;
constexpr std::size_t count = 100'000;
constexpr tick due = 2000;   // less than a turn of the finest level ahead
constexpr tick turn = 2048;  // of the finest level
constexpr tick span = 256;   // of a slot of the ring of crowds

// A slot keeps fewer than 8192 entries to itself (src/core/pace.hpp), which these calls visit.
constexpr std::size_t calls_for_the_rest = 8192 / work;

struct counter : wheel_entry {
  counter() : wheel_entry{[](wheel_entry& e) noexcept { ++static_cast<counter&>(e).fired; }} {}
  unsigned fired = 0;
};

class wheel_finest_crowds : public testing::Test {
 protected:
  ~wheel_finest_crowds() override {
    timers.clear([](wheel_entry&) noexcept {});
  }

  // Arms the timers in turn in each of so many ticks from `due` on, and `live` amid them.
  void arm_crowd(tick ticks = 1) {
    for (std::size_t i = 0; i < count; ++i) {
      if (i == count / 2) timers.arm(live, due);
      timers.arm(all[i], due + i % ticks);
    }
    EXPECT_TRUE(valid(timers));
  }

  // How many of the crowd are due in the first `t` of so many ticks.
  static std::size_t armed_before(std::size_t t, std::size_t ticks) {
    return count / ticks * t + std::min(t, count % ticks);
  }

  void cancel_crowd() {
    for (std::size_t i = 0; i < count; ++i) timers.cancel(all[i]);
  }

  // A call for each tick, which may not do what is due.
  void tick_until(tick last, std::size_t bound = work) {
    while (timers.now() < last) timers.advance(timers.now() + 1, bound);
    EXPECT_TRUE(valid(timers));
  }

  void expect_each_to_run_in_its_tick(tick ticks) {
    for (tick t = 0; t < ticks; ++t) {
      tick_until(due + t - 1, unlimited);
      EXPECT_EQ(fired_once(), armed_before(static_cast<std::size_t>(t), static_cast<std::size_t>(ticks)));
      timers.advance(due + t);
    }
    EXPECT_EQ(fired_once(), count);
  }

  std::size_t calls_until_live_fires() {
    std::size_t calls = 0;
    for (; live.fired() == 0 && calls < count; ++calls) timers.advance(due, work);
    return calls;
  }

  std::size_t fired_once() const { return static_cast<std::size_t>(std::count_if(&all[0], &all[count], is_fired)); }
  static bool is_fired(const counter& c) { return c.fired == 1; }

  wheel timers;
  probe live{timers};
  std::unique_ptr<counter[]> all = std::make_unique<counter[]>(count);
};

TEST_F(wheel_finest_crowds, live_timer_does_not_wait_for_cancelled_ones) {
  arm_crowd();
  cancel_crowd();
  tick_until(due - 1);
  EXPECT_LE(calls_until_live_fires(), calls_for_the_rest);
}

TEST_F(wheel_finest_crowds, live_timer_does_not_wait_for_those_cancelled_shortly_before) {
  arm_crowd();
  tick_until(due - 150);
  cancel_crowd();
  tick_until(due - 1);
  EXPECT_LE(calls_until_live_fires(), calls_for_the_rest);
}

TEST_F(wheel_finest_crowds, live_timer_does_not_wait_for_put_off_ones) {
  arm_crowd();
  for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], due + 100'000);
  tick_until(due - 1);
  EXPECT_LE(calls_until_live_fires(), calls_for_the_rest);
  EXPECT_EQ(timers.armed(), count);
}

TEST_F(wheel_finest_crowds, live_timer_does_not_wait_for_those_put_off_without_a_word) {
  timers.on_move([](void* itself, wheel_entry& e) noexcept { return &e == itself ? due : due + 100'000; },
                 static_cast<wheel_entry*>(&live));
  arm_crowd();
  tick_until(due - 1);
  EXPECT_LE(calls_until_live_fires(), calls_for_the_rest);
  EXPECT_GE(timers.armed(), count - 8192);
}

TEST_F(wheel_finest_crowds, live_timer_does_not_wait_for_half_a_crowd_of_cancelled_ones) {
  arm_crowd();
  for (std::size_t i = 0; i < count / 2; ++i) timers.cancel(all[i]);
  tick_until(due - 1);
  while (!timers.advance(due, work).done) {
  }
  EXPECT_EQ(live.fired(), 1U);
  EXPECT_EQ(fired_once(), count / 2);
}

TEST_F(wheel_finest_crowds, crowd_that_moved_down_is_looked_through_again) {
  constexpr tick far = 500'000;
  for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], far);
  timers.arm(live, far);
  tick_until(far - 1000);  // in the finest level by now
  cancel_crowd();
  tick_until(far - 1);
  for (std::size_t calls = 0; calls < calls_for_the_rest; ++calls) timers.advance(far, work);
  EXPECT_EQ(live.fired(), 1U);
  EXPECT_TRUE(timers.empty());
}

TEST_F(wheel_finest_crowds, live_crowd_waits_without_a_visit) {
  arm_crowd();
  while (timers.now() < due - 1) ASSERT_TRUE(timers.advance(timers.now() + 1, 1).done);
  EXPECT_TRUE(valid(timers));
  timers.advance(due);
  EXPECT_EQ(fired_once(), count);
}

// Spans of the ring of crowds are 256 ticks wide. In the next but one there is time to look through a crowd, so it is not left in
// its slot.
TEST_F(wheel_finest_crowds, crowd_two_spans_ahead_is_looked_through) {
  timers.advance((due / span - 2) * span);
  arm_crowd();
  cancel_crowd();
  tick_until(due - 1);
  EXPECT_LE(calls_until_live_fires(), calls_for_the_rest);
}

// Two crowds of one span are being emptied when all of them are cancelled. What is left goes back to one list, whose first entry is
// not the earliest. Armed again for their old deadlines, all stay linked there.
TEST_F(wheel_finest_crowds, crowds_given_back_and_armed_again_run_each_in_its_tick) {
  constexpr tick later = due + 40;
  static_assert(due / span == later / span);
  constexpr std::size_t of_each = 8192;
  const auto arm_both = [&] {
    for (std::size_t i = 0; i < 2 * of_each; ++i) timers.arm(all[i], i < of_each ? later : due);
  };
  arm_both();
  timers.cancel(all[0]);  // the first of each list, so that the wheel empties them
  timers.cancel(all[of_each]);
  while (timers.now() < due / span * span - 50) timers.advance(timers.now() + 1, 1);
  for (std::size_t i = 0; i < 2 * of_each; ++i) timers.cancel(all[i]);
  timers.advance(timers.now() + 1, 0);  // which drops none
  arm_both();
  EXPECT_TRUE(valid(timers));
  tick_until(due, unlimited);
  EXPECT_EQ(fired_once(), of_each);
  tick_until(later, unlimited);
  EXPECT_EQ(fired_once(), 2 * of_each);
}

// A live crowd was kept in a slot of the ring. The next crowd there, a turn of the ring later, is due when the slot begins.
TEST_F(wheel_finest_crowds, crowd_is_looked_through_where_one_was_kept_before) {
  arm_crowd();
  tick_until(due, unlimited);
  EXPECT_EQ(fired_once(), count);
  constexpr tick next = due / span * span + 16 * span;
  tick_until(next - 1500, unlimited);
  for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], next);
  timers.arm(live, next);
  cancel_crowd();
  tick_until(next - 1);
  for (std::size_t calls = 0; calls < calls_for_the_rest; ++calls) timers.advance(next, work);
  EXPECT_EQ(live.fired(), 2U);
}

// Cancelled timers that time went over are still linked to the slot of a crowd, and leave it with the crowd.
TEST_F(wheel_finest_crowds, crowd_may_take_along_what_was_cancelled_a_turn_before) {
  probes old{timers, 3};
  for (probe& p : old) timers.arm(p, due);
  for (probe& p : old) timers.cancel(p);
  timers.advance(due + 100, 0);  // which drops none
  for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], due + turn);
  EXPECT_TRUE(valid(timers));
  tick_until(due + turn, unlimited);
  EXPECT_EQ(fired_once(), count);
  EXPECT_EQ(old.fired(), 0U);
}

// Four crowds are kept in a span, so two stay where they are.
TEST_F(wheel_finest_crowds, crowds_of_neighbouring_ticks_run_each_in_its_own) {
  constexpr tick ticks = 6;
  arm_crowd(ticks);
  expect_each_to_run_in_its_tick(ticks);
}

TEST_F(wheel_finest_crowds, crowd_that_waits_is_walked_and_cleared) {
  arm_crowd();
  std::size_t seen = 0;
  timers.for_each_armed([&](wheel_entry&) { ++seen; });
  EXPECT_EQ(seen, count + 1);
  timers.clear([](wheel_entry&) noexcept {});
  EXPECT_TRUE(timers.empty());
  EXPECT_EQ(timers.next_expiry(), never);
}

TEST_F(wheel_finest_crowds, crowd_that_waits_may_be_destroyed) {
  arm_crowd();
  cancel_crowd();
  all.reset();
  tick_until(due - 1);
  EXPECT_LE(calls_until_live_fires(), calls_for_the_rest);
}

// The ring of crowds turns once where the finest level turns twice.
TEST_F(wheel_finest_crowds, dead_links_of_an_earlier_turn_leave_with_a_crowd) {
  for (std::size_t i = 0; i < 10; ++i) timers.arm(all[i], 1500);
  for (std::size_t i = 0; i < 10; ++i) timers.cancel(all[i]);
  timers.advance(2500, 0);
  for (std::size_t i = 10; i < 20'000; ++i) timers.arm(all[i], 1500 + 2048);
  tick_until(1500 + 2047);
  timers.advance(1500 + 2048);
  EXPECT_EQ(fired_once(), 20'000U - 10);
  EXPECT_TRUE(timers.empty());
}

TEST_F(wheel_finest_crowds, crowd_of_the_last_tick_runs_in_one_call) {
  wheel last{{}, last_tick - 1000};
  probe again{last, [&](probe& self) {
                if (self.fired() == 1) last.arm(self, last_tick);
              }};
  for (std::size_t i = 0; i < 8192; ++i) last.arm(all[i], last_tick);
  last.arm(again, last_tick);
  last.advance(last_tick);
  EXPECT_EQ(fired_once(), 8192U);
  EXPECT_EQ(again.fired(), 1U);
  EXPECT_TRUE(last.advance(last_tick).done);
  EXPECT_EQ(again.fired(), 2U);
}

// The wheel gives back to its slot what it was looking through, and ticks are mixed there.
TEST_F(wheel_finest_crowds, crowds_armed_again_after_idle_time_run_on_time) {
  constexpr tick ticks = 3;
  arm_crowd(ticks);
  for (std::size_t i = 0; i < count; i += 2) timers.cancel(all[i]);
  tick_until(due - 400, 128);  // it is being looked through
  cancel_crowd();
  timers.cancel(live);
  timers.advance(timers.now() + 1);
  EXPECT_TRUE(valid(timers));
  for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], due + i % ticks);
  EXPECT_TRUE(valid(timers));
  expect_each_to_run_in_its_tick(ticks);
}

TEST_F(wheel_finest_crowds, dump_names_them) {
  arm_crowd();
  std::ostringstream text;
  timers.dump(text);
  EXPECT_NE(text.str().find("level 0 crowds, slot 7: first visit 1792"), std::string::npos) << text.str();
}

}  // namespace
}  // namespace tickwheel::test
