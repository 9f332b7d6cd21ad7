// Time in which nobody runs the loop.
#include "../support/live_test.hpp"

namespace {

constexpr auto grace = 300ms;
constexpr auto away = 500ms;
constexpr auto undercounted = 2ms;  // libuv's clock reads whole milliseconds

class time_outside_loop : public live_test {
 protected:
  void SetUp() override { open({.stall_grace = grace}); }
  void run() {
    p.arm(1ms);
    loop.run();
  }
};

TEST_F(time_outside_loop, is_no_stall) {
  block_for(away);
  run();
  block_for(away);
  run();
  EXPECT_EQ(p.fired, 2);
  EXPECT_EQ(timers.stats().stalls, 0U);
  EXPECT_EQ(timers.stats().stalled, 0ns);
}

TEST_F(time_outside_loop, is_left_out_of_idle_time) {
  run();
  const tickwheel::clock::time_point before = timers.responsive_now();
  block_for(away);
  run();
  EXPECT_GE(timers.stalled_for(), away - grace - undercounted);
  EXPECT_LT(timers.responsive_now() - before, away);
}

TEST_F(time_outside_loop, does_not_hide_a_stall_of_the_last_iteration) {
  p.then = [] { block_for(away); };
  run();
  p.then = {};
  block_for(away);
  run();
  EXPECT_EQ(timers.stats().stalls, 1U);
  EXPECT_GE(timers.stats().stalled, away - grace - undercounted);
}

TEST_F(time_outside_loop, does_not_hide_a_stall_in_a_callback_before_the_first_poll) {
  run();
  block_for(away);
  loop.once_in(phase::idle, [] { block_for(away); });
  run();
  EXPECT_EQ(timers.stats().stalls, 1U);
}

}  // namespace
