// The counts of each handler in service_stats::handlers, of many handlers that run in one pass.
#include "../support/probe.hpp"

#include <tickwheel/uv/handler_stats.hpp>

namespace {

using handler_counts = manual_test;

/// Returns the counts of a handler. They are zero if none of its calls was counted.
tickwheel::handler_stats counts_of(const tickwheel::timer_service& timers,
                                   tickwheel::expiry_report::handler_id handler) {
  for (const tickwheel::handler_stats& one : timers.stats().handlers.all())
    if (one.handler == handler) return one;
  return {};
}

TEST_F(handler_counts, each_call_adds_its_own_lateness) {
  reopen({.count_handlers = true, .time_per_pass = 1h});
  const probes all{timers, 40, [](int i) { return (1 + i) * 1ms; }};
  service.time.block(1s);
  std::chrono::nanoseconds late{};
  for (const probe& each : all) late += service.time.now() - each.timeout.deadline();
  service.advance(0ns);
  const tickwheel::handler_stats counts = counts_of(timers, all.front().timeout.handler());
  EXPECT_EQ(counts.calls, 40U);
  EXPECT_EQ(counts.late, late);
}

TEST_F(handler_counts, lateness_is_added_to_its_handler) {
  reopen({.count_handlers = true, .time_per_pass = 1h});
  const probes late{timers, 8, 1ms};
  tickwheel::callback_timer in_time{timers, []() noexcept {}};
  ASSERT_EQ(in_time.arm(1s), 0);
  service.time.block(1s);
  service.time.block(in_time.deadline() - service.time.now());
  const std::chrono::nanoseconds each = service.time.now() - late.front().timeout.deadline();
  service.advance(0ns);
  EXPECT_EQ(counts_of(timers, late.front().timeout.handler()).late, 8 * each);
  EXPECT_EQ(counts_of(timers, in_time.handler()).calls, 1U);
  EXPECT_EQ(counts_of(timers, in_time.handler()).late, 0ns);
}

TEST_F(handler_counts, lateness_of_many_calls_saturates) {
  reopen({.count_handlers = true, .time_per_pass = 1h});
  const probes late{timers, 3, 1ms};
  service.time.block(24h * 365 * 150);
  service.advance(0ns);
  const tickwheel::handler_stats counts = counts_of(timers, late.front().timeout.handler());
  EXPECT_EQ(counts.calls, 3U);
  EXPECT_EQ(counts.late, std::chrono::nanoseconds::max());
}

TEST_F(handler_counts, slow_call_makes_later_calls_late) {
  reopen({.count_handlers = true, .time_per_pass = 1h});
  const probes all{timers, 8, 1ms, [&] { service.time.block(5ms); }};
  service.advance(1s);
  EXPECT_EQ(counts_of(timers, all.front().timeout.handler()).late, (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7) * 5ms);
}

}  // namespace
