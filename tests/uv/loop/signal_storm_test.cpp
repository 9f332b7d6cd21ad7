// A thousand signals per second, whose handler does nothing and restarts no call, on whatever thread they meet: nothing is
// early, nothing is lost. (Timers without signals: never_early in loop_time_test.)
#include "../support/signal_storm.hpp"
#include "../support/live_test.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

using tickwheel::remote_handle;
using tickwheel::remote_timer;

namespace {

using time_point = tickwheel::clock::time_point;

struct in_signal_storm : live_test {
  void SetUp() override { open(); }
  void TearDown() override {
    EXPECT_GE(signal_storm::struck(), 20) << "there was no storm";
    live_test::TearDown();
  }
  const signal_storm now;
};

struct posted {
  time_point due{};
  int ran = 0;
  bool early = false;
};

TEST_F(in_signal_storm, posts_are_neither_lost_nor_early) {
  constexpr int threads = 2, each = 150;
  std::deque<posted> all(threads * each);
  std::vector<std::thread> posters;
  for (int t = 0; t < threads; ++t)
    posters.emplace_back([&all, t, handle = timers.remote(), hold = timers.hold()] {
      for (int i = 0; i < each; ++i) {
        posted& one = all[static_cast<std::size_t>(t * each + i)];
        const auto delay = i % 20 * 1ms;
        one.due = tickwheel::clock::now() + delay;
        EXPECT_EQ(handle.post(delay,
                              [&one]() noexcept {
                                ++one.ran;
                                one.early |= tickwheel::clock::now() < one.due;
                              }),
                  0);
        std::this_thread::sleep_for(1ms);  // so that the loop sleeps, and has to be woken
      }
    });
  loop.run();
  for (std::thread& t : posters) t.join();
  for (const posted& one : all) {
    EXPECT_EQ(one.ran, 1);
    EXPECT_FALSE(one.early);
  }
  timers.close();
  EXPECT_TRUE(remote_adds_up(timers));
}

TEST_F(in_signal_storm, cancelled_remote_timer_stays_cancelled) {
  std::atomic<int> fired{0};
  int cancelled = 0, too_late = 0;
  std::thread canceller{[&, handle = timers.remote(), hold = timers.hold()] {
    for (int i = 0; i < 200; ++i) {
      remote_timer timer;
      EXPECT_EQ(handle.arm(
                    i % 3 * 1ms, [&fired]() noexcept { ++fired; }, timer),
                0);
      std::this_thread::sleep_for(1ms);
      (timer.cancel() == remote_timer::outcome::cancelled ? cancelled : too_late) += 1;
    }
  }};
  loop.run();
  canceller.join();
  EXPECT_EQ(cancelled + too_late, 200);
  EXPECT_EQ(fired, too_late);
}

TEST_F(in_signal_storm, sleeping_loop_runs_no_passes) {
  p.arm(200ms);
  loop.run();
  EXPECT_EQ(p.fired, 1);
  EXPECT_LE(timers.stats().passes, 3U);
}

}  // namespace
