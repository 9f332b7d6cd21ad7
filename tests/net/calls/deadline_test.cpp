// A deadline is a value: no service, no loop.
#include <tickwheel/net/deadline.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <type_traits>

using namespace std::chrono_literals;

namespace {

using std::chrono::nanoseconds;
using tickwheel::deadline;
using time_point = tickwheel::clock::time_point;

constexpr time_point noon{12h};

static_assert(sizeof(deadline) == 8 && std::is_trivially_copyable_v<deadline>, "it is passed by value");

TEST(deadline, has_its_whole_budget_left_when_it_is_set) {
  EXPECT_EQ(deadline::after(2s, noon).remaining(noon), 2s);
  EXPECT_FALSE(deadline::after(2s, noon).passed(noon));
}

TEST(deadline, has_less_left_as_time_goes_by) { EXPECT_EQ(deadline::after(2s, noon).remaining(noon + 500ms), 1500ms); }

TEST(deadline, passes_when_nothing_is_left_and_not_before) {
  const auto d = deadline::after(2s, noon);
  EXPECT_FALSE(d.passed(noon + 2s - 1ns));
  EXPECT_EQ(d.remaining(noon + 2s - 1ns), 1ns);
  EXPECT_TRUE(d.passed(noon + 2s));
  EXPECT_EQ(d.remaining(noon + 2s), 0ns);
}

TEST(deadline, that_has_passed_has_nothing_left_rather_than_less) {
  EXPECT_EQ(deadline::after(2s, noon).remaining(noon + 1h), 0ns);
}

TEST(deadline, with_a_budget_of_zero_or_less_has_passed) {
  EXPECT_TRUE(deadline::after(0s, noon).passed(noon));
  EXPECT_TRUE(deadline::after(-1s, noon).passed(noon));
  EXPECT_TRUE(deadline::after(nanoseconds::min(), noon).passed(noon));
}

TEST(deadline, with_a_budget_that_is_not_a_number_has_passed) {
  constexpr std::chrono::duration<double> nan{std::numeric_limits<double>::quiet_NaN()};
  EXPECT_TRUE(deadline::after(nan, noon).passed(noon));
}

TEST(deadline, with_a_budget_of_less_than_a_nanosecond_is_rounded_up) {
  EXPECT_EQ(deadline::after(std::chrono::duration<double, std::nano>{0.25}, noon).remaining(noon), 1ns);
}

TEST(deadline, with_a_budget_beyond_the_clock_is_never) {
  EXPECT_TRUE(deadline::after(std::chrono::hours::max(), noon).is_never());
  EXPECT_TRUE(deadline::after(nanoseconds::max(), noon).is_never());
  EXPECT_EQ(deadline::after(nanoseconds::max(), noon), deadline::never());
}

TEST(deadline, that_is_never_does_not_pass_and_has_all_time_left) {
  EXPECT_FALSE(deadline::never().passed(time_point::max()));
  EXPECT_EQ(deadline::never().remaining(time_point::max()), nanoseconds::max());
}

TEST(deadline, is_never_until_it_is_set) { EXPECT_EQ(deadline{}, deadline::never()); }

TEST(deadline, may_be_an_absolute_time) {
  EXPECT_EQ(deadline::at(noon + 2s), deadline::after(2s, noon));
  EXPECT_TRUE(deadline::at(noon).passed(noon));
}

TEST(deadline, has_no_more_than_all_time_left_whatever_now_is) {
  EXPECT_EQ(deadline::at(time_point::max() - 1ns).remaining(time_point::min()), nanoseconds::max());
  EXPECT_EQ(deadline::at(time_point::max() - 1ns).remaining(time_point{-1ns}), nanoseconds::max());
  EXPECT_EQ(deadline::at(time_point::max() - 2ns).remaining(time_point{-1ns}), nanoseconds::max() - 1ns);
  EXPECT_EQ(deadline::at(time_point{5ns}).remaining(time_point{-5ns}), 10ns);
  EXPECT_EQ(deadline::at(time_point{-5ns}).remaining(time_point::min()), nanoseconds::max() - 4ns);
}

TEST(the_tighter, of_two_deadlines_is_the_earlier_in_either_order) {
  const auto parent = deadline::after(2s, noon);
  const auto own = deadline::after(300ms, noon);
  EXPECT_EQ(tighter(parent, own), own);
  EXPECT_EQ(tighter(own, parent), own);
}

TEST(the_tighter, of_a_deadline_and_never_is_the_deadline) {
  const auto own = deadline::after(300ms, noon);
  EXPECT_EQ(tighter(own, deadline::never()), own);
  EXPECT_EQ(tighter(deadline::never(), own), own);
  EXPECT_EQ(tighter(deadline::never(), deadline::never()), deadline::never());
}

TEST(the_tighter, of_a_chain_of_calls_never_exceeds_what_the_first_was_given) {
  auto d = deadline::after(1s, noon);
  for (auto limit : {5s, 2s, 9s}) d = tighter(d, deadline::after(limit, noon + 400ms));
  EXPECT_EQ(d.remaining(noon + 400ms), 600ms);
}

TEST(deadlines, compare_by_when_they_pass) {
  const auto early = deadline::after(1s, noon);
  const auto late = deadline::after(2s, noon);
  EXPECT_LT(early, late);
  EXPECT_LT(late, deadline::never());
  EXPECT_EQ(std::min({late, early, deadline::never()}), early);
}

TEST(a_deadline_of_the_true_time, counts_from_the_clock) {
  const auto before = tickwheel::clock::now();
  const auto d = deadline::after(1h);
  const auto after = tickwheel::clock::now();
  EXPECT_GE(d.when, before + 1h);
  EXPECT_LE(d.when, after + 1h);
  EXPECT_FALSE(d.passed());
  EXPECT_LE(d.remaining(), 1h);
  EXPECT_TRUE(deadline::after(0s).passed());
}

}  // namespace
