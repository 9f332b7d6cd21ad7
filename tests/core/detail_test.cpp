// The helpers of core/detail: checks, durations in nanoseconds, and random numbers for jitter.
#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/core/detail/splitmix64.hpp>

#include "../support/prelude.hpp"

#include <cmath>
#ifndef _WIN32
#include <csignal>
#endif

namespace tickwheel::detail {
namespace {

using std::chrono::duration;
using std::chrono::hours;
using std::chrono::nanoseconds;

TEST(check, does_nothing_if_the_condition_holds) { require(true, "never said"); }

#ifndef _WIN32
TEST(check, aborts_and_names_the_violated_condition) {
  EXPECT_EXIT(fail("a wheel is round"), testing::KilledBySignal(SIGABRT), "tickwheel: a wheel is round\n");
}
#endif

using thirds = duration<std::int64_t, std::ratio<1, 3>>;
using frames = duration<int, std::ratio<1, 60>>;
using fractional = duration<double, std::nano>;

TEST(nanoseconds, of_usual_durations_are_exact) {
  EXPECT_EQ(to_nanoseconds(7ns), 7ns);
  EXPECT_EQ(to_nanoseconds(7us), 7'000ns);
  EXPECT_EQ(to_nanoseconds(7ms), 7'000'000ns);
  EXPECT_EQ(to_nanoseconds(7s), 7'000'000'000ns);
  EXPECT_EQ(to_nanoseconds(2min), 120s);
  EXPECT_EQ(to_nanoseconds(5h), 18'000s);
  EXPECT_EQ(to_nanoseconds(std::chrono::days{3}), 72h);
  EXPECT_EQ(to_nanoseconds(0s), 0ns);
}

TEST(nanoseconds, of_any_integer_type_are_exact) {
  EXPECT_EQ((to_nanoseconds(duration<std::int8_t>{100})), 100s);
  EXPECT_EQ((to_nanoseconds(duration<unsigned char, std::milli>{255})), 255ms);
  EXPECT_EQ((to_nanoseconds(duration<std::uint32_t>{4'000'000'000U})), 4'000'000'000s);
  EXPECT_EQ((to_nanoseconds(duration<std::uint64_t>{5})), 5s);
  EXPECT_EQ((to_nanoseconds(duration<std::int8_t>{-100})), -100s);
}

TEST(nanoseconds, round_up_unless_they_are_whole) {
  using picoseconds = duration<std::int64_t, std::pico>;
  const std::pair<picoseconds, nanoseconds> cases[]{
      {picoseconds{1}, 1ns},  {picoseconds{999}, 1ns},  {picoseconds{1000}, 1ns},   {picoseconds{1001}, 2ns},
      {picoseconds{-1}, 0ns}, {picoseconds{-999}, 0ns}, {picoseconds{-1000}, -1ns}, {picoseconds{-1001}, -1ns}};
  for (const auto& [given, expected] : cases) EXPECT_EQ(to_nanoseconds(given), expected) << given.count();
  EXPECT_EQ(to_nanoseconds(thirds{1}), 333'333'334ns);
  EXPECT_EQ(to_nanoseconds(thirds{2}), 666'666'667ns);
  EXPECT_EQ(to_nanoseconds(thirds{3}), 1s);
  EXPECT_EQ(to_nanoseconds(thirds{4}), 1'333'333'334ns);
  EXPECT_EQ(to_nanoseconds(thirds{-1}), -333'333'333ns);
  EXPECT_EQ(to_nanoseconds(frames{1}), 16'666'667ns);
  EXPECT_EQ(to_nanoseconds(frames{60}), 1s);
}

TEST(nanoseconds, saturate_if_a_duration_is_too_long) {
  EXPECT_EQ(to_nanoseconds(hours::max()), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(hours::min()), nanoseconds::min());
  EXPECT_EQ(to_nanoseconds(std::chrono::years::max()), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(std::chrono::milliseconds::max()), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(9'223'372'037s), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(9'223'372'036s), 9'223'372'036'000'000'000ns);
  EXPECT_EQ((to_nanoseconds(duration<std::int64_t, std::giga>{10})), nanoseconds::max());
  EXPECT_EQ((to_nanoseconds(duration<std::int64_t, std::giga>{-10})), nanoseconds::min());
}

TEST(nanoseconds, are_exact_at_the_ends_of_the_range) {
  for (const nanoseconds d : {nanoseconds::max(), nanoseconds::min(), nanoseconds::max() - 1ns})
    EXPECT_EQ(to_nanoseconds(d), d);
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
  const std::pair<double, nanoseconds> cases[]{{0.25, 1ns}, {1.0, 1ns}, {1.0000001, 2ns}, {-0.25, 0ns}, {-1.75, -1ns}};
  for (const auto& [given, expected] : cases) EXPECT_EQ(to_nanoseconds(fractional{given}), expected) << given;
  EXPECT_GE((to_nanoseconds(duration<long double, std::milli>{0.000001L * 3})), 3ns);
}

TEST(nanoseconds, saturate_if_a_floating_duration_is_too_long) {
  for (const double count : {1e300, double{INFINITY}}) {
    EXPECT_EQ(to_nanoseconds(duration<double>{count}), nanoseconds::max());
    EXPECT_EQ(to_nanoseconds(duration<double>{-count}), nanoseconds::min());
  }
  EXPECT_EQ(to_nanoseconds(fractional{9223372036854775808.0}), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(duration<float>{INFINITY}), nanoseconds::max());
}

TEST(nanoseconds, are_0_for_not_a_number) {
  EXPECT_EQ(to_nanoseconds(duration<double>{NAN}), 0ns);
  EXPECT_EQ(to_nanoseconds(duration<float>{NAN}), 0ns);
}

TEST(nanoseconds, sums_saturate_at_both_ends) {
  constexpr nanoseconds max = nanoseconds::max();
  constexpr nanoseconds min = nanoseconds::min();
  const struct {
    nanoseconds a, b, sum;
  } cases[]{{1ns, 2ns, 3ns},       {1ns, -2ns, -1ns}, {max, 1ns, max}, {1ns, max, max},
            {max - 1ns, 1ns, max}, {min, -1ns, min},  {max, min, -1ns}};
  for (const auto& c : cases) EXPECT_EQ(add_saturating(c.a, c.b), c.sum);
  using point = std::chrono::steady_clock::time_point;
  EXPECT_EQ(add_saturating(point{5s}, 3s), point{8s});
  EXPECT_EQ(add_saturating(point{5s}, max), point::max());
}

TEST(nanoseconds, convert_in_constant_expressions) {
  static_assert(to_nanoseconds(1h) == 3600s);
  static_assert(to_nanoseconds(duration<double>{0.5}) == 500ms);
  SUCCEED();
}

TEST(splitmix64, gives_the_published_sequence) {
  splitmix64 random{1234567};
  for (const std::uint64_t expected :
       {6457827717110365317U, 3203168211198807973U, 9817491932198370423U, 4593380528125082431U, 16408922859458223821U})
    EXPECT_EQ(random.next(), expected);
}

TEST(splitmix64, draws_each_number_of_a_range_and_none_beyond) {
  splitmix64 random{1};
  std::array<int, 7> drawn{};
  for (int i = 0; i < 7000; ++i) {
    const auto d = random.up_to(std::uint64_t{6});
    ASSERT_LE(d, 6U);
    ++drawn[static_cast<std::size_t>(d)];
  }
  for (const int times : drawn) EXPECT_GT(times, 800);
}

TEST(splitmix64, draws_from_the_whole_range_and_from_one) {
  splitmix64 a{5};
  splitmix64 b{5};
  EXPECT_EQ(a.up_to(std::numeric_limits<std::uint64_t>::max()), b.next());
  EXPECT_EQ(a.up_to(std::uint64_t{0}), 0U);
  EXPECT_EQ(a.up_to(0ns), 0ns);
}

TEST(splitmix64, share_of_rounds_down_and_is_at_most_the_whole) {
  EXPECT_EQ(share_of(10ns, 0.25), 2ns);
  EXPECT_EQ(share_of(10ns, 0), 0ns);
  EXPECT_EQ(share_of(10ns, 1), 10ns);
  for (const auto whole : {std::chrono::nanoseconds::max(), std::chrono::nanoseconds::max() - 1ns,
                           std::chrono::nanoseconds{(std::int64_t{1} << 53) + 1}})
    EXPECT_EQ(share_of(whole, 1), whole);
  EXPECT_LT(share_of(std::chrono::nanoseconds::max(), 0.5), std::chrono::nanoseconds::max() / 2 + 2ns);
}

TEST(splitmix64, seed_of_differs_between_objects) {
  const int a = 0;
  const int b = 0;
  EXPECT_NE(seed_of(&a), seed_of(&b));
}

}  // namespace
}  // namespace tickwheel::detail
