// What a service counts.
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <set>
#include <sstream>
#include <string>

using namespace std::chrono_literals;

namespace {

TEST(stats, count_moving_an_armed_timer_as_no_further_arm) {
  manual_service service;
  probe p{service.timers};
  for (int i = 0; i < 10; ++i) ASSERT_EQ(p.timeout.arm(1ms * (10 - i)), 0);
  EXPECT_EQ(service.timers.stats().armed, 1U);
  EXPECT_EQ(service.timers.stats().pending, 1U);
}

TEST(stats, stay_readable_after_close) {
  manual_service service;
  probe a{service.timers};
  probe b{service.timers};
  probe c{service.timers};
  ASSERT_EQ(a.timeout.arm(1ms), 0);
  ASSERT_EQ(b.timeout.arm(1h), 0);
  ASSERT_EQ(c.timeout.arm(1h), 0);
  c.timeout.cancel();
  service.advance(5ms);
  service.timers.close();
  const auto& s = service.timers.stats();
  EXPECT_EQ(s.armed, 3U);
  EXPECT_EQ(s.fired, 1U);
  EXPECT_EQ(s.cancelled, 2U);
  EXPECT_EQ(s.pending, 0U);
  EXPECT_EQ(s.lateness.count(), 1U);
  EXPECT_GE(s.wakeups, 1U);
}

TEST(stats, begin_anew_when_the_service_is_opened_again) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  service.advance(2ms);
  service.timers.close();
  ASSERT_EQ(service.timers.open(service.time), 0);
  EXPECT_EQ(service.timers.stats().armed, 0U);
  EXPECT_EQ(service.timers.stats().lateness.count(), 0U);
}

TEST(lateness_histogram, shows_nothing_late_when_all_is_on_time) {
  manual_service service;
  std::deque<probe> all;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(i * 3ms), 0);
  service.advance(1s);
  EXPECT_EQ(service.timers.stats().lateness.count(), 100U);
  EXPECT_EQ(service.timers.stats().lateness.max(), 0ns);
}

TEST(lateness_histogram, shows_how_late_a_blocked_loop_made_a_timer) {
  manual_service service;
  std::deque<probe> all;
  for (int i = 0; i < 99; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(1ms), 0);
  service.advance(2ms);
  ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(1ms), 0);
  service.time.block(51ms);
  service.advance(0ns);
  const auto& lateness = service.timers.stats().lateness;
  EXPECT_EQ(lateness.count(), 100U);
  EXPECT_LE(lateness.max(), 50ms);
  EXPECT_GE(lateness.max(), 50ms - 2 * service.tick());
  EXPECT_EQ(lateness.percentile(0.5), 0ns);
  EXPECT_GE(lateness.percentile(1.0), 49ms);
}

TEST(for_each_armed, calls_with_every_armed_timer_and_no_other) {
  manual_service service;
  std::deque<probe> all;
  std::set<const tickwheel::timer*> expected;
  for (int i = 0; i < 100; ++i) {
    probe& p = all.emplace_back(service.timers);
    ASSERT_EQ(p.timeout.arm(i * i * 1ms), 0);
    if (i % 3 == 0)
      p.timeout.cancel();
    else
      expected.insert(&p.timeout);
  }
  std::set<const tickwheel::timer*> seen;
  service.timers.for_each_armed([&](tickwheel::timer& t) { EXPECT_TRUE(seen.insert(&t).second); });
  EXPECT_EQ(seen, expected);
}

TEST(for_each_armed, lets_its_visitor_cancel) {
  manual_service service;
  std::deque<probe> all;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(1ms * i), 0);
  service.timers.for_each_armed([](tickwheel::timer& t) { t.cancel(); });
  EXPECT_EQ(service.timers.stats().pending, 0U);
  service.advance(1s);
  EXPECT_EQ(service.timers.stats().fired, 0U);
}

TEST(for_each_armed, visits_nothing_on_a_closed_service) {
  tickwheel::timer_service timers;
  timers.for_each_armed([](tickwheel::timer&) { FAIL(); });
}

TEST(dump, says_whether_the_service_is_open_and_what_is_pending) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(1h), 0);
  std::ostringstream open;
  service.timers.dump(open);
  EXPECT_NE(open.str().find("open"), std::string::npos);
  EXPECT_NE(open.str().find("pending 1"), std::string::npos);
  service.timers.close();
  std::ostringstream closed;
  service.timers.dump(closed);
  EXPECT_NE(closed.str().find("closed"), std::string::npos);
}

}  // namespace
