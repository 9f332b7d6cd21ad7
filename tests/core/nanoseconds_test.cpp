// Any duration to nanoseconds: rounded up, saturating.
#include <tickwheel/core/detail/nanoseconds.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace tickwheel::detail {
namespace {

using std::chrono::duration;
using std::chrono::hours;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

using picoseconds = duration<std::int64_t, std::pico>;

TEST(nanoseconds, usual_durations_are_exact) {
  EXPECT_EQ(to_nanoseconds(7ns), 7ns);
  EXPECT_EQ(to_nanoseconds(7us), 7'000ns);
  EXPECT_EQ(to_nanoseconds(7ms), 7'000'000ns);
  EXPECT_EQ(to_nanoseconds(7s), 7'000'000'000ns);
  EXPECT_EQ(to_nanoseconds(2min), 120s);
  EXPECT_EQ(to_nanoseconds(5h), 18'000s);
  EXPECT_EQ(to_nanoseconds(std::chrono::days{3}), 72h);
  EXPECT_EQ(to_nanoseconds(0s), 0ns);
}

TEST(nanoseconds, accept_any_integer_type) {
  EXPECT_EQ((to_nanoseconds(duration<std::int8_t>{100})), 100s);
  EXPECT_EQ((to_nanoseconds(duration<unsigned char, std::milli>{255})), 255ms);
  EXPECT_EQ((to_nanoseconds(duration<std::uint32_t>{4'000'000'000U})), 4'000'000'000s);
  EXPECT_EQ((to_nanoseconds(duration<std::uint64_t>{5})), 5s);
  EXPECT_EQ((to_nanoseconds(duration<std::int8_t>{-100})), -100s);
}

TEST(nanoseconds, round_a_part_of_a_nanosecond_up) {
  EXPECT_EQ(to_nanoseconds(picoseconds{1}), 1ns);
  EXPECT_EQ(to_nanoseconds(picoseconds{999}), 1ns);
  EXPECT_EQ(to_nanoseconds(picoseconds{1000}), 1ns);
  EXPECT_EQ(to_nanoseconds(picoseconds{1001}), 2ns);
  EXPECT_EQ(to_nanoseconds(picoseconds{-1}), 0ns);
  EXPECT_EQ(to_nanoseconds(picoseconds{-999}), 0ns);
  EXPECT_EQ(to_nanoseconds(picoseconds{-1000}), -1ns);
  EXPECT_EQ(to_nanoseconds(picoseconds{-1001}), -1ns);
}

TEST(nanoseconds, round_up_if_the_period_is_no_multiple) {
  using thirds = duration<std::int64_t, std::ratio<1, 3>>;
  EXPECT_EQ(to_nanoseconds(thirds{1}), 333'333'334ns);
  EXPECT_EQ(to_nanoseconds(thirds{2}), 666'666'667ns);
  EXPECT_EQ(to_nanoseconds(thirds{3}), 1s);
  EXPECT_EQ(to_nanoseconds(thirds{4}), 1'333'333'334ns);
  EXPECT_EQ(to_nanoseconds(thirds{-1}), -333'333'333ns);
  using frames = duration<int, std::ratio<1, 60>>;
  EXPECT_EQ(to_nanoseconds(frames{1}), 16'666'667ns);
  EXPECT_EQ(to_nanoseconds(frames{60}), 1s);
}

TEST(nanoseconds, saturate_if_a_duration_is_too_long) {
  EXPECT_EQ(to_nanoseconds(hours::max()), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(hours::min()), nanoseconds::min());
  EXPECT_EQ(to_nanoseconds(std::chrono::years::max()), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(std::chrono::milliseconds::max()), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(std::chrono::seconds{9'223'372'037}), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(std::chrono::seconds{9'223'372'036}), 9'223'372'036'000'000'000ns);
  EXPECT_EQ((to_nanoseconds(duration<std::int64_t, std::giga>{10})), nanoseconds::max());
  EXPECT_EQ((to_nanoseconds(duration<std::int64_t, std::giga>{-10})), nanoseconds::min());
}

TEST(nanoseconds, are_exact_at_the_ends_of_the_range) {
  EXPECT_EQ(to_nanoseconds(nanoseconds::max()), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(nanoseconds::min()), nanoseconds::min());
  EXPECT_EQ(to_nanoseconds(nanoseconds::max() - 1ns), nanoseconds::max() - 1ns);
}

TEST(nanoseconds, saturate_if_an_unsigned_count_is_too_large) {
  EXPECT_EQ((to_nanoseconds(duration<std::uint64_t, std::nano>{~0ULL})), nanoseconds::max());
  EXPECT_EQ((to_nanoseconds(duration<std::uint64_t>{~0ULL})), nanoseconds::max());
  EXPECT_EQ((to_nanoseconds(duration<std::uint64_t, std::nano>{1ULL << 63})), nanoseconds::max());
}

TEST(nanoseconds, never_shorten_an_unsigned_count) {
  EXPECT_GE((to_nanoseconds(duration<std::uint64_t, std::pico>{~0ULL})), 18'446'744'073'709'552ns);
  EXPECT_GE((to_nanoseconds(duration<std::uint64_t, std::pico>{(1ULL << 63) + 1000})), 9'223'372'036'854'777ns);
}

TEST(nanoseconds, round_a_floating_point_duration_up) {
  EXPECT_EQ(to_nanoseconds(duration<double>{1.5}), 1'500'000'000ns);
  EXPECT_EQ(to_nanoseconds(duration<float>{0.5F}), 500'000'000ns);
  EXPECT_EQ((to_nanoseconds(duration<double, std::nano>{0.25})), 1ns);
  EXPECT_EQ((to_nanoseconds(duration<double, std::nano>{1.0})), 1ns);
  EXPECT_EQ((to_nanoseconds(duration<double, std::nano>{1.0000001})), 2ns);
  EXPECT_EQ((to_nanoseconds(duration<double, std::nano>{-0.25})), 0ns);
  EXPECT_EQ((to_nanoseconds(duration<double, std::nano>{-1.75})), -1ns);
  EXPECT_GE((to_nanoseconds(duration<long double, std::milli>{0.000001L * 3})), 3ns);
}

TEST(nanoseconds, saturate_if_a_floating_duration_is_too_long) {
  EXPECT_EQ(to_nanoseconds(duration<double>{1e300}), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(duration<double>{-1e300}), nanoseconds::min());
  EXPECT_EQ((to_nanoseconds(duration<double, std::nano>{9223372036854775808.0})), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(duration<double>{INFINITY}), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(duration<double>{-INFINITY}), nanoseconds::min());
  EXPECT_EQ(to_nanoseconds(duration<float>{INFINITY}), nanoseconds::max());
}

TEST(nanoseconds, are_0_for_not_a_number) {
  EXPECT_EQ(to_nanoseconds(duration<double>{NAN}), 0ns);
  EXPECT_EQ(to_nanoseconds(duration<float>{NAN}), 0ns);
}

TEST(nanoseconds, sums_saturate_at_both_ends) {
  EXPECT_EQ(add_saturating(1ns, 2ns), 3ns);
  EXPECT_EQ(add_saturating(1ns, -2ns), -1ns);
  EXPECT_EQ(add_saturating(nanoseconds::max(), 1ns), nanoseconds::max());
  EXPECT_EQ(add_saturating(1ns, nanoseconds::max()), nanoseconds::max());
  EXPECT_EQ(add_saturating(nanoseconds::max() - 1ns, 1ns), nanoseconds::max());
  EXPECT_EQ(add_saturating(nanoseconds::min(), -1ns), nanoseconds::min());
  EXPECT_EQ(add_saturating(nanoseconds::max(), nanoseconds::min()), -1ns);
}

TEST(nanoseconds, sums_with_a_time_point_saturate) {
  using point = std::chrono::steady_clock::time_point;
  EXPECT_EQ(add_saturating(point{5s}, 3s), point{8s});
  EXPECT_EQ(add_saturating(point{5s}, nanoseconds::max()), point::max());
}

TEST(nanoseconds, convert_in_constant_expressions) {
  static_assert(to_nanoseconds(1h) == 3600s);
  static_assert(to_nanoseconds(duration<double>{0.5}) == 500ms);
  SUCCEED();
}

}  // namespace
}  // namespace tickwheel::detail
