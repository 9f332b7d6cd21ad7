// A crowded slot is emptied ahead of its time: when that begins, in which steps, and what `empty`, `sweep`, `clear` and skipped
// time do meanwhile.
#include "../support/probe.hpp"

namespace tickwheel::test {
namespace {

// A slot of the second level is as wide as the level has slots. This one is crowded:
constexpr tick width = 1024;
constexpr tick begin = 4 * width;

// docs/design.md, "Pace"
struct expected_pace {
  explicit expected_pace(std::size_t count) {
    const auto density = static_cast<std::size_t>(count / width);
    if (density == 0) return;
    per_tick = std::max(std::clamp<std::size_t>(8 * density, 32, 64), density + 1);
    step = 64;
    head_start = count > step ? 2 : 0;
  }
  // The first visit also makes up for the tick before it.
  std::size_t most_per_visit() const { return std::max(2 * per_tick, step); }

  std::size_t per_tick = 64, step = 128;
  tick head_start = 0;  // so many ticks early a visit starts the slot, and takes no step
};

// A wheel with entries in the slot, spread over its ticks from the first on.
template <class Entry>
struct crowded {
  explicit crowded(std::size_t count) : all{timers, count} { all.arm(begin, width); }

  // Returns how many visits are due at `now`, and makes them one at a time.
  std::size_t visits_at(tick now) {
    std::size_t count = 0;
    for (bool done = false; !done;) {
      std::size_t left = 1;
      done = timers.advance_within(now, left).done;
      count += 1 - left;
    }
    return count;
  }

  // Starts the slot. Returns the tick of its first step.
  tick start() {
    if (expected_pace{all.size()}.head_start != 0) {
      EXPECT_EQ(visits_at(timers.next_expiry()), 0U);
    }
    return timers.next_expiry();
  }

  checked_wheel timers{wheel_geometry::hierarchical(2, width)};
  group<Entry> all;
};

class emptying : public testing::Test, protected crowded<probe> {
 protected:
  static constexpr std::size_t count = 1280;  // moved down in several steps
  emptying() : crowded{count} {}

  // Some entries are moved down then, the others wait.
  void take_first_steps() {
    for (int step = 0; step < 3; ++step) timers.advance(timers.next_expiry());
    ASSERT_LT(timers.now(), begin);
    ASSERT_LT(timers.next_expiry(), begin);
  }
};

// Callbacks and moves together, in each call, and as the calls tell it.
TEST_F(emptying, makes_no_more_moves_than_the_work_bound_allows) {
  std::size_t moves = 0;
  count_moves(timers, moves);
  std::size_t calls = 0;
  for (tick now = begin - 100; timers.armed() != 0; ++now) {
    std::size_t work = 7;
    for (advance_result result{}; !result.done; ++calls) {
      moves = 0;
      result = timers.advance_within(now, work = 7);
      ASSERT_LE(result.ran + moves, 7 - work);
    }
  }
  EXPECT_GE(calls, 2 * count / 7);
  EXPECT_EQ(all.fired_once(), count);
  EXPECT_EQ(timers.lateness().max(), 0U);
}

// Cancelled entries are dropped in the first steps, so that only those are linked that are left in the slot that is emptied.
TEST_F(emptying, wheel_is_not_empty_while_a_timer_is_armed) {
  for (std::size_t i = 0; i < count; ++i)
    if (i != count / 2) timers.cancel(all[i]);
  while (timers.armed() != 0) {
    ASSERT_FALSE(timers.empty()) << timers.now();
    timers.advance(timers.next_expiry());
  }
  EXPECT_EQ(all[count / 2].fired_at(), ticks{begin + count / 2});
  EXPECT_TRUE(timers.empty());
}

TEST_F(emptying, sweep_drops_what_is_left) {
  take_first_steps();
  all.cancel();
  timers.sweep(count - 1);
  EXPECT_FALSE(timers.empty());
  EXPECT_TRUE(valid(timers));
  timers.sweep(2);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
}

TEST_F(emptying, clear_detaches_what_is_left) {
  take_first_steps();
  std::size_t disposed = 0;
  timers.clear([&](wheel_entry& e) {
    EXPECT_FALSE(e.armed());
    ++disposed;
  });
  EXPECT_EQ(disposed, count);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
  timers.arm(all[0], begin);
  EXPECT_EQ(timers.next_expiry(), begin);
  EXPECT_EQ(timers.advance(begin).ran, 1U);
}

TEST_F(emptying, begins_anew_for_timers_armed_again) {
  take_first_steps();
  all.cancel();
  timers.advance(timers.now() + 1, 0);
  all.arm(begin, width);
  EXPECT_TRUE(valid(timers));
  run_until(timers, begin + width);
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(all[i].fired_at(), ticks{begin + i % width});
  EXPECT_TRUE(timers.empty());
}

TEST_F(emptying, delays_no_timer_after_skipped_time) {
  for (const tick later : {begin, begin + width / 2, 3 * begin, 100 * begin}) {
    SCOPED_TRACE(later);
    crowded<probe> fresh{count};
    for (int step = 0; step < 3; ++step) fresh.timers.advance(fresh.timers.next_expiry());
    fresh.all.cancel();
    fresh.timers.advance(later, 0);
    EXPECT_FALSE(fresh.timers.empty());
    for (std::size_t i = 0; i < count; i += 100) fresh.timers.arm(fresh.all[i], later + 1 + i);
    EXPECT_TRUE(valid(fresh.timers));
    run_until(fresh.timers, later + 1 + count);
    for (std::size_t i = 0; i < count; i += 100) ASSERT_EQ(fresh.all[i].fired_at(), ticks{later + 1 + i});
  }
}

TEST_F(emptying, continues_after_next_expiry_was_asked_amid_a_step) {
  const tick first = start();
  ASSERT_FALSE(timers.advance(first, 10).done);
  EXPECT_LE(timers.next_expiry(), first);
  run_until(timers, begin + width);
  EXPECT_EQ(all.fired(), count);
  EXPECT_EQ(timers.lateness().max(), 0U);
}

// The number of entries: a slot with fewer than one per tick, and dense ones.
class emptying_step : public testing::TestWithParam<std::size_t>, protected crowded<counter> {
 protected:
  emptying_step() : crowded{GetParam()} {}

  const std::size_t count = GetParam();
  const expected_pace pace{count};
};

INSTANTIATE_TEST_SUITE_P(of, emptying_step,
                         testing::Values(128, 1000, 1023, 1024, 1280, 4 * width, 5 * width - 1, 12'800, 16 * width,
                                         40'000));

TEST_P(emptying_step, is_first_taken_as_early_as_the_crowd_needs) {
  const tick lead = begin - timers.next_expiry();
  EXPECT_GE(lead, count / pace.per_tick - 1 + pace.head_start);
  EXPECT_LE(lead, count / pace.per_tick + 1 + pace.head_start);
  EXPECT_LE(begin - start(), count / pace.per_tick + 1);
}

// When nothing of the slot is in the cache. The last slot is started early, because it was less dense when its start was chosen.
TEST(emptying_pace, of_a_dense_slot_begins_with_short_steps) {
  for (const std::size_t count : {2048U, 2048U + 16, 8192U}) {  // per tick: 2 and 8
    SCOPED_TRACE(count);
    crowded<counter> dense{count};
    const expected_pace pace{count};
    const tick first_step = begin - count / pace.per_tick - 1;
    EXPECT_LE(dense.timers.next_expiry(), first_step - 1);
    EXPECT_EQ(dense.visits_at(first_step - 1), 0U);
    EXPECT_EQ(dense.timers.next_expiry(), first_step);
    EXPECT_EQ(dense.visits_at(first_step), 16U);
    std::size_t most = 0;
    for (tick t = first_step + 1; t < begin; ++t) most = std::max(most, dense.visits_at(t));
    EXPECT_LE(most, pace.most_per_visit());
    EXPECT_TRUE(valid(dense.timers));
  }
}

// A slot that one step empties is not worth two wakeups.
TEST(emptying_pace, of_few_entries_takes_one_step) {
  constexpr tick narrow = 16;
  wheel timers{wheel_geometry::hierarchical(2, narrow)};
  counters few{timers, 64};
  few.arm(4 * narrow, narrow);
  EXPECT_EQ(timers.next_expiry(), 4 * narrow - 1);
  EXPECT_EQ(visits(timers, timers.next_expiry()) + 1, few.size());
}

TEST_P(emptying_step, is_not_smaller_than_the_smallest_step) {
  std::size_t wakeups = 0;
  for (tick next; (next = timers.next_expiry()) < begin; ++wakeups)
    ASSERT_TRUE(timers.advance(next, pace.most_per_visit()).done) << next;
  const std::size_t a_visit = std::max(pace.per_tick, pace.step);
  EXPECT_GE(wakeups + 1, count / a_visit);
  EXPECT_LE(wakeups,
            count / a_visit + 2 + (pace.head_start != 0 ? 3 : 0));  // one starts the slot, and short steps follow
}

TEST_P(emptying_step, keeps_to_a_straight_line) {
  std::size_t moved = 0;
  for (tick t = 1; t < begin; ++t) {
    moved += visits_at(t);
    ASSERT_LE(count - moved, pace.per_tick * (begin - t)) << t;
    ASSERT_LE(moved, count - std::min(count, pace.per_tick * static_cast<std::size_t>(begin - t - 1)) + pace.step) << t;
  }
}

// Timers that come later make a slot dense. Its line begins where the slower pace asks for it.
TEST(emptying_pace, becomes_slower_when_a_slot_becomes_dense) {
  checked_wheel timers{wheel_geometry::hierarchical(2, width)};
  group<counter> all{timers, width};
  for (std::size_t i = 0; i < width; ++i) {
    timers.arm(all[i], begin + i);
    const expected_pace pace{i + 1};
    if (i > 0) {
      const tick lead = pace.head_start == 0 ? i / pace.per_tick : (i + 1) / pace.per_tick + pace.head_start;
      ASSERT_EQ(timers.next_expiry(), begin - lead) << i;
    }
  }
}

TEST(emptying_pace, keeps_to_a_steeper_line_for_a_larger_crowd) {
  constexpr std::size_t a_tick = 128;
  crowded<counter> large{a_tick * width};
  EXPECT_GE(large.timers.next_expiry(), begin - width);
  for (tick t = begin - width; t < begin; ++t) {
    ASSERT_TRUE(large.timers.advance_unchecked(t, 2 * a_tick).done) << t;
    if (t % 64 == 0) {
      ASSERT_TRUE(valid(large.timers)) << t;
    }
  }
  EXPECT_EQ(large.timers.advance(begin, 2 * a_tick).ran, a_tick);
}

TEST_P(emptying_step, of_a_late_call_only_catches_up_with_the_line) {
  const std::size_t left = count / pace.per_tick / 2;
  const std::size_t moved = visits_at(begin - left);
  EXPECT_GE(moved, count - pace.per_tick * left);
  EXPECT_LE(moved, count - pace.per_tick * (left - 1) + pace.step);
  EXPECT_GT(timers.next_expiry(), timers.now());
  EXPECT_TRUE(valid(timers));
}

TEST_P(emptying_step, of_the_last_tick_leaves_nothing) {
  EXPECT_EQ(visits_at(begin - 1), count);
  EXPECT_EQ(timers.next_expiry(), begin);
}

TEST_P(emptying_step, resumed_in_its_tick_moves_its_rest) {
  const tick first = start();
  ASSERT_FALSE(timers.advance(first, 1).done);
  EXPECT_LE(timers.next_expiry(), first);
  ASSERT_TRUE(timers.advance(first, pace.most_per_visit() - 1).done);
  EXPECT_GT(timers.next_expiry(), first);
}

TEST_P(emptying_step, resumed_later_moves_as_much_as_one_never_cut) {
  crowded<counter> whole{count};
  const tick first = start();
  ASSERT_EQ(whole.start(), first);
  const std::size_t some = pace.step / 8;
  ASSERT_FALSE(timers.advance(first, some).done);
  const std::size_t at_first = whole.visits_at(first);
  EXPECT_EQ(some + visits_at(first + 1), at_first + whole.visits_at(first + 1));
  EXPECT_EQ(timers.next_expiry(), whole.timers.next_expiry());
}

TEST_P(emptying_step, resumed_in_the_last_tick_leaves_nothing) {
  ASSERT_FALSE(timers.advance(start(), 1).done);
  EXPECT_EQ(visits_at(begin - 1), count - 1);
  EXPECT_TRUE(valid(timers));
}

TEST_P(emptying_step, counts_cancelled_entries_like_others) {
  crowded<counter> live{count};
  all.cancel(1);
  for (tick next; (next = timers.next_expiry()) < begin;) {
    ASSERT_EQ(live.timers.next_expiry(), next);
    ASSERT_EQ(visits_at(next), live.visits_at(next)) << next;
  }
  EXPECT_EQ(timers.advance(begin).ran, 1U);
  EXPECT_TRUE(timers.empty());
}

}  // namespace
}  // namespace tickwheel::test
