// Time in which nobody runs the loop, and time stamps of prepare callbacks that libuv runs after ours.
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

using namespace std::chrono_literals;
using tickwheel::timer_service;

namespace {

constexpr auto grace = 300ms;
constexpr auto away = 500ms;
constexpr auto undercounted = 2ms;  // libuv's clock reads whole milliseconds

class time_outside_loop : public testing::Test {
 protected:
  time_outside_loop() { EXPECT_EQ(timers.open(loop, with_wakeup({.stall_grace = grace})), 0); }

  void run() {
    EXPECT_EQ(p.timeout.arm(1ms), 0);
    loop.run();
  }

  live_loop loop;
  timer_service timers;
  probe p{timers};
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

// libuv runs the prepare handle that was started first last. What it stamps is older than what the poll brings.
TEST(stamp, of_a_prepare_callback_behind_ours_is_not_kept) {
  live_loop loop;
  timer_service timers;
  loop.each_prepare([&] {
    if (timers.is_open()) timers.now();
  });
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  socket_pair sockets;
  std::atomic<tickwheel::clock::time_point> sent{};
  constexpr int messages = 500;
  std::atomic<int> received = 0;
  int stale = 0;
  live_loop::hook& reader = loop.on_readable(sockets.ours(), {});
  reader.call = [&] {
    if (!sockets.receive()) return;
    stale += timers.now() < sent.load();
    if (++received == messages) reader.close();
  };
  std::thread peer{[&] {
    for (int i = 0; i < messages; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds{100 + i % 7 * 50});
      while (received < i) std::this_thread::yield();
      sent.store(tickwheel::clock::now());
      sockets.peer_sends();
    }
  }};
  loop.run();
  peer.join();
  EXPECT_EQ(received, messages);
  EXPECT_EQ(stale, 0);
}

}  // namespace
