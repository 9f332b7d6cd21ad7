// Idle peers on real sockets: a stall of the loop is not the peer's fault. stall_loop_test.cpp has a stall in each phase.
#include <tickwheel/net/idle_timeout.hpp>

#include "../../uv/support/live_test.hpp"

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

using idle_peer = live_test;

TEST_F(idle_peer, byte_soon_after_block_counts) {
  // 20 ms into its limit the loop stalls for longer than that; the peer, which knows of no stall, sends 20 ms after it
  open();
  peer one{loop, timers, 200ms};
  loop.after(20ms, [&] {
    block_for(250ms);
    loop.after(20ms, [&] { one.sockets.peer_sends(); });
  });
  loop.run();
  EXPECT_EQ(one.reads_before_eviction, 1);
  EXPECT_GE(timers.stats().stalls, 1U);
}

TEST_F(idle_peer, byte_behind_blocking_timer_handler_counts) {
  // the handler of one of our own timers blocks, in the very pass that the peer's limit runs out in
  open({.work_per_pass = 1, .stall_grace = nanoseconds::max()});
  peer one{loop, timers, limit};
  p.then = [&] {
    one.sockets.peer_sends();
    block_for(block);
  };
  p.arm(30ms);
  loop.run();
  EXPECT_EQ(one.reads_before_eviction, 1);
  EXPECT_GE(one.at, one.touched + limit);
}

TEST_F(idle_peer, byte_behind_blocking_io_callback_counts) {
  // the pass belongs to an iteration whose poll came before the block: it must judge by the time before its poll
  open({.stall_grace = nanoseconds::max()});
  peer one{loop, timers, limit};
  socket_pair other;
  live_loop::hook& blocker = loop.on_readable(other.ours(), {});
  blocker.call = [&] {
    blocker.stop();
    EXPECT_EQ(p.fired, 0);
    block_for(10ms);
    one.sockets.peer_sends();
    block_for(block - 10ms);
  };
  p.arm(2ms);
  loop.once_in(phase::prepare, [&] {
    block_for(5ms);
    other.peer_sends();
  });
  loop.run();
  EXPECT_EQ(p.fired, 1);
  EXPECT_EQ(one.reads_before_eviction, 1);
  EXPECT_EQ(one.evicted, 1);
}

TEST_F(idle_peer, only_silent_peer_is_evicted) {
  open();
  peer talks{loop, timers, 150ms};
  peer silent{loop, timers, 150ms};
  p.then = [&] {
    talks.sockets.peer_sends();
    if (p.fired < 20) p.arm(20ms);
  };
  p.arm(20ms);
  loop.run();
  EXPECT_EQ(silent.evicted, 1);
  EXPECT_GE(silent.at, silent.started + 150ms);
  EXPECT_EQ(talks.reads_before_eviction, 20);
  EXPECT_GE(talks.at, talks.touched + 150ms);
}

TEST_F(idle_peer, update_of_libuvs_time_evicts_nobody_early) {
  // as it does by itself between one batch of a thousand events and the next: what the touch took for a stall must stay one
  open();
  peer one{loop, timers, 200ms};
  time_point heard;
  loop.once_in(phase::io, [&] {
    block_for(100ms);
    timers.update_now();
    heard = true_now();
    one.idle.touch();
    uv_update_time(loop.get());
  });
  loop.run();
  ASSERT_EQ(one.evicted, 1);
  EXPECT_GE(one.at, heard + 200ms);
}

}  // namespace
