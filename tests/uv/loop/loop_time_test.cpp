// The live loop against the true clock: never early, whatever libuv's own time says.
#include "../../support/long_runs.hpp"
#include "../support/live_test.hpp"
#include "../support/signal_storm.hpp"

using tickwheel::timer_service;

namespace {

using loop_now = live_test;

using time_point = tickwheel::clock::time_point;
using std::chrono::nanoseconds;

/// A timer that knows when it was armed, and arms itself again some times with another random delay.
class checked {
 public:
  checked(timer_service& timers, std::mt19937& random, nanoseconds longest, int times)
      : random_{random}, longest_{longest}, left_{times}, timeout_{timers, *this} {
    arm();
  }
  int fired = 0;
  int early = 0;
  nanoseconds latest{};

 private:
  void arm() noexcept {
    const nanoseconds delay{random_() % static_cast<std::uint64_t>(longest_.count())};
    due_ = tickwheel::clock::now() + delay;
    EXPECT_EQ(timeout_.arm(delay), 0);
  }
  void on_timeout() noexcept {
    const nanoseconds late = tickwheel::clock::now() - due_;
    ++fired;
    early += late < 0ns;
    latest = std::max(latest, late);
    if (--left_ > 0) arm();
  }

  std::mt19937& random_;
  nanoseconds longest_;
  int left_;
  time_point due_;
  tickwheel::member_timer<&checked::on_timeout> timeout_;
};

class never_early : public live_test {
 protected:
  /// Adds timers, each of which fires so many times, after a random delay each.
  void add(int count, nanoseconds longest, int times) {
    for (int i = 0; i < count; ++i) all.emplace_back(timers, random, longest, times);
    expected += count * times;
  }
  void run_out(std::chrono::milliseconds patience = 10s) {
    loop.run(patience);
    int fired = 0, early = 0;
    for (const checked& c : all) {
      fired += c.fired;
      early += c.early;
    }
    EXPECT_EQ(fired, expected);
    EXPECT_EQ(early, 0);
  }

  std::mt19937 random{1};
  std::deque<checked> all;
  int expected = 0;
};

TEST_F(never_early, with_coarse_and_fine_ticks) {
  for (const nanoseconds tick : {nanoseconds{1'000}, nanoseconds{20'000'000}}) {
    timers.close();
    open({.tick = tick});
    add(100, 50ms, 5);
    run_out();
  }
}

TEST_F(never_early, after_many_missed_ticks) {
  open();
  add(100, 60ms, 10);
  std::deque<probe> blockers;
  for (int i = 0; i < 8; ++i) {
    blockers.emplace_back(timers, [] { block_for(40ms); });
    blockers.back().arm(i * 50ms);
  }
  run_out();
}

TEST_F(never_early, while_phases_and_handlers_block) {
  open();
  constexpr int at_a_time = 20'000;
  const std::size_t fires = by_run_length(300'000, 10'000'000);
  const std::size_t fires_between_blocks = by_run_length(20'000, 50'000);
  add(at_a_time, 40ms, static_cast<int>(fires / at_a_time));
  std::size_t blocks = 0;
  const auto block = [&] {
    block_for(50ms);
    ++blocks;
  };
  // seen to once a millisecond, as often as the loop turns for its timers
  std::size_t asked = 0;
  probe blocker{timers};
  blocker.then = [&] {
    const std::uint64_t fired = timers.stats().fired;
    if (fired >= (asked + 1) * fires_between_blocks) {
      const std::size_t where = asked++ % (std::size(all_phases) + 1);
      if (where == std::size(all_phases))
        block();
      else
        loop.once_in(all_phases[where], block);
    }
    if (asked < fires / fires_between_blocks) blocker.arm(1ms);
  };
  blocker.arm(1ms);
  run_out(2min);
  EXPECT_EQ(blocks, fires / fires_between_blocks);
}

TEST_F(never_early, while_signals_interrupt_the_poll) {
  const signal_storm now;
  open();
  add(50, 60ms, 10);
  run_out();
}

TEST_F(never_early, while_the_loop_is_woken_all_the_time) {
  open();
  add(50, 40ms, 5);
  live_loop::hook& spin = loop.each_idle({});
  probe end{timers, 100ms, [&] { spin.close(); }};
  run_out();
}

TEST_F(never_early, median_lateness_of_an_idle_loop_is_small) {
  open();
  std::vector<nanoseconds> late;
  time_point due;
  p.then = [&] {
    late.push_back(tickwheel::clock::now() - due);
    if (late.size() == 51) return;
    due = tickwheel::clock::now() + 5ms;
    p.arm(5ms);
  };
  due = tickwheel::clock::now() + 5ms;
  p.arm(5ms);
  loop.run();
  ASSERT_EQ(late.size(), 51U);
  std::sort(late.begin(), late.end());
  EXPECT_GE(late.front(), 0ns);
  EXPECT_LE(late[25], 20ms);
}

TEST_F(loop_now, is_never_ahead_and_not_far_behind) {
  open();
  nanoseconds least_behind = nanoseconds::max();
  int looks = 0;
  const auto look = [&] {
    const auto stamp = timers.now();
    const auto now = tickwheel::clock::now();
    EXPECT_LE(stamp, now);
    least_behind = std::min<nanoseconds>(least_behind, now - stamp);
    ++looks;
  };
  p.then = [&] {
    look();
    if (p.fired < 50) p.arm(3ms);
  };
  p.arm(3ms);
  loop.each_prepare(look);
  loop.each_check(look);
  loop.run();
  EXPECT_GE(looks, 150);
  EXPECT_LE(least_behind, 5ms);
}

TEST_F(loop_now, is_constant_within_a_callback) {
  open();
  loop.once_in(phase::io, [&] {
    const auto stamp = timers.now();
    block_for(5ms);
    EXPECT_EQ(timers.now(), stamp);
  });
  loop.run();
}

// What a peer sent is no younger than the time at which it is touched, however short the poll was: else its silence
// would be counted from before it spoke.
TEST_F(loop_now, is_not_older_than_input) {
  open();
  socket_pair pair;
  int received = 0;
  int older = 0;
  loop.on_readable(pair.ours(), [&] {
    time_point sent;
    if (::read(pair.ours(), &sent, sizeof sent) == sizeof sent) {
      // one message an iteration: what arrives while the callback runs has the iteration's time, which is earlier
      older += timers.now() < sent;
      ++received;
    }
  });
  std::thread peer{[&] {
    for (int sent = 0; sent < 5000;) {
      const time_point now = tickwheel::clock::now();
      sent += ::write(pair.theirs(), &now, sizeof now) == ssize_t{sizeof now};  // or the loop is far behind
      std::this_thread::sleep_for(20us);
    }
  }};
  while (received < 5000) uv_run(loop.get(), UV_RUN_ONCE);
  peer.join();
  EXPECT_EQ(older, 0);
}

TEST_F(never_early, arm_at_now_plus_delay) {
  open();
  time_point due;
  p.then = [&] {
    EXPECT_GE(tickwheel::clock::now(), due);
    if (p.fired == 30) return;
    due = timers.now() + 3ms;
    EXPECT_EQ(p.timeout.arm_at(due), 0);
  };
  due = timers.now() + 3ms;
  ASSERT_EQ(p.timeout.arm_at(due), 0);
  loop.run();
  EXPECT_EQ(p.fired, 30);
}

// libuv runs the prepare handle that was started first last. What it stamps is older than what the poll brings.
TEST_F(loop_now, stamp_of_later_prepare_is_not_kept) {
  loop.each_prepare([&] {
    if (timers.is_open()) timers.now();
  });
  open();
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

// Of several attempts one must be undisturbed by what else the machine does.
TEST_F(loop_now, responsive_time_goes_on_while_loop_waits) {
  constexpr nanoseconds wait = 50ms;
  nanoseconds least = nanoseconds::max();
  for (int i = 0; i < 7 && least > 0ns; ++i) {
    timers.close();
    open();
    p.arm(wait);
    loop.run();
    EXPECT_EQ(p.fired, i + 1);
    least = std::min(least, timers.stalled_for());
  }
  EXPECT_EQ(least, 0ns);
}

TEST_F(never_early, interval_keeps_its_rate_after_a_block) {
  struct metronome {
    explicit metronome(timer_service& timers) : interval{timers, *this} {}
    void on_beat() noexcept {
      beats.push_back(tickwheel::clock::now());
      if (beats.size() == 3) block_for(45ms);
      if (beats.size() == 10) interval.cancel();
    }
    std::vector<time_point> beats;
    tickwheel::interval_timer<&metronome::on_beat> interval;
  };
  open();
  metronome m{timers};
  const auto begin = tickwheel::clock::now();
  ASSERT_EQ(m.interval.start(10ms), 0);
  loop.run();
  ASSERT_EQ(m.beats.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_GE(m.beats[i], begin + static_cast<int>(i + 1) * 10ms);
  EXPECT_GE(m.beats.back(), begin + 130ms) << "four periods were missed, of which one was called late";
}

}  // namespace
