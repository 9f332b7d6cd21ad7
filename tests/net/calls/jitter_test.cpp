// Delays that are spread, and never shortened.
#include <tickwheel/net/jitter.hpp>

#include "../../uv/support/probe.hpp"

namespace {

using std::chrono::nanoseconds;
using tickwheel::jitter;

// Draws a thousand delays from `shortest` to `longest`, some of them close to either end.
void expect_range(const std::function<nanoseconds()>& draw, nanoseconds shortest, nanoseconds longest) {
  std::vector<nanoseconds> delays(1000);
  std::generate(delays.begin(), delays.end(), draw);
  const auto [least, most] = std::minmax_element(delays.begin(), delays.end());
  const nanoseconds near = (longest - shortest) / 12;
  EXPECT_GE(*least, shortest);
  EXPECT_LT(*least, shortest + near);
  EXPECT_GT(*most, longest - near);
  EXPECT_LE(*most, longest);
}

TEST(jitter, adds_up_to_its_share) {
  jitter spread{0.2, 1};
  expect_range([&] { return spread(1h); }, 1h, 72min);
}

TEST(jitter, adds_up_to_given_duration) {
  jitter spread{0, 1};
  expect_range([&] { return spread(75s, 5s); }, 75s, 80s);
}

TEST(jitter, share_of_zero_changes_nothing) {
  jitter spread{0, 1};
  EXPECT_EQ(spread(1h), 1h);
}

TEST(jitter, delay_of_zero_or_less_is_unchanged) {
  jitter spread{1, 1};
  EXPECT_EQ(spread(0s), 0s);
  EXPECT_EQ(spread(-1s), -1s);
  EXPECT_EQ(spread(nanoseconds::min()), nanoseconds::min());
}

TEST(jitter, duration_of_zero_or_less_adds_nothing) {
  jitter spread{1, 1};
  EXPECT_EQ(spread(1s, 0s), 1s);
  EXPECT_EQ(spread(1s, -1s), 1s);
}

TEST(jitter, saturates_at_longest_duration) {
  jitter spread{1, 1};
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(spread(std::chrono::hours::max()), nanoseconds::max());
    ASSERT_GE(spread(nanoseconds::max() - 1ns, nanoseconds::max()), nanoseconds::max() - 1ns);
    ASSERT_GE(spread(nanoseconds::max() / 2 + 1ns), nanoseconds::max() / 2 + 1ns);
  }
}

TEST(jitter, any_duration_is_rounded_up) {
  jitter spread{0, 1};
  EXPECT_EQ(spread(std::chrono::duration<double>{0.5}), 500ms);
  EXPECT_EQ((spread(std::chrono::duration<int, std::pico>{1})), 1ns);
}

TEST(jitter, seed_repeats_its_sequence) {
  jitter a{0.5, 9};
  jitter b{0.5, 9};
  jitter other{0.5, 10};
  int equal = 0;
  for (int i = 0; i < 100; ++i) {
    const auto d = a(1h);
    ASSERT_EQ(d, b(1h));
    equal += d == other(1h);
  }
  EXPECT_LT(equal, 5);
}

TEST(jitter, without_seed_two_differ) {
  jitter a{0.5};
  jitter b{0.5};
  EXPECT_TRUE(a(1h) != b(1h) || a(1h) != b(1h));
}

TEST(jitter, spreads_timers_and_fires_none_early) {
  manual_service service;
  jitter spread{0.1, 1};
  std::deque<probe> all;
  const auto begin = service.time.now();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(spread(60s)), 0);
  service.advance(60s - 1ns);
  EXPECT_EQ(service.timers.stats().fired, 0U);
  service.advance(600ms);
  EXPECT_LT(service.timers.stats().fired, 150U) << "a tenth of the time, so about a tenth of them";
  service.advance(5400ms + service.tick());
  for (const probe& p : all) {
    ASSERT_EQ(p.fired, 1);
    ASSERT_GE(p.at, begin + 60s);
  }
}

TEST(jitter, share_outside_range_is_named) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double share : {-0.001, 1.001, nan, -nan, std::numeric_limits<double>::infinity()}) {
    ASSERT_NE(jitter::problem(share), nullptr) << share;
    EXPECT_STREQ(jitter::problem(share), "jitter: share is not within 0..1");
  }
  EXPECT_EQ(jitter::problem(0), nullptr);
  EXPECT_EQ(jitter::problem(1), nullptr);
}

TEST(jitter, invalid_share_stops_process_and_is_named) {
  EXPECT_DEATH(jitter(1.5), "jitter: share is not within 0..1");
  EXPECT_DEATH(jitter(-1, 7), "jitter: share is not within 0..1");
}

}  // namespace
