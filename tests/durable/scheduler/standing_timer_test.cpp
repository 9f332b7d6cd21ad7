// A standing timer on a loop with something to read in each iteration, in both orders of libuv's phases.
#include "../../../src/durable/standing_timer.hpp"

#include "../../uv/support/turned_loop.hpp"

#include <tickwheel/uv/timer_service.hpp>

namespace {

using std::chrono::nanoseconds;
using time_point = tickwheel::clock::time_point;

constexpr nanoseconds soon = 2ms;  // two ticks, and a millisecond of poll granularity, rounded up

class standing_timer : public testing::TestWithParam<loop_order> {
 protected:
  struct owner {
    void on_timer() noexcept {
      if (!called) called = tickwheel::clock::now();
    }
    std::optional<time_point> called;
  };

  void SetUp() override {
    ASSERT_EQ(timers.open(loop), 0);
    ASSERT_EQ(timer.open(), 0);
    ASSERT_EQ(holds_loop.arm(1h), 0);
    begin = loop.now();
  }
  void TearDown() override {
    holds_loop.cancel();
    timer.close();
    timers.close();
  }
  /// Turns for 10 ms, with an event each 100 us.
  void run(const std::function<void()>& event) {
    for (nanoseconds after{}; after <= 10ms; after += 100us) loop.readable_at(begin + after, event);
    while (loop.now() < begin + 10ms) loop.turn();
  }

  turned_loop loop{GetParam()};
  tickwheel::timer_service timers;
  tickwheel::callback_timer<void (*)() noexcept> holds_loop{timers,
                                                            []() noexcept {}};  // one that nothing holds does not wait
  owner of;
  tickwheel::durable::detail::standing_timer<&owner::on_timer> timer{timers, of};
  time_point begin;
};

TEST_P(standing_timer, set_in_each_iteration_is_called) {
  for (const nanoseconds delay : {0us, 150us}) {
    begin = loop.now();
    timer.unset();
    of.called.reset();
    run([&] { timer.set_at_latest(delay); });
    ASSERT_TRUE(of.called);
    EXPECT_GE(*of.called, begin + delay);
    EXPECT_LE(*of.called, begin + delay + soon);
  }
}

TEST_P(standing_timer, is_moved_only_to_an_earlier_time) {
  timer.set_at_latest(1h);
  timer.set_at_latest(5ms);
  run([&] { timer.set_at_latest(1h); });
  ASSERT_TRUE(of.called);
  EXPECT_GE(*of.called, begin + 5ms);
  EXPECT_LE(*of.called, begin + 5ms + soon);
}

INSTANTIATE_TEST_SUITE_P(of_a_loop, standing_timer, testing::ValuesIn(both_orders),
                         [](const auto& of) { return name_of(of.param); });

}  // namespace
