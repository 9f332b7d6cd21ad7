// How late a timer is, to the nanosecond, in both orders of libuv's phases: what the contract allows and no more.
#include "../support/turned_loop.hpp"

#include <tickwheel/uv/timer.hpp>

using tickwheel::timer_service;

namespace {

using std::chrono::nanoseconds;
using time_point = tickwheel::clock::time_point;

/// Knows when it was to come, and by how much it was late.
struct checked {
  explicit checked(timer_service& timers) : timeout{timers, *this} {}
  void arm(nanoseconds delay) {
    due = tickwheel::clock::now() + delay;
    EXPECT_EQ(timeout.arm(delay), 0);
  }
  void on_timeout() noexcept {
    ++fired;
    late = tickwheel::clock::now() - due;
  }
  int fired = 0;
  time_point due{};
  nanoseconds late{};
  tickwheel::member_timer<&checked::on_timeout> timeout;
};

class lateness : public testing::TestWithParam<std::tuple<loop_order, nanoseconds>> {
 protected:
  void SetUp() override { ASSERT_EQ(timers.open(loop, {.tick = std::get<1>(GetParam())}), 0); }
  nanoseconds up_to(nanoseconds most) { return nanoseconds{random() % static_cast<std::uint64_t>(most.count() + 1)}; }
  /// Arms timers in any phase at any time, and runs them out.
  void run_out(std::deque<checked>& all) {
    for (int i = 0; i < 250; ++i) {
      checked& c = all.emplace_back(timers);
      loop.once_in(all_phases[random() % std::size(all_phases)], both_places[random() % 2], loop.now() + up_to(500ms),
                   [&c, delay = up_to(300ms)] { c.arm(delay); });
    }
    // a loop ends when nothing holds it, though a callback of ours is still to come
    tickwheel::callback_timer last{timers, []() noexcept {}};
    ASSERT_EQ(last.arm(1s), 0);
    loop.run();
  }
  /// Runs timers out. None is early, or late by more than a tick, a millisecond and what `more` is in the end.
  void expect_late_by_at_most(const nanoseconds& more) {
    std::deque<checked> all;
    run_out(all);
    for (const checked& c : all) {
      ASSERT_EQ(c.fired, 1);
      EXPECT_GE(c.late, 0ns);
      EXPECT_LE(c.late, timers.tick_duration() + 1ms + more);
    }
  }

  std::mt19937 random{8};
  turned_loop loop{std::get<0>(GetParam())};
  timer_service timers;
};

TEST_P(lateness, is_at_most_a_tick_and_a_millisecond) { expect_late_by_at_most(0ns); }

TEST_P(lateness, grows_by_no_more_than_the_blocks) {
  nanoseconds blocked{};
  for (int i = 0; i < 30; ++i) {
    loop.once_in(all_phases[random() % std::size(all_phases)], both_places[random() % 2], loop.now() + up_to(700ms),
                 [&, time = up_to(50ms)] {
                   loop.block(time);
                   blocked += time;
                 });
  }
  expect_late_by_at_most(blocked);
}

TEST_P(lateness, does_not_grow_with_a_long_wait) {
  loop.sleep_late(5);
  for (const nanoseconds delay : {1s, 12s, 60s, 3600s}) {
    checked c{timers};
    tickwheel::expiry_report report;
    tickwheel::callback_timer asks{timers, [&]() noexcept { report = timers.why(); }};
    c.arm(delay);
    ASSERT_EQ(asks.arm(delay), 0);
    loop.run();
    EXPECT_EQ(c.fired, 1);
    EXPECT_GE(c.late, 0ns);
    EXPECT_LE(c.late, timers.tick_duration() + 1ms + 5ms) << delay.count();  // the last wait is of a second at most
    EXPECT_EQ(report.stall, 0ns);
  }
  EXPECT_EQ(timers.stats().stalls, 0U);
  EXPECT_LE(timers.stats().wakeups, 3 * 4U);  // for the long wait, its last part, and perhaps a move between slots
}

INSTANTIATE_TEST_SUITE_P(of_libuv, lateness,
                         testing::Combine(testing::ValuesIn(both_orders),
                                          testing::Values(nanoseconds{1000}, nanoseconds{1 << 17}, nanoseconds{20ms})),
                         [](const auto& of) {
                           return std::string{name_of(std::get<0>(of.param))} + "_tick_of_" +
                                  std::to_string(std::get<1>(of.param) / 1us) + "_us";
                         });

}  // namespace
