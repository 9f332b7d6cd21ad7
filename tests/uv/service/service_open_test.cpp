// Opening and closing a service: what is refused, and what is left of it.
#include "../../support/allocation_probe.hpp"
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"

#include <cstdio>
#include <string_view>

using tickwheel::manual_driver;
using tickwheel::service_options;
using tickwheel::timer_service;
using tickwheel::wheel_geometry;

namespace {

struct ticker {
  void on_tick() noexcept {}
} ticker_;

int answer_to(const service_options& options) {
  manual_driver time;
  timer_service on_driver;
  const int by_driver = on_driver.open(time, options);
  EXPECT_EQ(on_driver.is_open(), by_driver == 0);
  EXPECT_EQ(options.problem() == nullptr, by_driver == 0);
  EXPECT_EQ(time.bound() != nullptr, by_driver == 0);

  live_loop loop;
  timer_service on_loop;
  EXPECT_EQ(on_loop.open(loop, options), by_driver);
  EXPECT_EQ(on_loop.is_open(), by_driver == 0);
  return by_driver;
}

TEST(service_open, valid_options_are_taken) {
  const service_options valid[] = {{},
                                   {.geometry = wheel_geometry::hashed(1)},
                                   {.stall_grace = 0ns},
                                   {.stall_grace = std::chrono::nanoseconds::max()}};
  for (const service_options& options : valid) EXPECT_EQ(answer_to(options), 0);
}

TEST(service_open, invalid_geometry_is_refused) {
  const wheel_geometry invalid[] = {{1, 100}, {3, 48},  {1, 0},         {2, 2},     {2, 1},
                                    {0, 64},  {60, 64}, {1'000'000, 4}, {~0U, ~0U}, {1, 1U << 31}};
  for (const wheel_geometry& g : invalid)
    EXPECT_EQ(answer_to({.geometry = g}), UV_EINVAL) << g.levels << ' ' << g.slots;
}

TEST(service_open, invalid_durations_work_and_wakeup_are_refused) {
  for (const auto tick : {0ns, std::chrono::nanoseconds{-1ms}}) EXPECT_EQ(answer_to({.tick = tick}), UV_EINVAL);
  for (const auto time : {0ns, -1ns}) EXPECT_EQ(answer_to({.time_per_pass = time}), UV_EINVAL);
  for (const int by : {2, -1}) EXPECT_EQ(answer_to({.wakeup = static_cast<tickwheel::wake_by>(by)}), UV_EINVAL);
  EXPECT_EQ(answer_to({.work_per_pass = 0}), UV_EINVAL);
  EXPECT_EQ(answer_to({.stall_grace = -1ns}), UV_EINVAL);
  EXPECT_EQ(answer_to({.slow_handler = 0ns}), UV_EINVAL);
}

// Built against one libuv, it may be run with another.
std::string numbers_of(unsigned version) {
  return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 0xff) + "." +
         std::to_string(version & 0xff);
}

TEST(service_open, libuv_is_the_expected_one) {
  std::printf("libuv %s\n", uv_version_string());
  EXPECT_GE(uv_version(), unsigned{UV_VERSION_HEX});
  if (const char* const asked = std::getenv("TICKWHEEL_TEST_LIBUV")) {  // by ./dev test --libuv
    EXPECT_EQ(numbers_of(uv_version()), asked);
    EXPECT_EQ(numbers_of(UV_VERSION_HEX), asked) << "by the headers";
  }
}

TEST(service_open, loop_is_known_while_it_is_open) {
  timer_service timers;
  EXPECT_EQ(timers.loop(), nullptr);
  live_loop loop;
  EXPECT_EQ(timers.open(loop), 0);
  EXPECT_EQ(timers.loop(), loop.get());
  timers.close();
  EXPECT_EQ(timers.loop(), nullptr);

  manual_driver time;
  timer_service without_loop;
  EXPECT_EQ(without_loop.open(time), 0);
  EXPECT_EQ(without_loop.loop(), nullptr);
}

TEST(service_open, problem_names_the_invalid_field) {
  const auto names = [](const service_options& options, std::string_view field) {
    const char* const why = options.problem();
    return why != nullptr && std::string_view{why}.starts_with("service_options::" + std::string{field} + ' ');
  };
  EXPECT_TRUE(names({.tick = 0ns}, "tick"));
  EXPECT_TRUE(names({.geometry = {3, 1000}}, "geometry"));
  EXPECT_TRUE(names({.work_per_pass = 0}, "work_per_pass"));
  EXPECT_TRUE(names({.stall_grace = -1ns}, "stall_grace"));
  EXPECT_TRUE(names({.slow_handler = 0ns}, "slow_handler"));
  EXPECT_TRUE(names({.time_per_pass = 0ns}, "time_per_pass"));
  EXPECT_TRUE(names({.wakeup = static_cast<tickwheel::wake_by>(2)}, "wakeup"));
}

TEST(service_open, driver_ignores_wakeup) {
  manual_service service{{.wakeup = tickwheel::wake_by::timerfd}};
  EXPECT_TRUE(fires(service.timers, [&] { service.advance(2ms); }));
}

TEST(service_open, tick_is_rounded_down_to_a_power_of_two) {
  for (const auto& [asked, got] : {std::pair{1'000'000ns, 1LL << 19}, {1ns, 1LL}, {1LL * (1 << 17) * 1ns, 1LL << 17}}) {
    manual_service service{{.tick = asked}};
    EXPECT_EQ(service.tick().count(), got);
  }
}

TEST(service_open, longest_and_shortest_tick_work) {
  for (const auto tick : {1ns, std::chrono::nanoseconds::max()}) {
    manual_service service{{.tick = tick}};
    probe p{service.timers, 1ms};
    service.advance(500us);
    EXPECT_EQ(p.fired, 0);
    EXPECT_TRUE(p.timeout.armed());
    service.advance(1h);
    EXPECT_EQ(p.fired, tick == 1ns ? 1 : 0);
  }
}

TEST(service_open, delay_counts_by_clock_of_present_driver) {
  using tickwheel::clock;
  constexpr clock::time_point far{24h * 365 * 100};
  live_loop loop;
  manual_driver time{far};
  timer_service timers;
  tickwheel::timer timeout{timers, [](tickwheel::wheel_entry&) noexcept {}};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(timers.open(loop), 0);
    const clock::time_point before = clock::now();
    ASSERT_EQ(timeout.arm(1s), 0);
    EXPECT_GE(timeout.deadline(), before + 1s);
    EXPECT_LT(timeout.deadline(), clock::now() + 1s + timers.tick_duration());
    timers.close();
    ASSERT_EQ(timers.open(time), 0);
    ASSERT_EQ(timeout.arm(1s), 0);
    EXPECT_GE(timeout.deadline(), far + 1s);
    EXPECT_LT(timeout.deadline(), far + 1s + timers.tick_duration());
    timers.close();
  }
}

TEST(service_open, closed_loop_is_refused) {
  uv_loop_t loop;
  ASSERT_EQ(uv_loop_init(&loop), 0);
  ASSERT_EQ(uv_loop_close(&loop), 0);
  timer_service timers;
  EXPECT_EQ(timers.open(loop), UV_EINVAL);
  EXPECT_FALSE(timers.is_open());
}

TEST(service_open, open_service_is_refused_and_unchanged) {
  live_loop loop;
  manual_driver other;
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  probe p{timers, 1ms};
  EXPECT_EQ(timers.open(loop), UV_EALREADY);
  EXPECT_EQ(timers.open(other), UV_EALREADY);
  EXPECT_EQ(timers.open(other, {.tick = 0ns}), UV_EALREADY);
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

TEST(service_open, bound_driver_is_refused) {
  manual_service service;
  timer_service second;
  EXPECT_EQ(second.open(service.time), UV_EBUSY);
  EXPECT_FALSE(second.is_open());
  EXPECT_TRUE(fires(service.timers, [&] { service.advance(2ms); }));
}

TEST(service_open, driver_before_the_epoch_is_refused) {
  tickwheel::manual_driver time{tickwheel::clock::time_point{-1ns}};
  tickwheel::timer_service timers;
  EXPECT_EQ(timers.open(time), UV_EINVAL);
  EXPECT_EQ(time.bound(), nullptr);
}

TEST(service_open, driver_is_free_after_close) {
  manual_service service;
  timer_service second;
  service.timers.close();
  ASSERT_EQ(second.open(service.time), 0);
  EXPECT_TRUE(fires(second, [&] { service.time.advance(2ms); }));
}

TEST(service_open, no_memory_keeps_stats_readable) {
  manual_service service;
  probe p{service.timers, 1ms};
  service.advance(2ms);
  service.timers.close();
  EXPECT_EQ(allocations::without_memory([&] { return service.timers.open(service.time); }), UV_ENOMEM);
  EXPECT_EQ(service.timers.stats().fired, 1U);
  EXPECT_EQ(p.timeout.arm(1ms), UV_ECANCELED);
}

TEST(service_close, detaches_all_timers_and_runs_none) {
  manual_service service;
  probe soon{service.timers, 1ms}, late{service.timers, std::chrono::nanoseconds::max()};
  service.time.block(10ms);
  service.timers.close();
  EXPECT_FALSE(soon.timeout.armed());
  EXPECT_FALSE(late.timeout.armed());
  EXPECT_EQ(soon.fired + late.fired, 0);
  EXPECT_FALSE(soon.timeout.cancel());
  EXPECT_EQ(service.timers.stats().cancelled, 2U);
}

// Without NDEBUG. A program that calls `open`, whatever that answers, gets UV_ECANCELED.
TEST(service_close, arm_without_open_stops_a_debug_build) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  timer_service never_opened;
  probe p{never_opened};
  tickwheel::interval_timer<&ticker::on_tick> interval{never_opened, ticker_};
  const std::function<int()> arms[] = {[&] { return p.timeout.arm(1ms); },
                                       [&] { return p.timeout.arm(0s); },
                                       [&] { return p.timeout.arm(0s, 1ms); },
                                       [&] { return p.timeout.arm_at(tickwheel::clock::now()); },
                                       [&] { return p.timeout.arm_at(tickwheel::clock::time_point::max()); },
                                       [&] { return interval.start(1s); }};
  for (const auto& arm : arms) {
#ifdef NDEBUG
    EXPECT_EQ(arm(), UV_ECANCELED);
#else
    EXPECT_DEATH((void)arm(), "tickwheel: a timer was armed on a service that was never opened");
#endif
  }
  manual_driver time{tickwheel::clock::time_point{-1ns}};
  EXPECT_EQ(never_opened.open(time), UV_EINVAL);
  for (const auto& arm : arms) EXPECT_EQ(arm(), UV_ECANCELED) << "after a failed open";
}

TEST(service_close, closed_service_has_no_clock_to_read) {
  manual_driver time;
  timer_service timers;
  EXPECT_DEATH((void)timers.read_clock(), "tickwheel: timer_service: read_clock was called before open or after close");
  EXPECT_DEATH((void)timers.update_now(), "tickwheel: timer_service: update_now was called before open or after close");
  EXPECT_DEATH((void)timers.responsive({}),
               "tickwheel: timer_service: responsive was called before open or after close");
  ASSERT_EQ(timers.open(time), 0);
  EXPECT_EQ(timers.read_clock(), timers.update_now());
  timers.close();
  EXPECT_DEATH((void)timers.read_clock(), "tickwheel: timer_service: read_clock was called before open or after close");
  EXPECT_DEATH((void)timers.update_now(), "tickwheel: timer_service: update_now was called before open or after close");
  EXPECT_DEATH((void)timers.responsive({}),
               "tickwheel: timer_service: responsive was called before open or after close");
}

TEST(service_close, closed_service_ignores_after_fork) {
  manual_driver time;
  timer_service timers;
  timers.after_fork();
  ASSERT_EQ(timers.open(time), 0);
  timers.close();
  const auto closed_at = timers.now();
  time.advance(1s);
  timers.after_fork();
  EXPECT_FALSE(timers.is_open());
  EXPECT_EQ(timers.now(), closed_at) << "its time stands still";
  ASSERT_EQ(timers.open(time), 0);
  EXPECT_TRUE(fires(timers, [&] { time.advance(2ms); }));
}

TEST(service_close, closed_service_may_be_closed_again) {
  timer_service never_opened;
  never_opened.close();
  EXPECT_FALSE(probe{never_opened}.timeout.cancel());
  manual_service service;
  service.timers.close();
  service.timers.close();
  EXPECT_FALSE(service.timers.is_open());
}

TEST(service_close, keeps_unref) {
  manual_driver time;
  timer_service timers;
  ASSERT_EQ(timers.open(time), 0);
  timers.unref();
  timers.close();
  ASSERT_EQ(timers.open(time), 0);
  EXPECT_FALSE(timers.has_ref());
  probe p{timers, 1ms};
  EXPECT_FALSE(time.alive());
}

TEST(service_close, driver_has_no_wakeup_afterwards) {
  manual_service service;
  probe p{service.timers, 1ms};
  EXPECT_TRUE(service.time.alive());
  service.timers.close();
  EXPECT_FALSE(service.time.alive());
  EXPECT_EQ(service.time.next_wakeup(), tickwheel::clock::time_point::max());
  service.time.advance(1s);
  EXPECT_FALSE(service.time.turn());
  EXPECT_EQ(p.fired, 0);
}

}  // namespace
