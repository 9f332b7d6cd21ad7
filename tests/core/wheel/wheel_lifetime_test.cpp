// The lifetime of entries and wheels: either may be destroyed first.
#include "../support/wheel_cases.hpp"

#include <set>

namespace tickwheel::test {
namespace {

class lifetime : public wheel_fixture {
 protected:
  // Cancels every third of them.
  void arm_pairs_and_cancel_some() {
    for (std::size_t i = 0; i < pairs.size(); ++i) timers.arm(pairs[i], origin + delays[i / 2]);
    pairs.cancel(0, 3);
  }
  std::multiset<wheel_entry*> armed() {
    std::multiset<wheel_entry*> found;
    for (probe& p : pairs)
      if (p.armed()) found.insert(&p);
    return found;
  }

  const tick last = origin + delays.back();
  probe timer{timers};
  probes pairs{timers, 2 * delays.size()};
};

TEST_P(lifetime, destroyed_wheel_detaches_every_entry_and_runs_none) {
  {
    wheel dying{geometry, origin};
    for (std::size_t i = 0; i < pairs.size(); ++i) dying.arm(pairs[i], origin + delays[i / 2]);
    for (std::size_t i = 0; i < pairs.size(); i += 3) dying.cancel(pairs[i]);
  }
  for (probe& p : pairs) {
    EXPECT_FALSE(p.armed());
    EXPECT_EQ(p.deadline(), never);
  }
  EXPECT_EQ(pairs.fired(), 0U);
}

TEST_P(lifetime, entry_may_outlive_its_wheel_and_be_armed_again) {
  wheel{geometry, origin}.arm(timer, origin + 5);
  EXPECT_FALSE(timer.armed());
  timers.arm(timer, origin + 7);
  EXPECT_TRUE(valid(timers));
  timers.advance(origin + 7);
  EXPECT_EQ(timer.fired(), 1U);
}

TEST_P(lifetime, cancelled_entry_may_be_destroyed_while_it_is_linked) {
  timers.arm(timer, last);
  for (const tick delay : delays) {
    probe cancelled{timers};
    timers.arm(cancelled, origin + delay);
    timers.cancel(cancelled);
  }
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.advance(last).ran, 1U);
  EXPECT_TRUE(timers.empty());
}

TEST_P(lifetime, entry_that_fired_may_be_destroyed) {
  probes one{timers, 1};
  one.arm(origin + 1);
  timers.advance(origin + 1);
  one.destroy();
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.advance(last).ran, 0U);
}

TEST_P(lifetime, entry_may_be_destroyed_while_its_slot_is_emptied) {
  std::deque<probe> all;
  for (std::size_t i = 0; i < 300; ++i) timers.arm(all.emplace_back(timers), last);
  while (all.size() > 1 && timers.next_expiry() < last) {
    timers.advance(timers.next_expiry(), 10);
    all.pop_back();
    all.pop_front();
    ASSERT_TRUE(valid(timers));
  }
  timers.advance(last, 10);
  EXPECT_LE(timers.counts().fired, 10U);
  all.clear();
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.armed(), 0U);
}

TEST_P(lifetime, clear_disposes_of_each_armed_entry_once) {
  arm_pairs_and_cancel_some();
  const std::multiset<wheel_entry*> expected = armed();
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
  EXPECT_EQ(timers.advance(last).ran, 0U);
}

TEST_P(lifetime, dispose_may_destroy_its_entry) {
  for (const tick delay : delays) timers.arm(*new probe{timers}, origin + delay);
  std::size_t disposed = 0;
  timers.clear([&](wheel_entry& e) {
    delete static_cast<probe*>(&e);
    ++disposed;
  });
  EXPECT_EQ(disposed, delays.size());
  EXPECT_TRUE(valid(timers));
}

TEST_P(lifetime, dispose_may_destroy_other_entries) {
  pairs.arm(origin, delays);
  std::size_t disposed = 0;
  timers.clear([&](wheel_entry&) {
    pairs.destroy();
    ++disposed;
  });
  EXPECT_EQ(disposed, 1U);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.armed(), 0U);
}

TEST_P(lifetime, cleared_wheel_keeps_time) {
  for (const tick delay : delays) {
    timers.arm(timer, timers.now() + delays.back());
    clear(timers);
    timers.arm(timer, timers.now() + delay);
    EXPECT_TRUE(valid(timers));
    expect_ran(timers, {{timers.now() + delay - 1, 0}, {timers.now() + delay, 1}});
  }
}

TEST_P(lifetime, clear_disposes_of_all_while_a_slot_is_emptied) {
  probes all{timers, 1000};
  all.arm(last - 1, 2);
  timers.advance(std::min(timers.next_expiry(), last - 2), 300);
  std::size_t disposed = 0;
  timers.clear([&](wheel_entry&) { ++disposed; });
  EXPECT_EQ(disposed, 1000U);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
}

TEST_P(lifetime, for_each_armed_visits_each_armed_entry_once) {
  for (std::size_t i = 0; i < pairs.size(); ++i) timers.arm(pairs[i], origin + delays[i / 2]);
  timers.advance(origin + delays[delays.size() / 2], 5);  // some in a slot that is being emptied
  pairs.cancel(0, 3);
  std::multiset<wheel_entry*> seen;
  const auto visit = [&](wheel_entry& e) { seen.insert(&e); };
  timers.for_each_armed(visit);  // const
  EXPECT_EQ(seen, armed());
  EXPECT_EQ(seen.size(), timers.armed());
}

TEST_P(lifetime, for_each_armed_may_cancel_entries) {
  pairs.arm(origin, delays);
  timers.for_each_armed([&](wheel_entry& e) { timers.cancel(e); });
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_TRUE(valid(timers));
}

INSTANTIATE_TEST_SUITE_P(all, lifetime, testing::ValuesIn(cases_from(1000, all_geometries())), case_name);

TEST(wheel_entry, stops_the_process_if_it_is_destroyed_while_armed) {
  EXPECT_DEATH(
      {
        wheel timers;
        wheel_entry timer{[](wheel_entry&) noexcept {}};
        timers.arm(timer, 1);
      },
      "destroyed while armed");
}

TEST(wheel_entry, neither_copies_nor_moves) {
  EXPECT_FALSE(std::is_copy_constructible_v<wheel_entry>);
  EXPECT_FALSE(std::is_move_constructible_v<wheel_entry>);
  EXPECT_FALSE(std::is_copy_assignable_v<wheel_entry>);
  EXPECT_FALSE(std::is_move_assignable_v<wheel_entry>);
}

TEST(wheel_entry, takes_at_most_40_bytes) {
  if (sizeof(void*) == 8) {
    EXPECT_LE(sizeof(wheel_entry), 40U);
  }
}

}  // namespace
}  // namespace tickwheel::test
