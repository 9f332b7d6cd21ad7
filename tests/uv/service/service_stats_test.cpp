// The counters of a service.
#include "../support/probe.hpp"

#include <set>

namespace {

using service_stats = manual_test;

TEST_F(service_stats, moving_a_timer_is_no_further_arm) {
  for (int i = 0; i < 10; ++i) p.arm(1ms * (10 - i));
  EXPECT_EQ(timers.stats().armed, 1U);
  EXPECT_EQ(timers.stats().pending, 1U);
}

TEST_F(service_stats, are_readable_after_close) {
  probe a{timers, 1ms}, b{timers, 1h}, c{timers, 1h};
  c.timeout.cancel();
  service.advance(5ms);
  timers.close();
  const auto& s = timers.stats();
  EXPECT_EQ(s.armed, 3U);
  EXPECT_EQ(s.fired, 1U);
  EXPECT_EQ(s.cancelled, 2U);
  EXPECT_EQ(s.pending, 0U);
  EXPECT_EQ(s.lateness.count(), 1U);
  EXPECT_GE(s.wakeups, 1U);
}

TEST_F(service_stats, begin_anew_at_open) {
  p.arm(1ms);
  service.advance(2ms);
  timers.close();
  ASSERT_EQ(timers.open(service.time), 0);
  EXPECT_EQ(timers.stats().armed, 0U);
  EXPECT_EQ(timers.stats().lateness.count(), 0U);
}

TEST_F(service_stats, lateness_is_zero_if_all_is_on_time) {
  probes all{timers, 100, [](int i) { return i * 3ms; }};
  service.advance(1s);
  EXPECT_EQ(timers.stats().lateness.count(), 100U);
  EXPECT_EQ(timers.stats().lateness.max(), 0ns);
}

TEST_F(service_stats, lateness_shows_a_blocked_loop) {
  probes all{timers, 99, 1ms};
  service.advance(2ms);
  all.emplace_back(timers).arm(1ms);
  service.time.block(51ms);
  service.advance(0ns);
  const auto& lateness = timers.stats().lateness;
  EXPECT_EQ(lateness.count(), 100U);
  EXPECT_LE(lateness.max(), 50ms);
  EXPECT_GE(lateness.max(), 50ms - 2 * service.tick());
  EXPECT_EQ(lateness.percentile(0.5), 0ns);
  EXPECT_GE(lateness.percentile(1.0), 49ms);
}

TEST_F(service_stats, for_each_armed_visits_armed_timers_only) {
  std::deque<probe> all;
  std::set<const tickwheel::timer*> expected;
  for (int i = 0; i < 100; ++i) {
    probe& each = all.emplace_back(timers);
    each.arm(i * i * 1ms);
    if (i % 3 == 0)
      each.timeout.cancel();
    else
      expected.insert(&each.timeout);
  }
  std::set<const tickwheel::timer*> seen;
  timers.for_each_armed([&](tickwheel::timer& t) { EXPECT_TRUE(seen.insert(&t).second); });
  EXPECT_EQ(seen, expected);
}

TEST_F(service_stats, for_each_armed_may_cancel) {
  probes all{timers, 20, [](int i) { return 1ms * i; }};
  timers.for_each_armed([](tickwheel::timer& t) { t.cancel(); });
  EXPECT_EQ(timers.stats().pending, 0U);
  service.advance(1s);
  EXPECT_EQ(timers.stats().fired, 0U);
}

TEST_F(service_stats, for_each_armed_of_closed_service_visits_none) {
  tickwheel::timer_service closed;
  closed.for_each_armed([](tickwheel::timer&) { FAIL(); });
}

TEST_F(service_stats, dump_says_whether_open_and_what_is_pending) {
  p.arm(1h);
  std::ostringstream open;
  timers.dump(open);
  EXPECT_NE(open.str().find("open"), std::string::npos);
  EXPECT_NE(open.str().find("pending 1"), std::string::npos);
  timers.close();
  std::ostringstream closed;
  timers.dump(closed);
  EXPECT_NE(closed.str().find("closed"), std::string::npos);
}

}  // namespace
