// Nothing armed: time skips, and dead links wait where they are.
#include <tickwheel/core/wheel.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace tickwheel {
namespace {

struct counting_entry : wheel_entry {
  explicit counting_entry(int& fires) noexcept
      : wheel_entry{[](wheel_entry& e) noexcept { ++static_cast<counting_entry&>(e).count; }}, count{fires} {}
  int& count;
};

class wheel_idle_time_test : public testing::TestWithParam<wheel_geometry> {};

// The dead links are far from where the cursor lands, so that a new timer need not wait for them to be dropped. (A
// hashed wheel has no far: they share its few slots.)
TEST(wheel_idle_time, is_skipped_in_one_step_over_many_dead_links) {
  int fires = 0;
  std::vector<std::unique_ptr<counting_entry>> dead;
  wheel w;
  for (tick i = 0; i < 100'000; ++i) {
    dead.push_back(std::make_unique<counting_entry>(fires));
    w.arm(*dead.back(), 300'000 + i);
    w.cancel(*dead.back());
  }
  const tick later = 50'000'000;
  EXPECT_TRUE(w.advance(later, 0).done);
  EXPECT_EQ(w.now(), later);

  counting_entry soon{fires};
  w.arm(soon, later + 76);
  std::size_t calls = 0;
  while (w.armed() != 0) {
    w.advance(w.next_expiry(), 1024);
    ASSERT_LT(++calls, 20U);
  }
  EXPECT_EQ(fires, 1);
  EXPECT_EQ(w.now(), later + 76);
  std::string why;
  EXPECT_TRUE(w.validate(&why)) << why;
}

TEST_P(wheel_idle_time_test, drops_dead_links_a_bounded_number_a_call) {
  int fires = 0;
  std::vector<std::unique_ptr<counting_entry>> dead;
  wheel w{GetParam()};
  for (tick i = 0; i < 1000; ++i) {
    dead.push_back(std::make_unique<counting_entry>(fires));
    w.arm(*dead.back(), 3 * i);
    w.cancel(*dead.back());
  }
  for (int i = 0; i < 3; ++i) {
    w.sweep(300);
    EXPECT_FALSE(w.empty());
  }
  w.sweep(300);
  EXPECT_TRUE(w.empty());
}

// The slot of a dead link comes round again, by then with a live entry beside it whose visit is the very tick reached.
TEST_P(wheel_idle_time_test, leaves_a_wheel_empty_whose_dead_entries_are_destroyed) {
  wheel w{GetParam()};
  {
    int fires = 0;
    counting_entry timer{fires};
    w.arm(timer, 5);
    EXPECT_FALSE(w.empty());
    w.cancel(timer);
    EXPECT_FALSE(w.empty());
  }
  EXPECT_TRUE(w.empty());
}

TEST_P(wheel_idle_time_test, does_not_hide_a_live_entry_behind_a_dead_one) {
  const wheel_geometry geometry = GetParam();
  const tick turn = geometry.slots;
  for (tick ahead = 1; ahead <= 4 * turn; ++ahead) {
    int fires = 0;
    counting_entry dead{fires};
    counting_entry live{fires};
    wheel w{geometry};
    w.arm(dead, 2 * turn + ahead);
    w.cancel(dead);
    w.advance(turn * turn, 0);
    w.arm(live, turn * turn + turn + ahead);
    while (w.armed() != 0) {
      ASSERT_LE(w.next_expiry(), live.deadline());
      ASSERT_LE(w.now(), live.deadline());
      w.advance(std::max(w.next_expiry(), w.now() + 1));
    }
    ASSERT_EQ(fires, 1);
    ASSERT_EQ(w.now(), turn * turn + turn + ahead);
  }
}

// A dead link whose slot's next turn is beyond the last tick must not end the search for live ones.
TEST_P(wheel_idle_time_test, does_not_hide_a_live_entry_behind_a_dead_one_at_the_end_of_time) {
  const wheel_geometry geometry = GetParam();
  for (tick ahead = 1; ahead <= 2 * geometry.slots; ++ahead) {
    const tick origin = last_tick - 100 * tick{geometry.slots};
    int fires = 0;
    counting_entry dead{fires};
    counting_entry live{fires};
    wheel w{geometry, origin};
    w.arm(dead, origin + 10 * geometry.slots);
    w.cancel(dead);
    w.advance(origin + 10 * geometry.slots + ahead / 2, 0);
    w.arm(live, w.now() + ahead);
    ASSERT_LE(w.next_expiry(), live.deadline());
    w.advance(live.deadline());
    ASSERT_EQ(fires, 1);
  }
}

TEST_P(wheel_idle_time_test, lets_a_dead_entry_that_time_went_over_be_armed_again) {
  int fires = 0;
  counting_entry e{fires};
  wheel w{GetParam()};
  w.arm(e, 1000);
  w.cancel(e);
  w.advance(5000, 0);
  w.arm(e, 5001);
  w.advance(5001);
  EXPECT_EQ(fires, 1);
}

// Two dead links in any order and place, time skipped to anywhere, and one of them armed again where it was: whether it
// may stay in its slot or not, it is on time.
TEST(wheel_idle_time, that_is_skipped_leaves_dead_links_that_can_be_armed_where_they_are) {
  constexpr tick range = 40;
  int fires = 0;
  for (const auto& geometry :
       {wheel_geometry::hierarchical(2, 8), wheel_geometry::hierarchical(3, 4), wheel_geometry::hashed(8)})
    for (tick first = 1; first < range; ++first)
      for (tick second = 1; second < range; ++second)
        for (tick jump = 0; jump < first; ++jump) {
          counting_entry x{fires};
          counting_entry y{fires};
          wheel w{geometry};
          w.arm(x, first);
          w.arm(y, second);
          w.cancel(x);
          w.cancel(y);
          w.advance(jump, 0);
          w.arm(x, first);
          std::string why;
          ASSERT_TRUE(w.validate(&why)) << why << ": " << first << ' ' << second << ' ' << jump;
          while (w.armed() != 0) w.advance(w.next_expiry());
          ASSERT_EQ(w.now(), first) << second << ' ' << jump;
        }
}

INSTANTIATE_TEST_SUITE_P(geometries, wheel_idle_time_test,
                         testing::Values(wheel_geometry::hashed(8), wheel_geometry::hashed(256),
                                         wheel_geometry::hierarchical(3, 4), wheel_geometry::hierarchical(7, 64),
                                         wheel_geometry{}));

}  // namespace
}  // namespace tickwheel
