// A deadline is a value.
#include <tickwheel/net/deadline.hpp>
#include <tickwheel/uv/manual_driver.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include "../../support/prelude.hpp"

namespace {

using std::chrono::nanoseconds;
using tickwheel::deadline;
using time_point = tickwheel::clock::time_point;

constexpr time_point noon{12h};

static_assert(sizeof(deadline) == 8 && std::is_trivially_copyable_v<deadline>, "it is passed by value");

TEST(deadline, passes_when_nothing_remains_and_not_before) {
  const auto d = deadline::after(2s, noon);
  const std::pair<nanoseconds, nanoseconds> remaining_after[]{
      {0ns, 2s}, {500ms, 1500ms}, {2s - 1ns, 1ns}, {2s, 0ns}, {1h, 0ns}};
  for (const auto& [elapsed, remaining] : remaining_after) {
    EXPECT_EQ(d.remaining(noon + elapsed), remaining);
    EXPECT_EQ(d.passed(noon + elapsed), remaining == 0ns);
  }
}

TEST(deadline, budget_of_zero_or_less_has_passed) {
  EXPECT_TRUE(deadline::after(0s, noon).passed(noon));
  EXPECT_TRUE(deadline::after(-1s, noon).passed(noon));
  EXPECT_TRUE(deadline::after(nanoseconds::min(), noon).passed(noon));
}

TEST(deadline, budget_of_nan_has_passed) {
  constexpr std::chrono::duration<double> nan{std::numeric_limits<double>::quiet_NaN()};
  EXPECT_TRUE(deadline::after(nan, noon).passed(noon));
}

TEST(deadline, budget_below_nanosecond_is_rounded_up) {
  EXPECT_EQ(deadline::after(std::chrono::duration<double, std::nano>{0.25}, noon).remaining(noon), 1ns);
}

TEST(deadline, budget_beyond_clock_is_never) {
  EXPECT_TRUE(deadline::after(std::chrono::hours::max(), noon).is_never());
  EXPECT_TRUE(deadline::after(nanoseconds::max(), noon).is_never());
  EXPECT_EQ(deadline::after(nanoseconds::max(), noon), deadline::never());
}

TEST(deadline, never_does_not_pass) {
  EXPECT_FALSE(deadline::never().passed(time_point::max()));
  EXPECT_EQ(deadline::never().remaining(time_point::max()), nanoseconds::max());
}

TEST(deadline, default_is_never) { EXPECT_EQ(deadline{}, deadline::never()); }

TEST(deadline, may_be_absolute_time) {
  EXPECT_EQ(deadline::at(noon + 2s), deadline::after(2s, noon));
  EXPECT_TRUE(deadline::at(noon).passed(noon));
}

TEST(deadline, remaining_time_saturates) {
  EXPECT_EQ(deadline::at(time_point::max() - 1ns).remaining(time_point::min()), nanoseconds::max());
  EXPECT_EQ(deadline::at(time_point::max() - 1ns).remaining(time_point{-1ns}), nanoseconds::max());
  EXPECT_EQ(deadline::at(time_point::max() - 2ns).remaining(time_point{-1ns}), nanoseconds::max() - 1ns);
  EXPECT_EQ(deadline::at(time_point{5ns}).remaining(time_point{-5ns}), 10ns);
  EXPECT_EQ(deadline::at(time_point{-5ns}).remaining(time_point::min()), nanoseconds::max() - 4ns);
}

TEST(deadline, tighter_is_the_earlier_one) {
  const auto parent = deadline::after(2s, noon);
  const auto own = deadline::after(300ms, noon);
  EXPECT_EQ(tighter(parent, own), own);
  EXPECT_EQ(tighter(own, parent), own);
}

TEST(deadline, tighter_ignores_never) {
  const auto own = deadline::after(300ms, noon);
  EXPECT_EQ(tighter(own, deadline::never()), own);
  EXPECT_EQ(tighter(deadline::never(), own), own);
  EXPECT_EQ(tighter(deadline::never(), deadline::never()), deadline::never());
}

TEST(deadline, tighter_in_chain_never_exceeds_first) {
  auto d = deadline::after(1s, noon);
  for (auto limit : {5s, 2s, 9s}) d = tighter(d, deadline::after(limit, noon + 400ms));
  EXPECT_EQ(d.remaining(noon + 400ms), 600ms);
}

TEST(deadline, compares_by_when_it_passes) {
  const auto early = deadline::after(1s, noon);
  const auto late = deadline::after(2s, noon);
  EXPECT_LT(early, late);
  EXPECT_LT(late, deadline::never());
  EXPECT_EQ(std::min({late, early, deadline::never()}), early);
}

TEST(deadline, without_now_counts_from_steady_clock) {
  const auto before = tickwheel::clock::now();
  const auto d = deadline::after(1h);
  const auto after = tickwheel::clock::now();
  EXPECT_GE(d.when, before + 1h);
  EXPECT_LE(d.when, after + 1h);
  EXPECT_FALSE(d.passed());
  EXPECT_LE(d.remaining(), 1h);
  EXPECT_TRUE(deadline::after(0s).passed());
}

TEST(deadline, after_with_service_counts_on_its_time) {
  tickwheel::manual_driver time{noon};
  tickwheel::timer_service timers;
  ASSERT_EQ(timers.open(time), 0);
  EXPECT_EQ(deadline::after(2s, timers), deadline::at(noon + 2s));
  time.advance(1h);
  EXPECT_EQ(deadline::after(2s, timers), deadline::at(noon + 1h + 2s));
  EXPECT_TRUE(deadline::after(std::chrono::hours::max(), timers).is_never());
}

}  // namespace
