// How a crowded slot is emptied ahead of its time: when that begins, in which steps, and what a late or a resumed call does.
#include <tickwheel/core/wheel.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>

namespace tickwheel::test {
namespace {

// docs/design.md, "Pace"
constexpr std::size_t entries_per_tick = 64;
constexpr std::size_t smallest_step = 128;

// A slot of the second level is as wide as the level has slots. This one is crowded:
constexpr tick width = 1024;
constexpr tick begin = 4 * width;

// A wheel with `count` entries in the slot, spread over its ticks from the first on.
class crowd {
 public:
  explicit crowd(std::size_t count) : all_{std::make_unique<entry[]>(count)} {
    for (std::size_t i = 0; i < count; ++i) timers.arm(all_[i], begin + i % width);
  }

  wheel_entry& operator[](std::size_t i) { return all_[i]; }

  /// Makes the visits that are due at `now`, and returns how many these are. Made one by one, each but the last leaves
  /// something to do.
  std::size_t visits(tick now) {
    if (timers.next_expiry() > now) return 0;
    std::size_t count = 1;
    while (!timers.advance(now, 1).done) ++count;
    return count;
  }

 private:
  struct entry : wheel_entry {
    entry() : wheel_entry{[](wheel_entry&) noexcept {}} {}
  };

  std::unique_ptr<entry[]> all_;

 public:
  wheel timers{wheel_geometry::hierarchical(2, width)};  // after the entries: destroyed first, it detaches them
};

constexpr std::size_t steps = 100;
constexpr std::size_t count = steps * smallest_step;

TEST(wheel_step, first_one_is_as_early_as_the_crowd_needs) {
  for (const std::size_t size : {count, 3 * count}) {
    crowd all{size};
    const tick lead = begin - all.timers.next_expiry();
    EXPECT_GE(lead, size / entries_per_tick - 1);
    EXPECT_LE(lead, size / entries_per_tick + 1);
  }
}

TEST(wheel_step, is_not_smaller_than_the_smallest_step) {
  crowd all{count};
  std::size_t wakeups = 0;
  for (tick next; (next = all.timers.next_expiry()) < begin; ++wakeups)
    ASSERT_TRUE(all.timers.advance(next, smallest_step).done) << next;
  EXPECT_GE(wakeups, steps - 1);
  EXPECT_LE(wakeups, steps + 1);
  EXPECT_TRUE(all.timers.validate());
}

TEST(wheel_step, keeps_to_a_straight_line) {
  crowd all{count};
  std::size_t moved = 0;
  for (tick t = 1; t < begin; ++t) {
    moved += all.visits(t);
    ASSERT_LE(count - moved, entries_per_tick * (begin - t)) << t;
    ASSERT_LE(moved,
              count - std::min(count, entries_per_tick * static_cast<std::size_t>(begin - t - 1)) + smallest_step)
        << t;
  }
  EXPECT_EQ(moved, count);
}

TEST(wheel_step, keeps_to_a_steeper_line_for_a_larger_crowd) {
  constexpr std::size_t a_tick = 2 * entries_per_tick;
  crowd all{a_tick * width};
  EXPECT_GE(all.timers.next_expiry(), begin - width);
  for (tick t = begin - width; t < begin; ++t) {
    ASSERT_TRUE(all.timers.advance(t, a_tick + smallest_step).done) << t;
    if (t % 64 == 0) {
      ASSERT_TRUE(all.timers.validate()) << t;
    }
  }
  EXPECT_EQ(all.timers.advance(begin, a_tick + smallest_step).ran, a_tick);
}

TEST(wheel_step, of_a_late_call_catches_up_with_the_line_only) {
  constexpr tick left = 50;
  crowd all{count};
  const std::size_t moved = all.visits(begin - left);
  EXPECT_GE(moved, count - entries_per_tick * left);
  EXPECT_LE(moved, count - entries_per_tick * (left - 1) + smallest_step);
  EXPECT_GT(all.timers.next_expiry(), all.timers.now());
  EXPECT_TRUE(all.timers.validate());
}

TEST(wheel_step, in_the_last_tick_leaves_nothing) {
  crowd all{count};
  EXPECT_EQ(all.visits(begin - 1), count);
  EXPECT_EQ(all.timers.next_expiry(), begin);
}

TEST(wheel_step, resumed_in_its_tick_moves_the_rest_of_it) {
  crowd all{count};
  const tick first = all.timers.next_expiry();
  ASSERT_FALSE(all.timers.advance(first, smallest_step - 1).done);
  EXPECT_LE(all.timers.next_expiry(), first);
  ASSERT_TRUE(all.timers.advance(first, 1).done);
  EXPECT_GT(all.timers.next_expiry(), first);
  EXPECT_TRUE(all.timers.validate());
}

TEST(wheel_step, resumed_later_moves_as_much_as_one_never_cut) {
  crowd cut{count};
  crowd whole{count};
  const tick first = cut.timers.next_expiry();
  constexpr std::size_t some = smallest_step / 2;
  ASSERT_FALSE(cut.timers.advance(first, some).done);
  const std::size_t at_first = whole.visits(first);
  EXPECT_EQ(some + cut.visits(first + 1), at_first + whole.visits(first + 1));
  EXPECT_EQ(cut.timers.next_expiry(), whole.timers.next_expiry());
}

TEST(wheel_step, resumed_in_the_last_tick_leaves_nothing) {
  crowd all{count};
  ASSERT_FALSE(all.timers.advance(all.timers.next_expiry(), 1).done);
  EXPECT_EQ(all.visits(begin - 1), count - 1);
  EXPECT_TRUE(all.timers.validate());
}

TEST(wheel_step, counts_cancelled_entries_like_others) {
  crowd all{count};
  for (std::size_t i = 1; i < count; ++i) all.timers.cancel(all[i]);
  std::size_t dropped = 0;
  while (all.timers.next_expiry() < begin) dropped += all.visits(all.timers.next_expiry());
  EXPECT_EQ(dropped, count);
  EXPECT_EQ(all.timers.advance(begin).ran, 1U);
  EXPECT_TRUE(all.timers.empty());
}

}  // namespace
}  // namespace tickwheel::test
