// Stalls in both orders of libuv's phases, whichever libuv is installed, with nothing left to chance: bounds are exact.
#include "../../uv/support/turned_loop.hpp"
#include "../support/awaited.hpp"
#include "../support/owner.hpp"

#include <tickwheel/net/minimum_rate.hpp>
#include <tickwheel/uv/timer_service.hpp>

using tickwheel::timer_service;

namespace {

using std::chrono::nanoseconds;
using time_point = tickwheel::clock::time_point;

constexpr nanoseconds limit = 50ms;
constexpr nanoseconds block = 120ms;
constexpr nanoseconds grace = 10ms;
constexpr nanoseconds bound = nanoseconds{1 << 17} + 1ms;  // a tick, and a millisecond of poll granularity

struct blocked {
  loop_order order;
  phase where;
  place side;
  nanoseconds stall_grace;
};

// A prepare callback that runs after ours: libuv waits too long then, and what it takes cannot be told from waiting. Only
// the order of things, I/O before verdicts, saves a peer there.
bool is_unseen(const blocked& b) { return b.where == phase::prepare && b.side == place::after; }

std::vector<blocked> blocks() {
  std::vector<blocked> all;
  for (const loop_order order : both_orders)
    for (const phase where : all_phases)
      for (const place side : both_places)
        for (const nanoseconds stall_grace : {grace, nanoseconds::max()})
          all.push_back({order, where, side, stall_grace});
  return all;
}

std::string name_of_block(const testing::TestParamInfo<blocked>& of) {
  return std::string{name_of(of.param.order)} + "_blocked_in_" + name_of(of.param.where) + "_" +
         name_of(of.param.side) + "_ours" + (of.param.stall_grace == grace ? "" : "_on_the_plain_clock");
}

class block_of_loop : public testing::TestWithParam<blocked> {
 protected:
  void SetUp() override { ASSERT_EQ(timers.open(loop, {.stall_grace = GetParam().stall_grace}), 0); }
  void blocks_at(time_point when, std::function<void()> meanwhile = {}) {
    loop.once_in(GetParam().where, GetParam().side, when, [this, meanwhile] {
      if (meanwhile) meanwhile();
      loop.block(block);
    });
  }

  /// By each means, a thousand peers `send` a byte when the loop is about to block. Their limit ends at the time it is given.
  template <class Send>
  void expect_all_to_be_heard(Send send) {
    for (const means by : all_means) {
      std::deque<awaited> peers;
      for (int i = 0; i < 1000; ++i) peers.emplace_back(timers, by).start(limit);
      const time_point begin = loop.now();
      blocks_at(begin + 20ms, [&] { send(peers, begin + limit); });
      loop.run();
      int heard = 0;
      for (const awaited& p : peers) heard += p.heard;
      EXPECT_EQ(heard, 1000) << "by " << by;
    }
  }

  turned_loop loop{GetParam().order};
  timer_service timers;
};

TEST_P(block_of_loop, all_bytes_that_came_during_it_are_heard) {
  expect_all_to_be_heard([&](std::deque<awaited>& peers, time_point) {
    // one after the other, the last just before its limit
    for (std::size_t i = 0; i < peers.size(); ++i)
      loop.readable_at(loop.now() + 29ms * (i + 1) / 1000, [&peers, i] { peers[i].received(); });
  });
}

TEST_P(block_of_loop, silent_peer_gains_no_more_than_it_lasted) {
  for (const means by : all_means) {
    awaited silent{timers, by};
    silent.start(limit);
    blocks_at(loop.now() + 20ms);
    loop.run();
    ASSERT_TRUE(silent.timed_out);
    EXPECT_GE(*silent.timed_out, silent.started + limit);
    const bool is_put_off = (by == means::idle_timeout && GetParam().stall_grace == grace) || is_unseen(GetParam());
    EXPECT_LE(*silent.timed_out, silent.started + (is_put_off ? limit + block : 20ms + block) + bound) << "by " << by;
  }
}

TEST_P(block_of_loop, byte_is_heard_with_a_pass_in_each_iteration) {
  // the pass was due before the block: it judges by the time before its poll
  for (const means by : all_means) {
    awaited peer{timers, by};
    peer.start(limit);
    tickwheel::callback_timer busy{timers, [&](tickwheel::timer& self) noexcept {
                                     if (peer.heard == 0 && !peer.timed_out) (void)self.arm(0ns);
                                     loop.block(200us);  // more than a tick: due by the next iteration
                                   }};
    ASSERT_EQ(busy.arm(0ns), 0);
    const time_point begin = loop.now();
    blocks_at(begin + 20ms, [&] { loop.readable_at(begin + limit - 1ns, [&] { peer.received(); }); });
    loop.run();
    EXPECT_EQ(peer.heard, 1) << "by " << by;
  }
}

TEST_P(block_of_loop, all_are_heard_though_poll_reads_only_some) {
  if (is_unseen(GetParam())) GTEST_SKIP() << "such a block is not seen";
  loop.read_at_most(32);
  expect_all_to_be_heard([&](std::deque<awaited>& peers, time_point due) {
    for (awaited& p : peers) loop.readable_at(due - 1ns, [&p] { p.received(); });
  });
}

TEST_P(block_of_loop, stall_does_not_count_for_peer_that_sends_after_it) {
  if (is_unseen(GetParam()) || GetParam().stall_grace != grace) GTEST_SKIP() << "such a block is no stall";
  awaited peer{timers, means::idle_timeout};
  peer.start(limit);
  blocks_at(loop.now() + 20ms);
  loop.readable_at(loop.now() + 20ms + block + 15ms, [&] { peer.received(); });
  loop.run();
  EXPECT_EQ(peer.heard, 1);
}

INSTANTIATE_TEST_SUITE_P(of_a_loop, block_of_loop, testing::ValuesIn(blocks()), name_of_block);

class slow_loop : public testing::TestWithParam<loop_order> {};

/// A peer that sends now and then.
struct talker {
  talker(timer_service& service, means by) : awaits{service, by} {}
  void sends(turned_loop& loop, time_point when) {
    sent.push_back(when);
    loop.readable_at(when, [this] {
      if (awaits.timed_out) return;
      sent.pop_front();
      awaits.received();
    });
  }
  awaited awaits;
  std::deque<time_point> sent;  // when what was not read in time was sent
};

// Blocks of random lengths in random phases: of who is given up nothing was there to be read that had come in time, and
// nobody is kept for longer than the limit and all that the loop was blocked.
TEST_P(slow_loop, by_random_blocks_gives_up_no_peer_unheard) {
  std::mt19937 random{7};
  const auto up_to = [&](nanoseconds most) {
    return nanoseconds{random() % static_cast<std::uint64_t>(most.count() + 1)};
  };
  int given_up = 0;
  int heard = 0;
  for (int round = 0; round < 100; ++round) {
    turned_loop loop{GetParam()};
    timer_service timers;
    ASSERT_EQ(timers.open(loop, {.stall_grace = round % 2 == 0 ? grace : nanoseconds::max()}), 0);
    const time_point begin = loop.now();
    nanoseconds blocked{};
    for (int i = 0; i < 12; ++i) {
      loop.once_in(all_phases[random() % 6], both_places[random() % 2], begin + up_to(600ms), [&, time = up_to(100ms)] {
        loop.block(time);
        blocked += time;
      });
    }
    std::deque<talker> talkers;
    for (std::size_t i = 0; i < 40; ++i) {
      talker& t = talkers.emplace_back(timers, all_means[i % std::size(all_means)]);
      t.awaits.start(limit);
      for (time_point at = begin + up_to(limit); at < begin + 400ms; at += up_to(limit + 5ms)) t.sends(loop, at);
    }
    loop.run();
    for (const talker& t : talkers) {
      const awaited& a = t.awaits;
      heard += a.heard;
      if (!a.timed_out) continue;
      ++given_up;
      EXPECT_GE(*a.timed_out, a.last + limit);
      EXPECT_LE(*a.timed_out, a.last + limit + blocked + bound);
      if (!t.sent.empty()) {
        EXPECT_GT(t.sent.front(), a.last + limit) << "a byte had come in time";
      }
    }
  }
  EXPECT_GE(given_up, 100);
  EXPECT_GE(heard, 100);
}

// After the block each poll leaves something unread, so that the verdict waits. It is as of a time long before its notification.
TEST_P(slow_loop, notifies_again_a_limit_after_a_late_notification) {
  turned_loop loop{GetParam()};
  loop.read_at_most(1);
  timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  owner_of<tickwheel::idle_timeout<&owner::on_time>> silent{timers};
  std::vector<time_point> told;
  silent.then = [&] {
    told.push_back(loop.now());
    if (told.size() == 3) return;
    EXPECT_EQ(silent.timer.notify_again(), 0);
  };
  ASSERT_EQ(silent.timer.start(limit), 0);
  const time_point begin = loop.now();
  loop.readable_at(begin + limit - 5ms, [&] { loop.block(500ms); });
  for (nanoseconds after = limit; after < 2s; after += 1ms) loop.readable_at(begin + after, [&] { loop.block(990us); });
  loop.run();
  ASSERT_EQ(told.size(), 3U);
  EXPECT_GT(told[0], begin + 600ms) << "the verdict has not waited";
  for (const std::size_t i : {1U, 2U}) EXPECT_GE(told[i] - told[i - 1], limit);
}

TEST_P(slow_loop, gives_up_after_as_many_graces_as_limit_has_in_each_phase) {
  for (const phase where : all_phases) {
    turned_loop loop{GetParam()};
    timer_service timers;
    ASSERT_EQ(timers.open(loop, {.stall_grace = grace}), 0);
    awaited silent{timers, means::idle_timeout};
    silent.start(limit);
    int iterations = 0;
    std::function<void()> slow = [&] {
      if (silent.timed_out) return;
      ++iterations;
      loop.block(50ms);
      loop.once_in(where, place::before, loop.now(), slow);
    };
    loop.once_in(where, place::before, loop.now(), slow);
    loop.run();
    ASSERT_TRUE(silent.timed_out);
    EXPECT_GE(*silent.timed_out, silent.started + limit);
    EXPECT_LE(iterations, limit / grace + 3) << "slow in " << where;
  }
}

/// Pauses after the limit has run out, before that is judged. A byte comes meanwhile. An I/O callback of an iteration in which a pass is
/// due resumes.
template <class Timer, class Start>
void expect_byte_of_pause_to_be_heard(loop_order order, Start start) {
  turned_loop loop{order};
  timer_service timers;
  ASSERT_EQ(timers.open(loop, {.stall_grace = nanoseconds::max()}), 0);
  owner_of<Timer> peer{timers};
  tickwheel::callback_timer other{timers, []() noexcept {}};
  bool heard = false;
  ASSERT_EQ(start(peer.timer), 0);
  loop.once_in(phase::io, place::before, loop.now() + 2ms, [&] {
    loop.block(limit);
    peer.timer.pause();
  });
  const auto resume = [&] {
    peer.timer.resume();
    loop.readable_at(loop.now(), [&] { heard = peer.timer.cancel(); });
  };
  loop.once_in(phase::close, place::before, loop.now() + 10 * limit, [&] {
    EXPECT_EQ(other.arm(0ns), 0);
    loop.block(1ms);
    loop.once_in(phase::io, place::after, loop.now(), resume);
  });
  loop.run();
  EXPECT_TRUE(heard);
  EXPECT_EQ(peer.fired, 0);
}

TEST_P(slow_loop, hears_byte_that_came_during_pause) {
  expect_byte_of_pause_to_be_heard<tickwheel::idle_timeout<&owner::on_time>>(
      GetParam(), [](auto& timer) { return timer.start(limit); });
  expect_byte_of_pause_to_be_heard<tickwheel::minimum_rate<&owner::on_time>>(
      GetParam(), [](auto& timer) { return timer.start({.grace = limit, .interval = limit}); });
}

INSTANTIATE_TEST_SUITE_P(of_libuv, slow_loop, testing::ValuesIn(both_orders),
                         [](const auto& of) { return std::string{name_of(of.param)}; });

}  // namespace
