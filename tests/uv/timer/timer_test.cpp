// One timer on manual time, beyond what tests/net/conformance shows for each class.
#include <tickwheel/uv/timer.hpp>

#include "../support/probe.hpp"

using time_point = tickwheel::clock::time_point;

namespace {

using timer = manual_test;

using picoseconds = std::chrono::duration<std::int64_t, std::pico>;

TEST_F(timer, is_never_early_and_at_most_a_tick_late) {
  for (const bool at_a_time : {false, true}) {
    for (std::chrono::nanoseconds delay = 1ns; delay < 40h; delay = delay * 3 + 7ns) {
      const auto armed_at = service.time.now();
      ASSERT_EQ(at_a_time ? p.timeout.arm_at(armed_at + delay) : p.timeout.arm(delay), 0);
      p.fired = 0;
      service.advance(delay + service.tick());
      ASSERT_EQ(p.fired, 1) << delay.count();
      EXPECT_GE(p.at, armed_at + delay);
      EXPECT_LE(p.at, armed_at + delay + service.tick());
    }
  }
}

// The length of a tick and the thread that runs the loop share a word.
TEST(timer_of_any_tick, is_due_as_its_service_rounds) {
  tickwheel::timer_service timers;
  for (int shift = 0; shift < 63; ++shift) {
    const std::chrono::nanoseconds tick{std::int64_t{1} << shift};
    tickwheel::manual_driver time{time_point{1h}};
    ASSERT_EQ(timers.open(time, {.tick = tick}), 0);
    ASSERT_EQ(timers.tick_duration(), tick);
    tickwheel::callback_timer other{timers, []() noexcept {}};
    tickwheel::callback_timer t{timers, []() noexcept {}};
    ASSERT_EQ(other.arm(1h), 0);  // the first takes a slower path
    for (const std::chrono::nanoseconds after :
         {std::chrono::nanoseconds{1}, tick - 1ns, tick, tick + 1ns, tick + tick / 2}) {
      if (after <= 0ns || after >= time_point::max() - timers.now()) continue;
      ASSERT_EQ(t.arm_at(timers.now() + after), 0);
      const std::int64_t ticks = (after - 1ns) / tick + 1;
      const bool representable = ticks <= (time_point::max() - timers.now()) / tick;
      EXPECT_EQ(t.deadline(), representable ? timers.now() + ticks * tick : time_point::max())
          << shift << ", " << after.count();
    }
    EXPECT_TRUE(t.cancel());
    EXPECT_TRUE(timers.validate());
    timers.close();
  }
}

// Nobody reads the clock while an iteration moves the wheel on.
TEST_F(timer, time_before_that_of_the_wheel_is_due_in_next_pass) {
  const probe other{timers, 1h};  // the first takes a slower path
  const time_point last_now = timers.now();
  service.time.block(10ms);
  service.time.turn();
  ASSERT_EQ(p.timeout.arm_at(last_now + 5ms), 0);
  EXPECT_TRUE(timers.validate());
  service.advance(service.tick());
  EXPECT_EQ(p.fired, 1);
}

TEST_F(timer, time_before_that_of_the_pass_is_due_in_next_pass) {
  const probe other{timers, 1h};
  const time_point last_now = timers.now();
  const probe early{timers, 10ms, [&] { ASSERT_EQ(p.timeout.arm_at(last_now + 5ms), 0); }};
  service.advance(10ms + service.tick());
  ASSERT_EQ(early.fired, 1);
  EXPECT_TRUE(timers.validate());
  service.advance(service.tick());
  EXPECT_EQ(p.fired, 1);
}

TEST_F(timer, times_beyond_the_clock_never_fire) {
  service.advance(5h);
  const std::function<int()> arms[] = {[&] { return p.timeout.arm(std::chrono::hours::max()); },
                                       [&] { return p.timeout.arm(std::chrono::nanoseconds::max()); },
                                       [&] { return p.timeout.arm(std::chrono::nanoseconds::max() - 1ns); },
                                       [&] { return p.timeout.arm_at(time_point::max()); }};
  for (const auto& arm : arms) {
    ASSERT_EQ(arm(), 0);
    service.check();
    EXPECT_TRUE(p.timeout.armed());
    EXPECT_EQ(p.timeout.deadline(), time_point::max());
    service.advance(24h * 365 * 50);
    EXPECT_TRUE(p.timeout.armed());
    EXPECT_EQ(p.fired, 0);
    EXPECT_TRUE(p.timeout.cancel());
  }
}

TEST_F(timer, fires_on_time_after_years_of_uptime) {
  service.advance(24h * 365 * 150);
  const auto armed_at = service.time.now();
  p.arm(3s);
  service.advance(3s - 1ns);
  EXPECT_EQ(p.fired, 0);
  service.advance(service.tick() + 1ns);
  EXPECT_EQ(p.fired, 1);
  EXPECT_GE(p.at, armed_at + 3s);
}

TEST_F(timer, any_duration_is_rounded_up) {
  const auto begin = service.time.now();
  const auto deadline_after = [&](auto delay) {
    p.arm(delay);
    return p.timeout.deadline() - begin;
  };
  EXPECT_GE(deadline_after(std::chrono::duration<double>{0.25}), 250ms);
  EXPECT_LT(deadline_after(std::chrono::duration<double>{0.25}), 250ms + service.tick());
  EXPECT_GE(deadline_after(std::chrono::duration<float, std::milli>{1.5F}), 1500us);
  EXPECT_GE(deadline_after(std::chrono::duration<std::uint64_t, std::ratio<3600>>{2}), 2h);
  EXPECT_GE(deadline_after(std::chrono::duration<unsigned char>{7}), 7s);
  EXPECT_GE(deadline_after(std::chrono::duration<std::int64_t, std::ratio<1, 3>>{1}), 333'333'334ns);
  EXPECT_GT(deadline_after(picoseconds{1}), 0ns);
  EXPECT_GE(deadline_after(std::chrono::days{3}), 72h);
  EXPECT_EQ(deadline_after(std::chrono::years::max()), time_point::max() - begin);
  EXPECT_EQ(deadline_after(std::chrono::duration<double>{std::numeric_limits<double>::infinity()}),
            time_point::max() - begin);
  EXPECT_LE(deadline_after(std::chrono::duration<double>{std::numeric_limits<double>::quiet_NaN()}), service.tick());
  EXPECT_EQ(deadline_after(std::chrono::duration<std::uint64_t>{std::numeric_limits<std::uint64_t>::max()}),
            time_point::max() - begin);
}

TEST_F(timer, deadline_is_rounded_up_to_a_tick) {
  EXPECT_EQ(p.timeout.deadline(), time_point::max());
  const auto begin = service.time.now();
  p.arm(10ms);
  EXPECT_GE(p.timeout.deadline(), begin + 10ms);
  EXPECT_LT(p.timeout.deadline(), begin + 10ms + service.tick());
  p.timeout.cancel();
  EXPECT_EQ(p.timeout.deadline(), time_point::max());
}

TEST_F(timer, delay_counts_from_true_time) {
  const auto stamp = timers.now();
  service.time.block(50ms);
  ASSERT_EQ(timers.now(), stamp);
  p.arm(10ms);
  EXPECT_GE(p.timeout.deadline(), stamp + 60ms);
}

TEST_F(timer, timers_of_one_tick_run_in_one_pass) {
  probes all{timers, 100, 10ms};
  const auto passes = timers.stats().passes;
  service.advance(11ms);
  EXPECT_TRUE(all.each_fired_once());
  EXPECT_EQ(timers.stats().passes, passes + 1);
}

TEST_F(timer, timers_run_in_order_of_deadlines) {
  for (const std::chrono::nanoseconds apart : {std::chrono::nanoseconds{5ms}, service.tick()}) {
    std::vector<int> order;
    std::deque<probe> all;
    for (int i = 0; i < 50; ++i) {
      const int place = (i * 37) % 50;
      all.emplace_back(timers, apart * (place + 1), [&order, place] { order.push_back(place); });
    }
    service.advance(1s);
    ASSERT_EQ(order.size(), 50U) << apart.count();
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << apart.count();
  }
}

TEST_F(timer, size_is_at_most_48_bytes) { EXPECT_LE(sizeof(tickwheel::timer), 48U); }

TEST_F(timer, callback_timer_calls_its_callable) {
  int calls = 0;
  tickwheel::callback_timer timeout{timers, [&, kept = std::make_unique<int>(3)]() noexcept { calls += *kept; }};
  ASSERT_EQ(timeout.arm(1ms), 0);
  service.advance(2ms);
  EXPECT_EQ(calls, 3);
}

struct session {
  void may_throw() {}
  void on_timeout() noexcept {}
  void on_timeout_of_const() const noexcept {}
  void takes_an_argument(int) noexcept {}
  void takes_an_argument_of_const(int) const noexcept {}
};

// libuv's C frames cannot be unwound, so what may throw is refused when compiling
static_assert(tickwheel::noexcept_member_handler<&session::on_timeout>);
static_assert(!tickwheel::noexcept_member_handler<&session::may_throw>);
static_assert(tickwheel::noexcept_member_handler<&session::on_timeout_of_const>);
static_assert(!tickwheel::noexcept_member_handler<&session::takes_an_argument>);
static_assert(tickwheel::detail::takes_arguments<decltype(&session::takes_an_argument_of_const)>);
static_assert(!tickwheel::detail::takes_arguments<decltype(&session::may_throw)>);
constexpr auto calm = []() noexcept {};
constexpr auto throwing = [] {};
constexpr auto demanding = [](int) noexcept {};
static_assert(tickwheel::noexcept_handler<decltype(calm)>);
static_assert(!tickwheel::noexcept_handler<decltype(throwing)>);
static_assert(!tickwheel::noexcept_handler<decltype(demanding)>);
static_assert(!tickwheel::noexcept_handler<std::function<void()>>);

}  // namespace
