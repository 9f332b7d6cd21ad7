// What why() answers on a live loop that was blocked, in each of its phases.
#include "../support/live_test.hpp"

using tickwheel::stalled_by;

namespace {

class expiry_report : public live_test, public testing::WithParamInterface<phase> {
 protected:
  void SetUp() override {
    open();
    p.then = [this] { report = timers.why(); };
  }
  tickwheel::expiry_report report;
  tickwheel::clock::time_point unblocked;
};

TEST_P(expiry_report, block_of_loop_callback_is_its_own) {
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
  tickwheel::callback_timer slow{timers, [&]() noexcept {
                                   block_for(200ms);
                                   unblocked = tickwheel::clock::now();
                                 }};
  loop.once_in(GetParam(), [&] {
    EXPECT_EQ(slow.arm(5ms), 0);
    p.arm(100ms);  // while the slow one runs, also on a busy machine
    block_for(10ms);
  });
  loop.run();
  ASSERT_EQ(p.fired, 1);
  EXPECT_TRUE(adds_up(report));
  EXPECT_GE(report.stall, unblocked - report.due);
  EXPECT_EQ(report.by, stalled_by::handler);
  EXPECT_EQ(report.handler, slow.handler());
}

// Counts of the processor say when each of them began. A moment without a processor between two readings would spoil that: so the
// best of several attempts is compared.
TEST(expiry_report_by_counter, differs_little_from_steady_clock) {
  constexpr int attempts = 20, timers_each = 8;
  auto least = std::chrono::nanoseconds::max();
  for (int i = 0; i < attempts; ++i) {
    live_loop loop;
    tickwheel::timer_service timers;
    ASSERT_EQ(timers.open(loop), 0);
    auto largest = 0ns;
    const auto compare = [&]() noexcept {
      const auto now = tickwheel::clock::now();
      const tickwheel::expiry_report& report = timers.why();
      EXPECT_TRUE(adds_up(report));
      largest = std::max<std::chrono::nanoseconds>(largest, std::chrono::abs(now - report.ran));
      block_for(100us);
    };
    std::deque<tickwheel::callback_timer<decltype(compare)>> all;
    const auto when = timers.now() + 2ms;
    for (int k = 0; k < timers_each; ++k) ASSERT_EQ(all.emplace_back(timers, compare).arm_at(when), 0);
    loop.run();
    least = std::min(least, largest);
    timers.close();
  }
  EXPECT_LT(least, 50us);
}

INSTANTIATE_TEST_SUITE_P(each_phase, expiry_report, testing::ValuesIn(all_phases),
                         [](const auto& of) { return name_of(of.param); });

}  // namespace
