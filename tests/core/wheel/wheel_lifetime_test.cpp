// Who may go when: entries before their wheel, wheels before their entries.
#include "../support/probe.hpp"
#include "../support/wheel_cases.hpp"

#include <gmock/gmock.h>

#include <memory>
#include <set>

namespace tickwheel::test {
namespace {

using testing::UnorderedElementsAreArray;

class wheel_lifetime_test : public testing::TestWithParam<wheel_geometry> {
 protected:
  const wheel_geometry geometry = GetParam();
  const std::vector<tick> delays = delays_of_interest(geometry);
  const tick origin = 1000;
  std::unique_ptr<wheel> owned = std::make_unique<wheel>(geometry, origin);
  wheel& timers = *owned;
};

TEST_P(wheel_lifetime_test, destroying_a_wheel_detaches_every_entry_and_runs_nothing) {
  probes all{timers, 2 * delays.size()};
  for (std::size_t i = 0; i < all.size(); ++i) timers.arm(all[i], origin + delays[i / 2]);
  for (std::size_t i = 0; i < all.size(); i += 3) timers.cancel(all[i]);
  owned.reset();
  for (probe& p : all) {
    EXPECT_FALSE(p.armed());
    EXPECT_EQ(p.deadline(), never);
  }
  EXPECT_EQ(all.fired(), 0U);
}

TEST_P(wheel_lifetime_test, an_entry_that_outlives_its_wheel_can_be_armed_in_another) {
  wheel_entry* fired = nullptr;
  struct entry : wheel_entry {
    explicit entry(wheel_entry*& out)
        : wheel_entry{[](wheel_entry& e) noexcept { *static_cast<entry&>(e).fired = &e; }}, fired{&out} {}
    wheel_entry** fired;
  } timer{fired};
  timers.arm(timer, origin + 5);
  owned.reset();
  wheel other{geometry};
  other.arm(timer, 7);
  EXPECT_TRUE(valid(other));
  other.advance(7);
  EXPECT_EQ(fired, &timer);
}

TEST_P(wheel_lifetime_test, a_cancelled_entry_may_be_destroyed_while_it_is_still_linked) {
  probe stays{timers};
  timers.arm(stays, origin + delays.back());
  for (const tick delay : delays) {
    probe timer{timers};
    timers.arm(timer, origin + delay);
    timers.cancel(timer);
  }
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.advance(origin + delays.back()).ran, 1U);
  EXPECT_TRUE(timers.empty());
}

TEST_P(wheel_lifetime_test, an_entry_that_fired_may_be_destroyed) {
  {
    probe timer{timers};
    timers.arm(timer, origin + 1);
    timers.advance(origin + 1);
  }
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.advance(origin + delays.back()).ran, 0U);
}

TEST_P(wheel_lifetime_test, an_entry_may_be_destroyed_while_its_slot_is_being_emptied) {
  std::vector<std::unique_ptr<probe>> all;
  for (std::size_t i = 0; i < 300; ++i) {
    all.push_back(std::make_unique<probe>(timers));
    timers.arm(*all[i], origin + delays.back());
  }
  while (all.size() > 1 && timers.next_expiry() < origin + delays.back()) {
    timers.advance(timers.next_expiry(), 10);
    all.pop_back();
    all.erase(all.begin());
    ASSERT_TRUE(valid(timers));
  }
  timers.advance(origin + delays.back(), 10);
  const std::uint64_t ran = timers.counts().fired;
  EXPECT_LE(ran, 10U);
  all.clear();
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.armed(), 0U);
}

TEST_P(wheel_lifetime_test, clear_hands_out_each_armed_entry_once_and_unarmed) {
  probes all{timers, 2 * delays.size()};
  for (std::size_t i = 0; i < all.size(); ++i) timers.arm(all[i], origin + delays[i / 2]);
  std::multiset<wheel_entry*> expected;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 3 == 0)
      timers.cancel(all[i]);
    else
      expected.insert(&all[i]);
  }
  std::multiset<wheel_entry*> disposed;
  timers.clear([&](wheel_entry& e) {
    EXPECT_FALSE(e.armed());
    disposed.insert(&e);
  });
  EXPECT_EQ(disposed, expected);
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_TRUE(timers.empty());
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.advance(origin + delays.back()).ran, 0U);
}

TEST_P(wheel_lifetime_test, dispose_may_destroy_the_entry_it_is_given) {
  for (const tick delay : delays) timers.arm(*new probe{timers}, origin + delay);
  std::size_t disposed = 0;
  timers.clear([&](wheel_entry& e) {
    delete static_cast<probe*>(&e);
    ++disposed;
  });
  EXPECT_EQ(disposed, delays.size());
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel_lifetime_test, dispose_may_destroy_others) {
  std::vector<std::unique_ptr<probe>> all;
  for (const tick delay : delays) timers.arm(*all.emplace_back(std::make_unique<probe>(timers)), origin + delay);
  std::size_t disposed = 0;
  timers.clear([&](wheel_entry&) {
    all.clear();
    ++disposed;
  });
  EXPECT_EQ(disposed, 1U);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.armed(), 0U);
}

TEST_P(wheel_lifetime_test, a_cleared_wheel_goes_on) {
  probe timer{timers};
  for (const tick delay : delays) {
    timers.arm(timer, timers.now() + delays.back());
    timers.clear([](wheel_entry&) noexcept {});
    timers.arm(timer, timers.now() + delay);
    EXPECT_TRUE(valid(timers));
    EXPECT_EQ(timers.advance(timers.now() + delay - 1).ran, 0U);
    EXPECT_EQ(timers.advance(timers.now() + 1).ran, 1U);
  }
}

TEST_P(wheel_lifetime_test, clear_in_mid_drain_hands_out_everything) {
  probes all{timers, 1000};
  for (std::size_t i = 0; i < 1000; ++i) timers.arm(all[i], origin + delays.back() - i % 2);
  timers.advance(std::min(timers.next_expiry(), origin + delays.back() - 2), 300);
  std::size_t disposed = 0;
  timers.clear([&](wheel_entry&) { ++disposed; });
  EXPECT_EQ(disposed, 1000U);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel_lifetime_test, for_each_armed_visits_each_armed_entry_once) {
  probes all{timers, 2 * delays.size()};
  std::vector<wheel_entry*> expected;
  for (std::size_t i = 0; i < all.size(); ++i) timers.arm(all[i], origin + delays[i / 2]);
  timers.advance(origin + delays[delays.size() / 2], 5);  // some in a slot that is being emptied
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 3 == 0) timers.cancel(all[i]);
    if (all[i].armed()) expected.push_back(&all[i]);
  }
  std::vector<wheel_entry*> seen;
  timers.for_each_armed([&](wheel_entry& e) { seen.push_back(&e); });
  EXPECT_THAT(seen, UnorderedElementsAreArray(expected));
  EXPECT_EQ(seen.size(), timers.armed());
}

TEST_P(wheel_lifetime_test, entries_may_be_cancelled_within_for_each_armed) {
  probes all{timers, delays.size()};
  for (std::size_t i = 0; i < all.size(); ++i) timers.arm(all[i], origin + delays[i]);
  timers.for_each_armed([&](wheel_entry& e) { timers.cancel(e); });
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel_lifetime_test, for_each_armed_takes_a_const_function) {
  probe timer{timers};
  timers.arm(timer, origin + 3);
  std::size_t seen = 0;
  const auto count = [&](wheel_entry&) { ++seen; };
  timers.for_each_armed(count);
  EXPECT_EQ(seen, 1U);
}

INSTANTIATE_TEST_SUITE_P(all, wheel_lifetime_test, testing::ValuesIn(all_geometries()), geometry_name);

TEST(wheel_lifetime_death_test, destroying_an_armed_entry_aborts_and_says_why) {
  EXPECT_DEATH(
      {
        wheel timers;
        wheel_entry timer{[](wheel_entry&) noexcept {}};
        timers.arm(timer, 1);
      },
      "destroyed while armed");
}

TEST(wheel_entry_test, an_entry_neither_copies_nor_moves) {
  EXPECT_FALSE(std::is_copy_constructible_v<wheel_entry>);
  EXPECT_FALSE(std::is_move_constructible_v<wheel_entry>);
  EXPECT_FALSE(std::is_copy_assignable_v<wheel_entry>);
  EXPECT_FALSE(std::is_move_assignable_v<wheel_entry>);
}

}  // namespace
}  // namespace tickwheel::test
