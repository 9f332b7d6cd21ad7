// Only the constructor allocates. If it fails to, it throws and leaks nothing.
#include "../../support/allocation_probe.hpp"
#include "../support/wheel_cases.hpp"

namespace tickwheel::test {
namespace {

class wheel_memory : public wheel_fixture {
 protected:
  static constexpr std::size_t count = 1000;

  wheel_memory() {
    for (std::size_t i = 0; i < count; ++i) deadlines.push_back(1 + i * i % 100'000);
    all.arm(0, deadlines);
  }

  template <class F>
  static void expect_no_allocation_by(F&& action) {
    const std::size_t before = allocations::count();
    action();
    EXPECT_EQ(allocations::count(), before);
  }

  ticks deadlines;
  counters all{timers, count};
};

TEST_P(wheel_memory, is_allocated_by_the_constructor) {
  const std::size_t before = allocations::count();
  ::operator delete(::operator new(1));
  EXPECT_EQ(allocations::count(), before + 1);
  wheel{geometry};
  EXPECT_GT(allocations::count(), before + 1);
}

TEST_P(wheel_memory, is_not_allocated_by_arm) {
  clear(timers);
  expect_no_allocation_by([&] { all.arm(0, deadlines); });
  EXPECT_EQ(timers.armed(), count);
}

TEST_P(wheel_memory, is_not_allocated_by_moves) {
  expect_no_allocation_by([&] {
    for (counter& c : all) timers.arm(c, c.deadline() + 1000);
    for (counter& c : all) timers.arm(c, c.deadline() / 2);
  });
}

TEST_P(wheel_memory, is_not_allocated_by_cancel_and_a_skip) {
  expect_no_allocation_by([&] { all.cancel(); });
  EXPECT_EQ(timers.armed(), 0U);
  expect_no_allocation_by([&] { timers.advance_unchecked(500'000); });
  EXPECT_TRUE(timers.empty());
}

TEST_P(wheel_memory, is_not_allocated_by_advance) {
  expect_no_allocation_by([&] {
    for (tick t = 0; t < 5000; ++t) timers.advance_unchecked(t);
    while (timers.armed() > count / 4) timers.advance_unchecked(timers.next_expiry());
    timers.advance_unchecked(60'000, 10);
    for (const tick t : {tick{200'000}, tick{1} << 60}) timers.advance_unchecked(t);
  });
  EXPECT_EQ(timers.counts().fired, count);
}

TEST_P(wheel_memory, is_not_allocated_by_for_each_armed_and_clear) {
  std::size_t seen = 0;
  expect_no_allocation_by([&] {
    timers.for_each_armed([&](wheel_entry&) { ++seen; });
    timers.clear([&](wheel_entry&) { ++seen; });
  });
  EXPECT_EQ(seen, 2 * count);
}

#if defined(__cpp_exceptions)
TEST_P(wheel_memory, is_not_leaked_by_a_constructor_that_throws) {
  const auto throws_after = [&](std::size_t spared) {
    const allocations::failure failing{spared};
    try {
      wheel{geometry};
    } catch (const std::bad_alloc&) {
      return true;
    }
    return false;
  };
  const std::size_t outstanding = allocations::outstanding();
  std::size_t refused = 0;
  for (; throws_after(refused); ++refused) ASSERT_EQ(allocations::outstanding(), outstanding) << refused;
  EXPECT_EQ(allocations::outstanding(), outstanding);
  const std::size_t before = allocations::count();
  wheel{geometry};
  EXPECT_EQ(allocations::count() - before, refused);
}
#endif

INSTANTIATE_TEST_SUITE_P(all, wheel_memory, testing::ValuesIn(cases_from(0, all_geometries())), case_name);

}  // namespace
}  // namespace tickwheel::test
