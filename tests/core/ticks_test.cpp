// Durations to ticks and back: deadlines round up, the current time rounds down.
#include <tickwheel/core/ticks.hpp>

#include <gtest/gtest.h>

namespace tickwheel::test {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr auto length = tick_length::at_most(1024ns);

TEST(tick_length, is_the_longest_power_of_two_that_is_not_longer) {
  const struct {
    nanoseconds wanted, length;
  } cases[]{{1ns, 1ns},
            {2ns, 2ns},
            {3ns, 2ns},
            {1ms, 524'288ns},
            {131'071ns, 65'536ns},
            {131'072ns, 131'072ns},
            {131'073ns, 131'072ns},
            {nanoseconds::max(), nanoseconds{1LL << 62}}};
  for (const auto& c : cases) EXPECT_EQ(tick_length::at_most(c.wanted).duration(), c.length);
  for (unsigned shift = 0; shift <= 62; ++shift)
    EXPECT_EQ(tick_length::at_most(nanoseconds{1LL << shift}).duration(), nanoseconds{1LL << shift});
}

TEST(tick_length, ceil_is_the_first_tick_that_begins_at_or_after) {
  EXPECT_EQ(length.ceil(0ns), 0U);
  for (const auto at : {1ns, 1023ns, 1024ns}) EXPECT_EQ(length.ceil(at), 1U);
  EXPECT_EQ(length.ceil(1025ns), 2U);
}

TEST(tick_length, floor_is_the_running_tick) {
  for (const auto at : {0ns, 1023ns}) EXPECT_EQ(length.floor(at), 0U);
  for (const auto at : {1024ns, 2047ns}) EXPECT_EQ(length.floor(at), 1U);
  EXPECT_EQ(length.floor(2048ns), 2U);
}

TEST(tick_length, ceil_and_floor_are_0_before_the_origin) {
  for (const nanoseconds before : {-1ns, -1024ns, -5000ns, nanoseconds::min()}) {
    EXPECT_EQ(length.ceil(before), 0U);
    EXPECT_EQ(length.floor(before), 0U);
  }
}

TEST(tick_length, ceil_is_never_early_and_floor_never_late) {
  for (unsigned shift = 0; shift <= 62; ++shift) {
    const auto any = tick_length::at_most(nanoseconds{1LL << shift});
    for (const nanoseconds at : {1ns, 999ns, nanoseconds{(1LL << shift) - 1}, nanoseconds{1LL << shift},
                                 nanoseconds{(1LL << 61) + 12345}, nanoseconds::max()}) {
      EXPECT_GE(any.begin_of(any.ceil(at)), at);
      EXPECT_LE(any.begin_of(any.floor(at)), at);
      EXPECT_LE(any.ceil(at) - any.floor(at), 1U);
    }
  }
}

TEST(tick_length, begin_of_inverts_floor_and_ceil) {
  constexpr auto longer = tick_length::at_most(131'072ns);
  for (const tick t : {tick{0}, tick{1}, tick{2}, tick{1} << 40}) {
    EXPECT_EQ(longer.floor(longer.begin_of(t)), t);
    EXPECT_EQ(longer.ceil(longer.begin_of(t)), t);
  }
}

TEST(tick_length, begin_of_saturates) {
  constexpr auto longer = tick_length::at_most(131'072ns);
  constexpr tick last = (tick{1} << (63 - 17)) - 1;
  EXPECT_EQ(longer.begin_of(last), nanoseconds{static_cast<std::int64_t>(last << 17)});
  for (const tick beyond : {last + 1, last_tick, never}) EXPECT_EQ(longer.begin_of(beyond), nanoseconds::max());
}

TEST(tick_length, no_duration_reaches_the_last_tick) {
  EXPECT_LT(tick_length::at_most(1ns).ceil(nanoseconds::max()), last_tick);
}

TEST(tick_length, converts_in_constant_expressions) {
  constexpr auto half = tick_length::at_most(1ms);
  static_assert(half.ceil(1ms) == 2);
  static_assert(half.floor(1ms) == 1);
  static_assert(half.begin_of(2) == 1'048'576ns);
  SUCCEED();
}

}  // namespace
}  // namespace tickwheel::test
