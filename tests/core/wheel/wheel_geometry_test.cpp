// The valid shapes of a wheel. Extreme ones keep time as well.
#include "../support/wheel_cases.hpp"

namespace tickwheel::test {
namespace {

constexpr unsigned most = std::numeric_limits<unsigned>::max();
constexpr unsigned max_slots = wheel_geometry::max_slots;

TEST(wheel_geometry, default_is_valid) { EXPECT_TRUE(wheel_geometry{}.valid()); }

TEST(wheel_geometry, hashed_and_hierarchical_set_the_levels) {
  EXPECT_EQ(wheel_geometry::hashed(4096), (wheel_geometry{1, 4096}));
  EXPECT_EQ(wheel_geometry::hierarchical(7, 64), (wheel_geometry{7, 64}));
}

TEST(wheel_geometry, compares_levels_and_slots) {
  EXPECT_NE((wheel_geometry{2, 8}), (wheel_geometry{3, 8}));
  EXPECT_NE((wheel_geometry{2, 8}), (wheel_geometry{2, 16}));
}

TEST(wheel_geometry, finest_slot_is_one_tick_wide) {
  for (const wheel_geometry& g : all_geometries()) EXPECT_EQ(g.width_bits(0), 0U);
}

TEST(wheel_geometry, slot_spans_half_the_slots_of_the_level_below) {
  for (const wheel_geometry& g : all_geometries())
    for (unsigned level = 1; level < g.levels; ++level) {
      const unsigned slots_below = level == 1 ? g.finest_slots() : g.slots;
      EXPECT_EQ(1ULL << g.width_bits(level), (1ULL << g.width_bits(level - 1)) * (slots_below / 2));
    }
}

TEST(wheel_geometry, lowest_level_has_twice_as_many_slots) {
  EXPECT_EQ(wheel_geometry::hierarchical(3, 64).finest_slots(), 128U);
  EXPECT_EQ(wheel_geometry::hashed(64).finest_slots(), 64U);
}

TEST(wheel_geometry, is_invalid_unless_slots_are_a_power_of_two) {
  for (const unsigned levels : {1U, 2U})
    for (const unsigned slots : {0U, 3U, 5U, 6U, 7U, 9U, 1000U, 4095U, most})
      EXPECT_FALSE((wheel_geometry{levels, slots}.valid())) << levels << " x " << slots;
}

TEST(wheel_geometry, of_one_level_is_valid_up_to_max_slots) {
  for (unsigned slots = 1; slots <= max_slots; slots *= 2) EXPECT_TRUE(wheel_geometry::hashed(slots).valid()) << slots;
}

TEST(wheel_geometry, is_invalid_just_beyond_what_is_valid) {
  // several levels need four slots, and a turn of the highest level must fit the bits of a tick
  for (const wheel_geometry& g : {wheel_geometry{2, 4}, {62, 4}, {31, 8}, {12, 64}}) EXPECT_TRUE(g.valid());
  for (const wheel_geometry& g :
       {wheel_geometry{0, 64}, {1, 2 * max_slots}, {2, 1}, {2, 2}, {63, 4}, {32, 8}, {13, 64}, {65, 4}, {most, 4}})
    EXPECT_FALSE(g.valid()) << testing::PrintToString(g);
}

TEST(wheel_geometry, of_a_wheel_is_the_one_it_was_given) {
  for (const wheel_geometry& g : all_geometries()) EXPECT_EQ(wheel{g}.geometry(), g);
  EXPECT_EQ(wheel{}.geometry(), wheel_geometry{});
}

TEST(wheel_geometry, stops_the_process_if_it_is_invalid) {
  for (const wheel_geometry& g : {wheel_geometry{0, 64}, {1, 0}, {1, 100}, {2, 2}, {13, 64}})
    EXPECT_DEATH(wheel{g}, "bad geometry") << testing::PrintToString(g);
}

void expect_to_keep_time(const wheel_geometry& geometry, tick origin) {
  checked_wheel timers{geometry, origin};
  std::deque<probe> all;
  ticks deadlines;
  for (unsigned bit = 0; bit <= 20; ++bit)
    for (const tick more : {0U, 1U, 3U}) {
      const tick delay = (tick{1} << bit) + more;
      if (delay > last_tick - origin) continue;
      timers.arm(all.emplace_back(timers), origin + delay);
      deadlines.push_back(all.back().deadline());
    }
  while (timers.armed() != 0) timers.advance(timers.next_expiry());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].fired_at(), ticks{deadlines[i]});
}

TEST(wheel_geometry, keeps_time_if_it_is_extreme) {
  for (const wheel_geometry& g :
       {wheel_geometry{1, 1}, {1, 2}, {1, 4}, {1, 128}, {1, 1U << 16}, {2, 128}, {2, 4096}, {62, 4}, {31, 8}, {12, 64}})
    for (const tick origin : {tick{0}, tick{12345}, tick{1} << 63, last_tick - (tick{1} << 20)}) {
      SCOPED_TRACE(testing::Message() << testing::PrintToString(g) << " from " << origin);
      expect_to_keep_time(g, origin);
    }
}

}  // namespace
}  // namespace tickwheel::test
