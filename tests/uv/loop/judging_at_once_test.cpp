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
  void SetUp() override {
    uv_check_init(&static_cast<uv_loop_t&>(loop), &before_ours);
    before_ours.data = this;
    ASSERT_EQ(timers.open(loop), 0);
    wakeups_before = timers.stats().wakeups;
  }
  void TearDown() override { uv_close(reinterpret_cast<uv_handle_t*>(&before_ours), nullptr); }
  /// Calls `call` once, when `p` is due, before our check callback.
  void in_check_when_due(std::function<void()> call) {
    on_check = std::move(call);
    uv_check_start(&before_ours, [](uv_check_t* h) {
      auto& self = *static_cast<at_once*>(h->data);
      if (self.loop.now() < self.p.timeout.deadline()) return;
      uv_check_stop(h);
      self.on_check();
    });
    uv_unref(reinterpret_cast<uv_handle_t*>(&before_ours));
  }
  /// Turns at least for that time. `far` holds the loop meanwhile.
  void turn_for(nanoseconds time) {
    far.arm(1h);
    const time_point end = loop.now() + time;
    while (loop.now() <= end) loop.turn();
  }
  int turns_until_fired() {
    int turns = 0;
    for (; p.fired == 0 && turns < 10; ++turns) loop.turn();
    return turns;
  }

  turned_loop loop{GetParam()};
  timer_service timers;
  probe p{timers};
  probe far{timers};
  std::uint64_t wakeups_before = 0;
  uv_check_t before_ours;
  std::function<void()> on_check;
};

TEST_P(at_once, timer_fires_in_iteration_that_waited_for_it) {
  const tickwheel::remote_hold holds_loop = timers.hold();
  p.then = [&] { far.timeout.cancel(); };
  p.arm(10ms);
  EXPECT_EQ(turns_until_fired(), 1);
  EXPECT_EQ(timers.stats().wakeups - wakeups_before, 1U);
  EXPECT_LT(uv_backend_timeout(&static_cast<uv_loop_t&>(loop)), 0) << "a wakeup is left";
}

TEST_P(at_once, input_that_poll_left_saves_timer) {
  loop.read_at_most(1);
  for (nanoseconds delay = 10ms; delay < 11ms; delay += 100us) {
    p.arm(delay);
    const time_point due = loop.now() + delay;
    loop.readable_at(due - 1ns, [&] { loop.block(300us); });
    loop.readable_at(due - 1ns, [&] { p.timeout.cancel(); });
    turn_for(20ms);
    EXPECT_EQ(p.fired, 0);
  }
}

// The poll returns when its wait is over, which is up to a millisecond after the deadline.
TEST_P(at_once, input_that_poll_left_at_end_of_wait_saves_timer) {
  loop.read_at_most(1);
  p.arm(10ms);
  const time_point end_of_wait = loop.now() + 11ms;
  loop.readable_at(end_of_wait - 1ns, [&] { loop.block(100us); });
  loop.readable_at(end_of_wait - 1ns, [&] { p.timeout.cancel(); });
  turn_for(20ms);
  EXPECT_EQ(p.fired, 0);
}

TEST_P(at_once, input_after_poll_saves_timer_that_was_due_after_it) {
  probe later{timers};
  p.arm(10ms);
  const time_point end_of_wait = loop.now() + 11ms;
  ASSERT_EQ(later.timeout.arm_at(end_of_wait + 20us), 0);
  in_check_when_due([&] {
    loop.readable_at(end_of_wait + 10us, [&] { later.timeout.cancel(); });
    loop.block(240us);
  });
  turn_for(20ms);
  EXPECT_EQ(later.fired, 0);
}

TEST_P(at_once, input_that_came_during_callback_saves_timer) {
  p.arm(10ms);
  const time_point due = loop.now() + 10ms;
  loop.readable_at(due - 2us, [&] { loop.block(300us); });
  loop.readable_at(due - 1us, [&] { p.timeout.cancel(); });
  turn_for(20ms);
  EXPECT_EQ(p.fired, 0);
}

// In a check callback before ours.
TEST_P(at_once, input_after_poll_saves_timer) {
  for (const nanoseconds time : {100us, 500us}) {
    p.arm(10ms);
    in_check_when_due([&] {
      loop.readable_at(loop.now() + time - 1ns, [&] { p.timeout.cancel(); });
      loop.block(time);
    });
    turn_for(20ms);
    EXPECT_EQ(p.fired, 0);
  }
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
  turn_for(2s);
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

TEST_F(at_once_live, sparse_timer_takes_few_system_calls) {
  constexpr int count = 100;
  // one that waits, and a look; a few wakeups are moves between slots
  EXPECT_LE(polls_of(loop, timers, count), 2 * (count + 10U));
}

// The poll looks, and then the thread loses its processor. With UV_RUN_NOWAIT it has not waited.
TEST_F(at_once_live, input_after_poll_that_does_not_wait_saves_timer) {
  const probe holds_loop{timers, 1h};
  const socket_pair pair;
  loop.on_readable(pair.ours(),
                   [&] {
                     pair.receive();
                     p.timeout.cancel();
                   })
      .unref();
  p.arm(10ms);
  for (int i = 0; i < 3; ++i) uv_run(loop.get(), UV_RUN_NOWAIT);
  simulated_clock::after_next_poll([&] {
    pair.peer_sends();
    turned_loop::block(11ms + 50us);  // until the wait would have been over
  });
  for (int i = 0; i < 5; ++i) uv_run(loop.get(), UV_RUN_NOWAIT);
  EXPECT_EQ(p.fired, 0);
}

}  // namespace
