// A poll that waited for a timer is followed by the pass at once, if no input can be left. On simulated time.
#include "../support/probe.hpp"
#include "../support/turned_loop.hpp"

#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

using tickwheel::timer_service;

namespace {

using std::chrono::nanoseconds;
using time_point = tickwheel::clock::time_point;

// --- in both orders of libuv's phases ---

class at_once : public testing::TestWithParam<loop_order> {
 protected:
  void SetUp() override { ASSERT_EQ(timers.open(loop), 0); }
  int turns_until_fired() {
    int turns = 0;
    for (; p.fired == 0 && turns < 10; ++turns) loop.turn();
    return turns;
  }

  turned_loop loop{GetParam()};
  timer_service timers;
  probe p{timers};
};

TEST_P(at_once, timer_fires_in_iteration_that_waited_for_it) {
  p.arm(10ms);
  EXPECT_EQ(turns_until_fired(), 1);
  EXPECT_EQ(timers.stats().wakeups, 1U);
  const tickwheel::remote_hold holds_loop = timers.hold();
  EXPECT_LT(uv_backend_timeout(&static_cast<uv_loop_t&>(loop)), 0) << "a wakeup is left";
}

TEST_P(at_once, input_that_poll_left_saves_timer) {
  loop.read_at_most(1);
  p.arm(10ms);
  const time_point due = loop.now() + 10ms;
  loop.readable_at(due - 1ns, [&] { loop.block(300us); });
  loop.readable_at(due - 1ns, [&] { p.timeout.cancel(); });
  loop.run();
  EXPECT_EQ(p.fired, 0);
}

TEST_P(at_once, input_that_came_during_callback_saves_timer) {
  p.arm(10ms);
  const time_point due = loop.now() + 10ms;
  loop.readable_at(due - 2us, [&] { loop.block(300us); });
  loop.readable_at(due - 1us, [&] { p.timeout.cancel(); });
  loop.run();
  EXPECT_EQ(p.fired, 0);
}

TEST_P(at_once, timer_still_waits_for_two_polls_after_a_block) {
  p.arm(50ms);
  loop.once_in(phase::check, place::after, loop.now() + 10ms, [&] { loop.block(20ms); });
  loop.turn();
  // one that waits, and two that leave nothing unread
  EXPECT_EQ(turns_until_fired(), 3);
}

TEST_P(at_once, lateness_is_that_of_the_poll) {
  tickwheel::expiry_report report;
  p.then = [&] { report = timers.why(); };
  p.arm(10ms);
  EXPECT_EQ(turns_until_fired(), 1);
  EXPECT_TRUE(adds_up(report));
  EXPECT_EQ(report.stall, 0ns);
  EXPECT_EQ(report.carried, 0ns);
}

// Many short callbacks, none of which is a block.
TEST_P(at_once, short_callbacks_leave_no_peer_unheard) {
  std::mt19937 random{11};
  const auto up_to = [&](nanoseconds most) {
    return nanoseconds{random() % static_cast<std::uint64_t>(most.count() + 1)};
  };
  constexpr int peers = 2000;
  int heard = 0, unheard = 0;
  std::deque<probe> all;
  const time_point begin = loop.now();
  for (int i = 0; i < peers; ++i) {
    probe& timeout = all.emplace_back(timers);
    const time_point due = begin + 1ms + up_to(1s);
    ASSERT_EQ(timeout.timeout.arm_at(due), 0);
    loop.readable_at(due - up_to(500us), [&, time = up_to(200us)] {
      if (timeout.timeout.cancel())
        ++heard;
      else
        ++unheard;
      loop.block(time);
    });
  }
  loop.run();
  EXPECT_EQ(unheard, 0);
  EXPECT_EQ(heard, peers);
}

INSTANTIATE_TEST_SUITE_P(of_libuv, at_once, testing::ValuesIn(both_orders),
                         [](const auto& of) { return std::string{name_of(of.param)}; });

// --- on libuv's own loop ---

struct at_once_live : testing::Test {
  at_once_live() {
    simulated_clock::set(1000s + 345'678ns);
    simulated_clock::wait_at_most_until(24h);
    EXPECT_EQ(timers.open(loop), 0);
    uv_run(loop.get(), UV_RUN_NOWAIT);
  }

  /// Calls `call` before our check callback, in the iteration whose poll waited for the timer.
  void in_check_after_wait(live_loop::action call) {
    loop.each_check([this, call = std::move(call), done = false]() mutable {
      if (done || tickwheel::clock::now() < p.timeout.deadline()) return;
      done = true;
      call();
    });
  }

  const simulated_clock::scope simulated;
  live_loop loop;
  timer_service timers;
  probe p{timers};
};

TEST_F(at_once_live, descriptor_that_is_read_from_now_on_saves_timer) {
  const socket_pair pair;
  pair.peer_sends();
  p.arm(10ms);
  in_check_after_wait([&] {
    loop.on_readable(pair.ours(), [&] {
      p.timeout.cancel();
      loop.stop();
    });
  });
  loop.run();
  EXPECT_EQ(p.fired, 0);
}

TEST_F(at_once_live, failure_that_libuv_has_yet_to_tell_saves_timer) {
  struct connection {
    uv_pipe_t pipe;
    uv_connect_t request;
    at_once_live& self;
  } connecting{{}, {}, *this};
  ASSERT_EQ(uv_pipe_init(loop.get(), &connecting.pipe, 0), 0);
  connecting.request.data = &connecting;
  p.arm(10ms);
  in_check_after_wait([&] {
    uv_pipe_connect(&connecting.request, &connecting.pipe, "/nowhere/at/all", [](uv_connect_t* request, int error) {
      EXPECT_EQ(error, UV_ENOENT);
      auto& to = *static_cast<connection*>(request->data);
      to.self.p.timeout.cancel();
      uv_close(reinterpret_cast<uv_handle_t*>(&to.pipe), nullptr);
    });
  });
  loop.run();
  EXPECT_EQ(p.fired, 0);
}

/// Calls of epoll for `count` timers, 10 ms apart. None is due while another runs.
std::size_t polls_of(live_loop& loop, timer_service& timers, int count) {
  const probes all{timers, count, [](int i) { return (i + 1) * 10ms; }};
  const std::size_t before = simulated_clock::polls();
  loop.run();
  EXPECT_TRUE(all.each_fired_once());
  return simulated_clock::polls() - before;
}

TEST_F(at_once_live, sparse_timer_takes_two_system_calls) {
  constexpr int count = 100;
  EXPECT_LE(polls_of(loop, timers, count), 2 * (count + 10U));  // a few are moves between slots
}

}  // namespace
