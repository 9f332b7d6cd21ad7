// Durations to ticks and back: deadlines round up, the present rounds down.
#include <tickwheel/core/ticks.hpp>

#include <gtest/gtest.h>

namespace tickwheel::test {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

TEST(ticks_test, a_tick_is_the_longest_power_of_two_that_is_no_longer_than_wanted) {
  EXPECT_EQ(tick_length::at_most(1ns).duration(), 1ns);
  EXPECT_EQ(tick_length::at_most(2ns).duration(), 2ns);
  EXPECT_EQ(tick_length::at_most(3ns).duration(), 2ns);
  EXPECT_EQ(tick_length::at_most(1ms).duration(), 524'288ns);
  EXPECT_EQ(tick_length::at_most(131'071ns).duration(), 65'536ns);
  EXPECT_EQ(tick_length::at_most(131'072ns).duration(), 131'072ns);
  EXPECT_EQ(tick_length::at_most(131'073ns).duration(), 131'072ns);
  EXPECT_EQ(tick_length::at_most(nanoseconds::max()).duration(), nanoseconds{1LL << 62});
}

TEST(ticks_test, a_length_asked_for_again_is_the_same) {
  for (unsigned shift = 0; shift <= 62; ++shift) {
    const nanoseconds length{1LL << shift};
    EXPECT_EQ(tick_length::at_most(length).duration(), length);
  }
}

TEST(ticks_test, ceil_is_the_first_tick_that_begins_at_or_after) {
  constexpr auto length = tick_length::at_most(1024ns);
  EXPECT_EQ(length.ceil(0ns), 0U);
  EXPECT_EQ(length.ceil(1ns), 1U);
  EXPECT_EQ(length.ceil(1023ns), 1U);
  EXPECT_EQ(length.ceil(1024ns), 1U);
  EXPECT_EQ(length.ceil(1025ns), 2U);
}

TEST(ticks_test, floor_is_the_tick_that_is_running) {
  constexpr auto length = tick_length::at_most(1024ns);
  EXPECT_EQ(length.floor(0ns), 0U);
  EXPECT_EQ(length.floor(1023ns), 0U);
  EXPECT_EQ(length.floor(1024ns), 1U);
  EXPECT_EQ(length.floor(2047ns), 1U);
  EXPECT_EQ(length.floor(2048ns), 2U);
}

TEST(ticks_test, what_lies_before_the_origin_is_tick_0) {
  constexpr auto length = tick_length::at_most(1024ns);
  for (const nanoseconds before : {-1ns, -1024ns, -5000ns, nanoseconds::min()}) {
    EXPECT_EQ(length.ceil(before), 0U);
    EXPECT_EQ(length.floor(before), 0U);
  }
}

TEST(ticks_test, ceil_is_never_early_and_floor_never_late) {
  for (unsigned shift = 0; shift <= 62; ++shift) {
    const auto length = tick_length::at_most(nanoseconds{1LL << shift});
    for (const nanoseconds at : {1ns, 999ns, nanoseconds{(1LL << shift) - 1}, nanoseconds{1LL << shift},
                                 nanoseconds{(1LL << 61) + 12345}, nanoseconds::max()}) {
      EXPECT_GE(length.begin_of(length.ceil(at)), at);
      EXPECT_LE(length.begin_of(length.floor(at)), at);
      EXPECT_LE(length.ceil(at) - length.floor(at), 1U);
    }
  }
}

TEST(ticks_test, begin_of_undoes_floor_and_ceil) {
  constexpr auto length = tick_length::at_most(131'072ns);
  for (const tick t : {tick{0}, tick{1}, tick{2}, tick{1} << 40}) {
    EXPECT_EQ(length.floor(length.begin_of(t)), t);
    EXPECT_EQ(length.ceil(length.begin_of(t)), t);
  }
}

TEST(ticks_test, begin_of_saturates) {
  constexpr auto length = tick_length::at_most(131'072ns);
  constexpr tick last = (tick{1} << (63 - 17)) - 1;
  EXPECT_EQ(length.begin_of(last), nanoseconds{static_cast<std::int64_t>(last << 17)});
  EXPECT_EQ(length.begin_of(last + 1), nanoseconds::max());
  EXPECT_EQ(length.begin_of(last_tick), nanoseconds::max());
  EXPECT_EQ(length.begin_of(never), nanoseconds::max());
}

TEST(ticks_test, no_duration_reaches_the_end_of_ticks) {
  EXPECT_LT(tick_length::at_most(1ns).ceil(nanoseconds::max()), last_tick);
}

TEST(ticks_test, conversions_are_constant_expressions) {
  constexpr auto length = tick_length::at_most(1ms);
  static_assert(length.ceil(1ms) == 2);
  static_assert(length.floor(1ms) == 1);
  static_assert(length.begin_of(2) == 1'048'576ns);
  SUCCEED();
}

}  // namespace
}  // namespace tickwheel::test
