// Which shapes a wheel can have.
#include <tickwheel/core/wheel_geometry.hpp>

#include "../support/probe.hpp"
#include "../support/wheel_cases.hpp"

#include <limits>

namespace tickwheel::test {
namespace {

TEST(wheel_geometry_test, the_default_is_valid) { EXPECT_TRUE(wheel_geometry{}.valid()); }

TEST(wheel_geometry_test, a_hashed_wheel_has_one_level) {
  EXPECT_EQ(wheel_geometry::hashed(4096), (wheel_geometry{1, 4096}));
}

TEST(wheel_geometry_test, a_hierarchical_wheel_has_the_levels_it_is_told) {
  EXPECT_EQ(wheel_geometry::hierarchical(7, 64), (wheel_geometry{7, 64}));
}

TEST(wheel_geometry_test, geometries_compare_by_levels_and_slots) {
  EXPECT_NE((wheel_geometry{2, 8}), (wheel_geometry{3, 8}));
  EXPECT_NE((wheel_geometry{2, 8}), (wheel_geometry{2, 16}));
}

TEST(wheel_geometry_test, a_slot_spans_half_the_slots_of_the_level_below) {
  for (const wheel_geometry& g : all_geometries())
    for (unsigned level = 1; level < g.levels; ++level) {
      const unsigned slots_below = level == 1 ? g.finest_slots() : g.slots;
      EXPECT_EQ(1ULL << g.width_bits(level), (1ULL << g.width_bits(level - 1)) * (slots_below / 2));
    }
}

TEST(wheel_geometry_test, the_lowest_of_several_levels_has_twice_as_many_slots) {
  EXPECT_EQ(wheel_geometry::hierarchical(3, 64).finest_slots(), 128U);
  EXPECT_EQ(wheel_geometry::hashed(64).finest_slots(), 64U);
}

TEST(wheel_geometry_test, the_finest_slot_is_one_tick_wide) {
  for (const wheel_geometry& g : all_geometries()) EXPECT_EQ(g.width_bits(0), 0U);
}

TEST(wheel_geometry_test, slots_must_be_a_power_of_two) {
  for (const unsigned slots : {0U, 3U, 5U, 6U, 7U, 9U, 1000U, 4095U, std::numeric_limits<unsigned>::max()}) {
    EXPECT_FALSE((wheel_geometry{1, slots}.valid())) << slots;
    EXPECT_FALSE((wheel_geometry{2, slots}.valid())) << slots;
  }
}

TEST(wheel_geometry_test, one_level_may_have_any_power_of_two_up_to_the_maximum) {
  for (unsigned slots = 1; slots <= wheel_geometry::max_slots; slots *= 2)
    EXPECT_TRUE(wheel_geometry::hashed(slots).valid()) << slots;
  EXPECT_FALSE(wheel_geometry::hashed(2 * wheel_geometry::max_slots).valid());
}

TEST(wheel_geometry_test, several_levels_need_four_slots) {
  EXPECT_FALSE((wheel_geometry{2, 1}.valid()));
  EXPECT_FALSE((wheel_geometry{2, 2}.valid()));
  EXPECT_TRUE((wheel_geometry{2, 4}.valid()));
}

TEST(wheel_geometry_test, there_must_be_a_level) { EXPECT_FALSE((wheel_geometry{0, 64}.valid())); }

TEST(wheel_geometry_test, a_turn_of_the_highest_level_fits_the_bits_of_a_tick) {
  EXPECT_TRUE((wheel_geometry{62, 4}.valid()));
  EXPECT_FALSE((wheel_geometry{63, 4}.valid()));
  EXPECT_TRUE((wheel_geometry{31, 8}.valid()));
  EXPECT_FALSE((wheel_geometry{32, 8}.valid()));
  EXPECT_TRUE((wheel_geometry{12, 64}.valid()));
  EXPECT_FALSE((wheel_geometry{13, 64}.valid()));
  EXPECT_FALSE((wheel_geometry{65, 4}.valid()));
  EXPECT_FALSE((wheel_geometry{std::numeric_limits<unsigned>::max(), 4}.valid()));
}

TEST(wheel_geometry_test, a_wheel_tells_its_geometry) {
  for (const wheel_geometry& g : all_geometries()) EXPECT_EQ(wheel{g}.geometry(), g);
  EXPECT_EQ(wheel{}.geometry(), wheel_geometry{});
}

class extreme_geometry_test : public testing::TestWithParam<wheel_geometry> {};

TEST_P(extreme_geometry_test, keeps_time) {
  for (const tick origin : {tick{0}, tick{12345}, tick{1} << 63, last_tick - (tick{1} << 20)}) {
    wheel timers{GetParam(), origin};
    std::deque<probe> all;
    for (unsigned bit = 0; bit <= 20; ++bit)
      for (const tick more : {tick{0}, tick{1}, tick{3}}) {
        const tick delay = (tick{1} << bit) + more;
        if (delay > last_tick - origin) continue;
        timers.arm(all.emplace_back(timers), origin + delay);
      }
    std::vector<tick> deadlines;
    for (probe& p : all) deadlines.push_back(p.deadline());
    while (timers.armed() != 0) {
      timers.advance(timers.next_expiry());
      ASSERT_TRUE(valid(timers));
    }
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].fired_at(), std::vector<tick>{deadlines[i]});
  }
}

INSTANTIATE_TEST_SUITE_P(all, extreme_geometry_test,
                         testing::Values(wheel_geometry{1, 1}, wheel_geometry{1, 2}, wheel_geometry{1, 4},
                                         wheel_geometry{1, 128}, wheel_geometry{1, 1U << 16}, wheel_geometry{2, 128},
                                         wheel_geometry{2, 4096}, wheel_geometry{62, 4}, wheel_geometry{31, 8},
                                         wheel_geometry{12, 64}),
                         geometry_name);

TEST(wheel_geometry_death_test, a_bad_geometry_aborts_in_the_constructor_and_says_why) {
  EXPECT_DEATH((wheel{wheel_geometry{0, 64}}), "bad geometry");
  EXPECT_DEATH((wheel{wheel_geometry{1, 0}}), "bad geometry");
  EXPECT_DEATH((wheel{wheel_geometry{1, 100}}), "bad geometry");
  EXPECT_DEATH((wheel{wheel_geometry{2, 2}}), "bad geometry");
  EXPECT_DEATH((wheel{wheel_geometry{13, 64}}), "bad geometry");
}

}  // namespace
}  // namespace tickwheel::test
