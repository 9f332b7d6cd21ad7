// Idle peers on real sockets: a stall of the loop, in whatever phase, is not the peer's fault.
#include <tickwheel/net/idle_timeout.hpp>

#include "../../uv/support/live_loop.hpp"
#include "../../uv/support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <tuple>

using namespace std::chrono_literals;
using tickwheel::timer_service;

namespace {

using time_point = tickwheel::clock::time_point;
using std::chrono::nanoseconds;

time_point true_now() { return tickwheel::clock::now(); }

/// A connection over a socket, which touches its idle timeout whenever bytes come.
class peer {
 public:
  peer(live_loop& loop, timer_service& timers, nanoseconds limit) : idle{timers, *this}, timers_{timers} {
    reader_ = &loop.on_readable(sockets.ours(), [this] {
      if (!sockets.receive()) return;
      if (evicted == 0) ++reads_before_eviction;
      touched = timers_.now();
      idle.touch();
    });
    started = true_now();
    EXPECT_EQ(idle.start(limit), 0);
  }

  socket_pair sockets;
  int reads_before_eviction = 0;
  int evicted = 0;
  time_point started;
  time_point touched{};
  time_point at{};

 private:
  void on_idle() noexcept {
    ++evicted;
    at = true_now();
    reader_->close();
  }

 public:
  tickwheel::idle_timeout<&peer::on_idle> idle;

 private:
  timer_service& timers_;
  live_loop::hook* reader_ = nullptr;
};

constexpr nanoseconds limit = 50ms;
constexpr nanoseconds block = 100ms;
constexpr nanoseconds noise = 500ms;  // what else the machine does

/// The phase that blocks, and what counts as a stall: with an endless grace only the order, I/O before verdicts, is
/// what saves the peer.
class idle_peer : public testing::TestWithParam<std::tuple<phase, nanoseconds>> {
 protected:
  void SetUp() override { ASSERT_EQ(timers.open(loop, with_wakeup({.stall_grace = std::get<1>(GetParam())})), 0); }
  static phase blocking() { return std::get<0>(GetParam()); }
  static nanoseconds stall() { return std::get<1>(GetParam()) == nanoseconds::max() ? 0ns : block; }

  live_loop loop;
  timer_service timers;
};

TEST_P(idle_peer, byte_during_block_counts) {
  peer p{loop, timers, limit};
  time_point unblocked;
  loop.once_in(blocking(), [&] {
    block_for(10ms);
    p.sockets.peer_sends();
    block_for(block - 10ms);
    unblocked = true_now();
  });
  loop.run();
  EXPECT_EQ(p.reads_before_eviction, 1) << "the peer was evicted though its byte was there";
  ASSERT_EQ(p.evicted, 1);
  EXPECT_GE(p.at, p.touched + limit);
  EXPECT_LE(p.at, unblocked + limit + stall() + noise);
}

TEST_P(idle_peer, byte_from_other_thread_during_block_counts) {
  peer p{loop, timers, limit};
  std::thread sender;
  loop.once_in(blocking(), [&] {
    sender = std::thread{[&] {
      block_for(10ms);
      p.sockets.peer_sends();
    }};
    block_for(block);
  });
  loop.run();
  sender.join();
  EXPECT_EQ(p.reads_before_eviction, 1);
  EXPECT_EQ(p.evicted, 1);
  EXPECT_GE(p.at, p.touched + limit);
}

TEST_P(idle_peer, silent_one_gains_no_more_than_stall) {
  peer p{loop, timers, limit};
  loop.once_in(blocking(), [&] { block_for(block); });
  loop.run();
  EXPECT_EQ(p.reads_before_eviction, 0);
  ASSERT_EQ(p.evicted, 1);
  EXPECT_GE(p.at, p.started + limit);
  EXPECT_LE(p.at, p.started + block + limit + stall() + noise);
}

TEST_P(idle_peer, byte_counts_beside_silent_peers) {
  std::deque<peer> silent;
  for (int i = 0; i < 5; ++i) silent.emplace_back(loop, timers, limit);
  std::deque<peer> active;
  for (int i = 0; i < 5; ++i) active.emplace_back(loop, timers, limit);
  loop.once_in(blocking(), [&] {
    block_for(10ms);
    for (peer& p : active) p.sockets.peer_sends();
    block_for(block - 10ms);
  });
  loop.run();
  for (const peer& p : active) {
    EXPECT_EQ(p.reads_before_eviction, 1);
    EXPECT_GE(p.at, p.touched + limit);
  }
  for (const peer& p : silent) EXPECT_EQ(p.evicted, 1);
}

INSTANTIATE_TEST_SUITE_P(blocks_in, idle_peer,
                         testing::Combine(testing::ValuesIn(all_phases),
                                          testing::Values(nanoseconds{10ms}, nanoseconds::max())),
                         [](const auto& of) {
                           const bool graced = std::get<1>(of.param) != nanoseconds::max();
                           return std::string{name_of(std::get<0>(of.param))} + (graced ? "" : "_on_the_plain_clock");
                         });

class idle_peer_on_live_loop : public testing::Test {
 protected:
  void open(const tickwheel::service_options& options = {}) { ASSERT_EQ(timers.open(loop, with_wakeup(options)), 0); }

  live_loop loop;
  timer_service timers;
};

TEST_F(idle_peer_on_live_loop, byte_soon_after_block_counts) {
  // 20 ms into its limit the loop stalls for longer than that; the peer, which knows of no stall, sends 20 ms after it
  open();
  peer p{loop, timers, 200ms};
  loop.after(20ms, [&] {
    block_for(250ms);
    loop.after(20ms, [&] { p.sockets.peer_sends(); });
  });
  loop.run();
  EXPECT_EQ(p.reads_before_eviction, 1);
  EXPECT_GE(timers.stats().stalls, 1U);
}

TEST_F(idle_peer_on_live_loop, byte_behind_blocking_timer_handler_counts) {
  // the handler of one of our own timers blocks, in the very pass that the peer's limit runs out in
  open({.work_per_pass = 1, .stall_grace = nanoseconds::max()});
  peer p{loop, timers, limit};
  probe blocker{timers, [&] {
                  p.sockets.peer_sends();
                  block_for(block);
                }};
  ASSERT_EQ(blocker.timeout.arm(30ms), 0);
  loop.run();
  EXPECT_EQ(p.reads_before_eviction, 1);
  EXPECT_GE(p.at, p.touched + limit);
}

TEST_F(idle_peer_on_live_loop, byte_behind_blocking_io_callback_counts) {
  // the pass belongs to an iteration whose poll came before the block: it must judge by the time before its poll
  open({.stall_grace = nanoseconds::max()});
  peer p{loop, timers, limit};
  probe due{timers};
  socket_pair other;
  live_loop::hook& blocker = loop.on_readable(other.ours(), {});
  blocker.call = [&] {
    blocker.stop();
    EXPECT_EQ(due.fired, 0);
    block_for(10ms);
    p.sockets.peer_sends();
    block_for(block - 10ms);
  };
  ASSERT_EQ(due.timeout.arm(2ms), 0);
  loop.once_in(phase::prepare, [&] {
    block_for(5ms);
    other.peer_sends();
  });
  loop.run();
  EXPECT_EQ(due.fired, 1);
  EXPECT_EQ(p.reads_before_eviction, 1);
  EXPECT_EQ(p.evicted, 1);
}

TEST_F(idle_peer_on_live_loop, only_silent_peer_is_evicted) {
  open();
  peer talks{loop, timers, 150ms};
  peer silent{loop, timers, 150ms};
  probe clock_of_peer{timers};
  clock_of_peer.then = [&] {
    talks.sockets.peer_sends();
    if (clock_of_peer.fired < 20) (void)clock_of_peer.timeout.arm(20ms);
  };
  ASSERT_EQ(clock_of_peer.timeout.arm(20ms), 0);
  loop.run();
  EXPECT_EQ(silent.evicted, 1);
  EXPECT_GE(silent.at, silent.started + 150ms);
  EXPECT_EQ(talks.reads_before_eviction, 20);
  EXPECT_GE(talks.at, talks.touched + 150ms);
}

TEST_F(idle_peer_on_live_loop, update_of_libuvs_time_evicts_nobody_early) {
  // as it does by itself between one batch of a thousand events and the next: what the touch took for a stall must stay one
  open();
  peer p{loop, timers, 200ms};
  time_point heard;
  loop.once_in(phase::io, [&] {
    block_for(100ms);
    timers.update_now();
    heard = true_now();
    p.idle.touch();
    uv_update_time(loop.get());
  });
  loop.run();
  ASSERT_EQ(p.evicted, 1);
  EXPECT_GE(p.at, heard + 200ms);
}

}  // namespace
