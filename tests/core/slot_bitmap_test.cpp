// The occupied slots of a level, against a search slot by slot.
#include "../../src/core/slot_bitmap.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tickwheel::test {
namespace {

class slot_bitmap_test : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    bits.reset(slots);
    naive.assign(slots, false);
  }

  void set(unsigned slot) {
    bits.set(slot);
    naive[slot] = true;
  }

  void clear(unsigned slot) {
    bits.clear(slot);
    naive[slot] = false;
  }

  unsigned searched(unsigned from) const {
    for (unsigned distance = 0; distance < slots; ++distance)
      if (naive[(from + distance) % slots]) return distance;
    return slot_bitmap::none;
  }

  // all positions of a small one; of a large one those around the words and the summary words, and some others
  std::vector<unsigned> positions() const {
    std::vector<unsigned> all;
    for (unsigned slot = 0; slot < slots; ++slot)
      if (slots <= 256 || slot % 1024 < 2 || slot % 1024 > 1021 || slot < 66 || slot % 193 == 0) all.push_back(slot);
    return all;
  }

  const unsigned slots = GetParam();
  slot_bitmap bits;
  std::vector<bool> naive;
};

TEST_P(slot_bitmap_test, finds_nothing_when_all_are_clear) {
  for (const unsigned from : positions()) EXPECT_EQ(bits.distance_from(from), slot_bitmap::none);
}

TEST_P(slot_bitmap_test, finds_the_only_one_from_everywhere) {
  for (unsigned slot = 0; slot < slots; slot += 1 + slots / 19) {
    set(slot);
    for (const unsigned from : positions()) ASSERT_EQ(bits.distance_from(from), searched(from)) << slot;
    clear(slot);
  }
}

TEST_P(slot_bitmap_test, finds_the_one_at_the_position_itself) {
  for (const unsigned slot : positions()) {
    set(slot);
    ASSERT_EQ(bits.distance_from(slot), 0U);
  }
}

TEST_P(slot_bitmap_test, goes_round_to_the_one_just_behind) {
  for (const unsigned from : positions()) {
    set((from + slots - 1) % slots);
    ASSERT_EQ(bits.distance_from(from), slots - 1);
    clear((from + slots - 1) % slots);
  }
}

TEST_P(slot_bitmap_test, test_tells_what_was_set) {
  for (unsigned slot = 0; slot < slots; slot += 3) set(slot);
  for (unsigned slot = 0; slot < slots; ++slot) ASSERT_EQ(bits.test(slot), slot % 3 == 0);
}

TEST_P(slot_bitmap_test, clearing_one_leaves_its_neighbours) {
  for (unsigned slot = 0; slot < slots; ++slot) set(slot);
  for (unsigned slot = 0; slot < slots; slot += 2) clear(slot);
  for (const unsigned from : positions()) ASSERT_EQ(bits.distance_from(from), searched(from));
}

TEST_P(slot_bitmap_test, setting_and_clearing_twice_is_the_same_as_once) {
  set(slots / 2);
  set(slots / 2);
  clear(slots / 2);
  EXPECT_EQ(bits.distance_from(0), slot_bitmap::none);
  clear(slots / 2);
  EXPECT_EQ(bits.distance_from(0), slot_bitmap::none);
}

TEST_P(slot_bitmap_test, agrees_with_a_search_after_any_changes) {
  std::mt19937 random{slots};
  for (const unsigned density : {1U, 4U, 64U}) {
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
}

TEST_P(slot_bitmap_test, reset_clears_all) {
  for (const unsigned slot : positions()) set(slot);
  bits.reset(slots);
  for (const unsigned from : positions()) ASSERT_EQ(bits.distance_from(from), slot_bitmap::none);
}

INSTANTIATE_TEST_SUITE_P(all, slot_bitmap_test, testing::Values(1U, 2U, 4U, 32U, 64U, 128U, 256U, 4096U, 8192U, 16384U),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tickwheel::test
