// The moments at which handlers begin: counts that become times.
#include "../support/still_driver.hpp"

#include <tickwheel/uv/detail/handler_clock.hpp>

#include <gtest/gtest.h>

using namespace std::chrono_literals;
using tickwheel::detail::counted_stretch;
using tickwheel::detail::cycle_counter;
using tickwheel::detail::handler_clock;

namespace {

constexpr tickwheel::clock::time_point start{1h};

counted_stretch stretch_of(std::chrono::nanoseconds length, std::int64_t from, std::int64_t to) {
  counted_stretch s;
  s.begin(start, from);
  s.end(start + length, to);
  return s;
}

TEST(counted_stretch, divides_its_time_by_counts) {
  const counted_stretch s = stretch_of(1ms, 5'000, 9'000);
  EXPECT_EQ(s.time_of(5'000), start);
  EXPECT_EQ(s.time_of(6'000), start + 250us);
  EXPECT_EQ(s.time_of(9'000), start + 1ms);
}

TEST(counted_stretch, is_exact_when_counts_are_nanoseconds) {
  const counted_stretch s = stretch_of(1h, 0, 3'600'000'000'000);
  EXPECT_EQ(s.time_of(1'234'567'890'123), start + 1'234'567'890'123ns);
}

TEST(counted_stretch, counts_outside_are_its_ends) {
  const counted_stretch s = stretch_of(1ms, 5'000, 9'000);
  EXPECT_EQ(s.time_of(4'999), start);
  EXPECT_EQ(s.time_of(1'000'000), start + 1ms);
}

TEST(counted_stretch, counter_that_goes_back_counts_nothing) {
  const counted_stretch s = stretch_of(1ms, 9'000, 5'000);
  EXPECT_EQ(s.time_of(8'000), start);
  EXPECT_EQ(s.time_of(9'500), start);
}

TEST(counted_stretch, clock_that_goes_back_counts_nothing) {
  EXPECT_EQ(stretch_of(-1ms, 5'000, 9'000).time_of(7'000), start);
}

TEST(counted_stretch, times_of_the_longest_are_within_it) {
  constexpr auto end = tickwheel::clock::time_point::max();
  const counted_stretch s = stretch_of(end - start, 0, 1'000);
  EXPECT_EQ(s.time_of(0), start);
  EXPECT_GT(s.time_of(1'000), start + 24h * 365 * 100);
  EXPECT_LE(s.time_of(1'000), end);
}

constexpr std::uint64_t as_good_as_never = std::uint64_t{1} << 62;

TEST(counted_stretch, tells_by_the_stretch_before_when_time_will_have_passed) {
  counted_stretch s = stretch_of(1ms, 5'000, 9'000);
  s.begin(start + 2ms, 20'000);
  EXPECT_EQ(s.moment_after(1ms), 24'000U);
  EXPECT_EQ(s.moment_after(0ns), 20'000U);
}

TEST(counted_stretch, knows_no_moment_before_time_has_passed) {
  counted_stretch s;
  s.begin(start, 5'000);
  EXPECT_GE(s.moment_after(0ns), as_good_as_never);
  s.end(start, 9'000);
  s.begin(start, 9'000);
  EXPECT_GE(s.moment_after(1ns), as_good_as_never);
  EXPECT_GE(stretch_of(1h, 5'000, 5'001).moment_after(0ns), 5'000U);
  EXPECT_GE(stretch_of(1ms, 5'000, 9'000'000).moment_after(std::chrono::nanoseconds::max()), as_good_as_never);
}

TEST(counted_stretch, keeps_its_rate_while_nothing_is_counted) {
  counted_stretch s = stretch_of(1ms, 5'000, 9'000);
  s.begin(start + 1ms, 9'000);
  s.end(start + 1ms, 9'000);
  s.begin(start + 2ms, 10'000);
  EXPECT_EQ(s.moment_after(1ms), 14'000U);
}

TEST(handler_clock_test, manual_clock_counts_nanoseconds_from_the_first_stretch_on) {
  still_driver loop;
  handler_clock clock;
  clock.open(loop);
  clock.begin(loop.time);
  const std::uint64_t later = clock.moment_after(1ms);
  loop.time += 1ms;
  EXPECT_LT(static_cast<std::uint64_t>(clock.now()), later);
  loop.time += 1ns;
  EXPECT_EQ(static_cast<std::uint64_t>(clock.now()), later);
}

TEST(handler_clock_test, manual_clock_is_exact) {
  still_driver loop;
  handler_clock clock;
  clock.open(loop);
  clock.begin(loop.time);
  loop.time += 3ms + 1ns;
  const auto at = clock.now();
  loop.time += 7ms;
  clock.end(loop.time);
  EXPECT_EQ(clock.time_of(at), loop.time - 7ms);
}

TEST(cycle_counter, grows_while_time_passes) {
  if (!cycle_counter::is_steady()) GTEST_SKIP() << "this processor has none, or the build does not use it";
  const auto before = cycle_counter::read();
  const auto end = tickwheel::clock::now() + 1ms;
  while (tickwheel::clock::now() < end) {
  }
  EXPECT_GT(cycle_counter::read(), before);
}

}  // namespace
