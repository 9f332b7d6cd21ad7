// What why() answers on a live loop that was blocked, in each of its phases.
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>

using namespace std::chrono_literals;
using tickwheel::stalled_by;
using tickwheel::timer_service;

namespace {

class expiry_report : public testing::TestWithParam<phase> {};

TEST_P(expiry_report, block_of_loop_callback_is_its_own) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  tickwheel::expiry_report report;
  tickwheel::clock::time_point unblocked;
  probe p{timers, [&] { report = timers.why(); }};
  loop.once_in(GetParam(), [&] {
    p.arm(10ms);  // longer than libuv's own time is coarse
    block_for(40ms);
    unblocked = tickwheel::clock::now();
  });
  loop.run();
  ASSERT_EQ(p.fired, 1);
  EXPECT_TRUE(adds_up(report));
  EXPECT_GE(report.stall, unblocked - report.due);
  EXPECT_EQ(report.poll, 0ns);
  EXPECT_EQ(report.by, stalled_by::loop_callbacks);
}

TEST_P(expiry_report, names_handler_though_another_phase_blocked) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  tickwheel::expiry_report report;
  tickwheel::clock::time_point unblocked;
  probe late{timers, [&] { report = timers.why(); }};
  tickwheel::callback_timer slow{timers, [&]() noexcept {
                                   block_for(200ms);
                                   unblocked = tickwheel::clock::now();
                                 }};
  loop.once_in(GetParam(), [&] {
    EXPECT_EQ(slow.arm(5ms), 0);
    late.arm(20ms);
    block_for(10ms);
  });
  loop.run();
  ASSERT_EQ(late.fired, 1);
  EXPECT_TRUE(adds_up(report));
  EXPECT_GE(report.stall, unblocked - report.due);
  EXPECT_EQ(report.by, stalled_by::handler);
  EXPECT_EQ(report.handler, slow.handler());
}

INSTANTIATE_TEST_SUITE_P(each_phase, expiry_report, testing::ValuesIn(all_phases),
                         [](const auto& of) { return name_of(of.param); });

}  // namespace
