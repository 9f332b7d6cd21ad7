// The occupied slots of a level, compared with a search slot by slot.
#include "../../src/core/slot_bitmap.hpp"
#include "../support/prelude.hpp"

namespace tickwheel::test {
namespace {

constexpr unsigned none = tickwheel::slot_bitmap::none;

class slot_bitmap : public testing::TestWithParam<unsigned> {
 protected:
  slot_bitmap() { bits.reset(slots); }

  void set(unsigned slot) {
    bits.set(slot);
    naive[slot] = true;
  }

  void clear(unsigned slot) {
    bits.clear(slot);
    naive[slot] = false;
  }

  // every `step`-th slot
  void set_all(unsigned step = 1) {
    for (unsigned slot = 0; slot < slots; slot += step) set(slot);
  }

  unsigned searched(unsigned from) const {
    for (unsigned distance = 0; distance < slots; ++distance)
      if (naive[(from + distance) % slots]) return distance;
    return none;
  }

  void expect_as_searched() const {
    for (const unsigned from : positions()) ASSERT_EQ(bits.distance_from(from), searched(from));
  }

  // all positions of a small one; of a large one those around the words and the summary words, and some others
  std::vector<unsigned> positions() const {
    std::vector<unsigned> all;
    for (unsigned slot = 0; slot < slots; ++slot)
      if (slots <= 256 || slot % 1024 < 2 || slot % 1024 > 1021 || slot < 66 || slot % 193 == 0) all.push_back(slot);
    return all;
  }

  const unsigned slots = GetParam();
  tickwheel::slot_bitmap bits;
  std::vector<bool> naive = std::vector<bool>(slots);
};

TEST_P(slot_bitmap, finds_nothing_while_all_are_clear) {
  for (const unsigned from : positions()) EXPECT_EQ(bits.distance_from(from), none);
}

TEST_P(slot_bitmap, finds_the_only_one_from_everywhere) {
  for (unsigned slot = 0; slot < slots; slot += 1 + slots / 19) {
    SCOPED_TRACE(slot);
    set(slot);
    expect_as_searched();
    clear(slot);
  }
}

TEST_P(slot_bitmap, finds_the_position_itself) {
  for (const unsigned slot : positions()) {
    set(slot);
    ASSERT_EQ(bits.distance_from(slot), 0U);
  }
}

TEST_P(slot_bitmap, goes_round_to_the_slot_just_before) {
  for (const unsigned from : positions()) {
    set((from + slots - 1) % slots);
    ASSERT_EQ(bits.distance_from(from), slots - 1);
    clear((from + slots - 1) % slots);
  }
}

TEST_P(slot_bitmap, test_returns_whether_a_slot_was_set) {
  set_all(3);
  for (unsigned slot = 0; slot < slots; ++slot) ASSERT_EQ(bits.test(slot), slot % 3 == 0);
}

TEST_P(slot_bitmap, keeps_the_neighbours_of_a_cleared_slot) {
  set_all();
  for (unsigned slot = 0; slot < slots; slot += 2) clear(slot);
  expect_as_searched();
}

TEST_P(slot_bitmap, is_the_same_if_a_slot_is_set_or_cleared_twice) {
  for (int times = 0; times < 2; ++times) set(slots / 2);
  for (int times = 0; times < 2; ++times) {
    clear(slots / 2);
    EXPECT_EQ(bits.distance_from(0), none);
  }
}

TEST_P(slot_bitmap, agrees_with_a_search_after_any_changes) {
  std::mt19937 random{slots};
  for (const unsigned density : {1U, 4U, 64U})
    for (int step = 0; step < 500; ++step) {
      const auto slot = static_cast<unsigned>(random()) % slots;
      if (random() % (density + 1) != 0)
        clear(slot);
      else
        set(slot);
      const auto from = static_cast<unsigned>(random()) % slots;
      ASSERT_EQ(bits.distance_from(from), searched(from));
    }
}

TEST_P(slot_bitmap, passes_each_slot_once_in_a_turn_from_everywhere) {
  set_all(3);
  for (const unsigned from : positions()) {
    std::vector<bool> passed(slots);
    for (unsigned at = from; (at = bits.next_between(at, from + slots)) != none; ++at) {
      ASSERT_FALSE(passed[at % slots]);
      passed[at % slots] = true;
    }
    ASSERT_EQ(passed, naive);
  }
}

TEST_P(slot_bitmap, ends_before_the_end) {
  set(0);
  EXPECT_EQ(bits.next_between(0, 0), none);
  EXPECT_EQ(bits.next_between(0, 1), 0U);
  EXPECT_EQ(bits.next_between(slots, slots), none);
  EXPECT_EQ(bits.next_between(slots, slots + 1), slots);
  if (slots == 1) return;
  EXPECT_EQ(bits.next_between(1, slots), none);
  EXPECT_EQ(bits.next_between(1, slots + 1), slots);
}

TEST_P(slot_bitmap, is_clear_after_reset) {
  set_all();
  bits.reset(slots);
  for (const unsigned from : positions()) ASSERT_EQ(bits.distance_from(from), none);
}

INSTANTIATE_TEST_SUITE_P(all, slot_bitmap, testing::Values(1U, 2U, 4U, 32U, 64U, 128U, 256U, 4096U, 8192U, 16384U),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tickwheel::test
