// A crowd in one slot of the finest level, before its time has come. Entries that are cancelled or moved later leave it ahead of
// its time, so that a live timer of that slot does not wait for them. Calls and visits are counted, never time.
#include "../support/probe.hpp"

namespace tickwheel::test {
namespace {

constexpr std::size_t work = 1024;
constexpr std::size_t count = 100'000;
constexpr std::size_t fewest = 8192;  // of a crowd, src/core/pace.hpp; fewer entries stay in their slot
constexpr tick due = 2000;            // less than a turn of the finest level ahead
constexpr tick turn = 2048;           // of the finest level
constexpr tick span = 256;            // of a slot of the ring of crowds

class finest_crowd : public testing::Test {
 protected:
  // Arms the timers in turn in each of `width` ticks from `first` on, and `live` amid them.
  void arm_crowd(tick first = due, tick width = 1) {
    for (std::size_t i = 0; i < count; ++i) {
      if (i == count / 2) timers.arm(live, first);
      timers.arm(all[i], first + i % width);
    }
    EXPECT_TRUE(valid(timers));
  }

  // Makes a call for each tick, which may leave due timers over.
  void tick_until(tick last, std::size_t bound = work) {
    while (timers.now() < last) timers.advance(timers.now() + 1, bound);
    EXPECT_TRUE(valid(timers));
  }

  void expect_each_to_run_in_its_tick(std::size_t width) {
    for (std::size_t t = 0; t < width; ++t) {
      tick_until(due + t - 1, unlimited);
      EXPECT_EQ(all.fired_once(), count / width * t + std::min(t, count % width));
      timers.advance(due + t);
    }
    EXPECT_EQ(all.fired_once(), count);
  }

  // `live` fires in the calls that the rest of its slot takes.
  void expect_live_not_to_wait(tick deadline = due, std::size_t times = 1) {
    tick_until(deadline - 1);
    for (std::size_t calls = 0; calls < fewest / work; ++calls) timers.advance(deadline, work);
    EXPECT_EQ(live.fired(), times);
  }

  wheel timers;
  probe live{timers};
  counters all{timers, count};
};

TEST_F(finest_crowd, of_cancelled_timers_does_not_delay_a_live_one) {
  arm_crowd();
  all.cancel();
  expect_live_not_to_wait();
}

TEST_F(finest_crowd, cancelled_late_does_not_delay_a_live_timer) {
  arm_crowd();
  tick_until(due - 150);
  all.cancel();
  expect_live_not_to_wait();
}

TEST_F(finest_crowd, moved_later_does_not_delay_a_live_timer) {
  arm_crowd();
  all.arm(due + 100'000);
  expect_live_not_to_wait();
  EXPECT_EQ(timers.armed(), count);
}

TEST_F(finest_crowd, moved_by_the_hook_does_not_delay_a_live_timer) {
  timers.on_move([](void* itself, wheel_entry& e) noexcept { return &e == itself ? due : due + 100'000; },
                 static_cast<wheel_entry*>(&live));
  arm_crowd();
  expect_live_not_to_wait();
  EXPECT_GE(timers.armed(), count - fewest);
}

TEST_F(finest_crowd, half_cancelled_runs_its_live_half) {
  arm_crowd();
  for (std::size_t i = 0; i < count / 2; ++i) timers.cancel(all[i]);
  tick_until(due - 1);
  finish(timers, due, work);
  EXPECT_EQ(live.fired(), 1U);
  EXPECT_EQ(all.fired_once(), count / 2);
}

TEST_F(finest_crowd, that_moved_down_does_not_delay_a_live_timer) {
  constexpr tick far = 500'000;
  all.arm(far);
  timers.arm(live, far);
  tick_until(far - 1000);  // in the finest level by now
  all.cancel();
  expect_live_not_to_wait(far);
  EXPECT_TRUE(timers.empty());
}

TEST_F(finest_crowd, of_live_timers_waits_without_a_visit) {
  arm_crowd();
  while (timers.now() < due - 1) ASSERT_TRUE(timers.advance(timers.now() + 1, 1).done);
  EXPECT_TRUE(valid(timers));
  timers.advance(due);
  EXPECT_EQ(all.fired_once(), count);
}

// In the next span but one of the ring there is time to visit a crowd, so it is not left in its slot.
TEST_F(finest_crowd, two_spans_ahead_does_not_delay_a_live_timer) {
  timers.advance((due / span - 2) * span);
  arm_crowd();
  all.cancel();
  expect_live_not_to_wait();
}

// Two crowds of one span are being emptied when all of them are cancelled. The rest goes back to one list, whose first entry is
// not the earliest. Armed again for their old deadlines, all stay linked there.
TEST_F(finest_crowd, given_back_and_armed_again_runs_in_its_tick) {
  constexpr tick later = due + 40;
  static_assert(due / span == later / span);
  const auto arm_both = [&] {
    for (std::size_t i = 0; i < 2 * fewest; ++i) timers.arm(all[i], i < fewest ? later : due);
  };
  arm_both();
  timers.cancel(all[0]);  // the first of each list, so that the wheel empties them
  timers.cancel(all[fewest]);
  while (timers.now() < due / span * span - 50) timers.advance(timers.now() + 1, 1);
  all.cancel();
  timers.advance(timers.now() + 1, 0);  // which drops none
  arm_both();
  EXPECT_TRUE(valid(timers));
  tick_until(due, unlimited);
  EXPECT_EQ(all.fired_once(), fewest);
  tick_until(later, unlimited);
  EXPECT_EQ(all.fired_once(), 2 * fewest);
}

// A live crowd was kept in a slot of the ring. The next crowd there, a turn of the ring later, is due when the slot begins.
TEST_F(finest_crowd, where_one_was_kept_does_not_delay_a_live_timer) {
  arm_crowd();
  tick_until(due, unlimited);
  EXPECT_EQ(all.fired_once(), count);
  constexpr tick next = due / span * span + 16 * span;
  tick_until(next - 1500, unlimited);
  arm_crowd(next);
  all.cancel();
  expect_live_not_to_wait(next, 2);
}

// Cancelled timers that time has passed are still linked to the slot of a crowd, and leave it with the crowd.
TEST_F(finest_crowd, may_take_along_dead_links_of_a_turn_before) {
  probes old{timers, 3};
  old.arm(due);
  old.cancel();
  timers.advance(due + 100, 0);  // which drops none
  all.arm(due + turn);
  EXPECT_TRUE(valid(timers));
  tick_until(due + turn, unlimited);
  EXPECT_EQ(all.fired_once(), count);
  EXPECT_EQ(old.fired(), 0U);
}

// The ring of crowds turns once while the finest level turns twice.
TEST_F(finest_crowd, may_take_along_dead_links_of_an_earlier_turn) {
  for (std::size_t i = 0; i < 10; ++i) timers.arm(all[i], 1500);
  all.cancel();
  timers.advance(2500, 0);
  for (std::size_t i = 10; i < 20'000; ++i) timers.arm(all[i], 1500 + turn);
  tick_until(1500 + turn - 1);
  timers.advance(1500 + turn);
  EXPECT_EQ(all.fired_once(), 20'000U - 10);
  EXPECT_TRUE(timers.empty());
}

// Four crowds are kept in a span, so two stay where they are.
TEST_F(finest_crowd, of_neighbouring_ticks_runs_in_its_own_tick) {
  arm_crowd(due, 6);
  expect_each_to_run_in_its_tick(6);
}

// The wheel gives the crowd that it was emptying back to its slot, where ticks are mixed.
TEST_F(finest_crowd, armed_again_after_idle_time_runs_in_its_tick) {
  arm_crowd(due, 3);
  all.cancel(0, 2);
  tick_until(due - 400, 128);  // it is being emptied
  all.cancel();
  timers.cancel(live);
  timers.advance(timers.now() + 1);
  EXPECT_TRUE(valid(timers));
  all.arm(due, 3);
  EXPECT_TRUE(valid(timers));
  expect_each_to_run_in_its_tick(3);
}

TEST_F(finest_crowd, is_listed_and_cleared_while_it_waits) {
  arm_crowd();
  std::size_t seen = 0;
  timers.for_each_armed([&](wheel_entry&) { ++seen; });
  EXPECT_EQ(seen, count + 1);
  clear(timers);
  EXPECT_TRUE(timers.empty());
  EXPECT_EQ(timers.next_expiry(), never);
}

TEST_F(finest_crowd, may_be_destroyed_while_it_waits) {
  arm_crowd();
  all.destroy();
  expect_live_not_to_wait();
}

TEST_F(finest_crowd, of_the_last_tick_runs_in_one_call) {
  wheel last{{}, last_tick - 1000};
  counters crowd{last, fewest};
  probe again{last, [&](probe& self) {
                if (self.fired() == 1) last.arm(self, last_tick);
              }};
  crowd.arm(last_tick);
  last.arm(again, last_tick);
  last.advance(last_tick);
  EXPECT_EQ(crowd.fired_once(), fewest);
  EXPECT_EQ(again.fired(), 1U);
  EXPECT_TRUE(last.advance(last_tick).done);
  EXPECT_EQ(again.fired(), 2U);
}

TEST_F(finest_crowd, is_named_by_dump) {
  arm_crowd();
  std::ostringstream text;
  timers.dump(text);
  EXPECT_NE(text.str().find("level 0 crowds, slot 7: first visit 1792"), std::string::npos) << text.str();
}

}  // namespace
}  // namespace tickwheel::test
