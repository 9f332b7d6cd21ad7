// Idle peers on real sockets: a stall of the loop is not the peer's fault. stall_loop_test.cpp has a stall in each phase.
#include "../../uv/support/live_test.hpp"
#include "../support/awaited.hpp"

using tickwheel::timer_service;

namespace {

using std::chrono::nanoseconds;

/// A peer of an idle timeout, on a socket.
struct peer : awaited {
  peer(live_loop& loop, timer_service& timers, nanoseconds limit) : awaited{timers, means::idle_timeout} {
    live_loop::hook& reader = loop.on_readable(sockets.ours(), [this] {
      if (sockets.receive()) received();
    });
    reader.unref();  // the idle timeout holds the loop
    start(limit);
  }
  socket_pair sockets;
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
  EXPECT_EQ(one.heard, 1);
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
  EXPECT_EQ(one.heard, 1);
  ASSERT_TRUE(one.timed_out);
  EXPECT_GE(*one.timed_out, one.last + limit);
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
  EXPECT_EQ(one.heard, 1);
  EXPECT_TRUE(one.timed_out);
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
  ASSERT_TRUE(silent.timed_out);
  EXPECT_GE(*silent.timed_out, silent.started + 150ms);
  EXPECT_EQ(talks.heard, 20);
  ASSERT_TRUE(talks.timed_out);
  EXPECT_GE(*talks.timed_out, talks.last + 150ms);
}

TEST_F(idle_peer, update_of_libuvs_time_evicts_nobody_early) {
  // as it does by itself between one batch of a thousand events and the next: what the touch took for a stall must stay one
  open();
  peer one{loop, timers, 200ms};
  loop.once_in(phase::io, [&] {
    block_for(100ms);
    timers.update_now();
    one.received();
    uv_update_time(loop.get());
  });
  loop.run();
  ASSERT_TRUE(one.timed_out);
  EXPECT_GE(*one.timed_out, one.last + 200ms);
}

}  // namespace
