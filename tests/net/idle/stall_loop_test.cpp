// A thousand peers on real connections while the loop stalls: whose byte was waiting is heard, whatever waits for it and
// whatever phase was blocked; who is silent is given up, neither early nor later than the stall.
#include "../../uv/support/live_loop.hpp"
#include "../../uv/support/loopback.hpp"
#include "../support/awaited.hpp"

using tickwheel::timer_service;

namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds limit = 60ms;
constexpr nanoseconds block = 120ms;
constexpr nanoseconds noise = 500ms;  // what else the machine does

/// A connection, with something that waits for a byte of it.
struct peer {
  peer(live_loop& loop, timer_service& timers, const socket_pair& connection, means by)
      : awaits{timers, by}, reader{loop.on_readable(connection.ours(), [this, &connection] {
          if (connection.receive()) awaits.received();
        })} {
    reader.unref();  // what waits is to hold the loop
  }
  awaited awaits;
  live_loop::hook& reader;
};

/// The phase that blocks, what waits, and what counts as a stall: with an endless grace only the order, I/O before
/// verdicts, is what saves the peer.
class block_of_loop : public testing::TestWithParam<std::tuple<phase, means, nanoseconds>> {
 protected:
  static constexpr std::size_t talking = 1000;
  static constexpr std::size_t silent = 50;

  static void SetUpTestSuite() {
    if (has_descriptors_for(talking + silent)) connect_peers(connections(), talking + silent);
  }
  static void TearDownTestSuite() { connections().clear(); }

  void SetUp() override {
    if (connections().size() != talking + silent) GTEST_SKIP() << "too few descriptors for as many connections";
    ASSERT_EQ(timers.open(loop, with_wakeup({.stall_grace = std::get<2>(GetParam())})), 0);
    for (const socket_pair& connection : connections())
      peers.emplace_back(loop, timers, connection, std::get<1>(GetParam()));
  }

  static std::deque<socket_pair>& connections() {
    static std::deque<socket_pair> all;
    return all;
  }

  live_loop loop;
  timer_service timers;
  std::deque<peer> peers;
};

TEST_P(block_of_loop, only_silent_ones_of_thousand_peers_are_given_up) {
  const auto [blocks, by, grace] = GetParam();
  tickwheel::clock::time_point blocked, unblocked;
  for (peer& p : peers) p.awaits.start(limit);
  loop.once_in(blocks, [&] {
    blocked = tickwheel::clock::now();
    const auto send_every_other = [](std::size_t from) {
      for (std::size_t i = from; i < talking; i += 2) connections()[i].peer_sends();
    };
    std::thread other{[&] {
      block_for(10ms);
      send_every_other(1);
    }};
    send_every_other(0);
    block_for(block);
    other.join();
    unblocked = tickwheel::clock::now();
  });
  loop.run();
  std::size_t heard = 0;
  for (std::size_t i = 0; i < talking; ++i) heard += static_cast<std::size_t>(peers[i].awaits.heard);
  EXPECT_EQ(heard, talking) << "given up though their byte was there: " << talking - heard;
  const nanoseconds stall = by == means::idle_timeout && grace < block ? unblocked - blocked : 0ns;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const awaited& a = peers[i].awaits;
    const bool is_silent = i >= talking;
    ASSERT_EQ(a.timed_out.has_value(), is_silent || by == means::idle_timeout);
    if (!a.timed_out) continue;
    EXPECT_GE(*a.timed_out, a.last + limit);
    EXPECT_LE(*a.timed_out, (is_silent ? unblocked : a.last) + limit + stall + noise);
  }
}

std::string name_of_case(const testing::TestParamInfo<block_of_loop::ParamType>& of) {
  const auto& [blocks, by, grace] = of.param;
  return std::string{name_of(by)} + "_while_" + name_of(blocks) + "_blocks" +
         (grace == nanoseconds::max() && by == means::idle_timeout ? "_on_the_plain_clock" : "");
}

INSTANTIATE_TEST_SUITE_P(idle, block_of_loop,
                         testing::Combine(testing::ValuesIn(all_phases), testing::Values(means::idle_timeout),
                                          testing::Values(nanoseconds{10ms}, nanoseconds::max())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(requests, block_of_loop,
                         testing::Combine(testing::ValuesIn(all_phases),
                                          testing::Values(means::deadline_timer, means::member_timer,
                                                          means::pending_call),
                                          testing::Values(nanoseconds{10ms})),
                         name_of_case);

/// A loop that is slow in each iteration, in the given phase.
class slow_loop : public testing::TestWithParam<phase> {
 protected:
  /// Runs the loop until a silent peer is given up, which must not come early.
  void run_until_given_up(means by) {
    ASSERT_EQ(timers.open(loop, with_wakeup({.stall_grace = grace})), 0);
    awaited silent{timers, by};
    silent.start(limit);
    be_slow_until_given_up(silent);
    loop.run();
    ASSERT_TRUE(silent.timed_out);
    EXPECT_GE(*silent.timed_out, silent.started + limit);
  }

  static constexpr nanoseconds slowness = 25ms;
  static constexpr nanoseconds grace = 10ms;
  int iterations = 0;
  int iterations_after_limit = 0;

 private:
  void be_slow_until_given_up(const awaited& silent) {
    loop.once_in(GetParam(), [this, &silent] {
      iterations_after_limit += tickwheel::clock::now() >= silent.started + limit;
      if (silent.timed_out) return;
      ++iterations;
      block_for(slowness);
      be_slow_until_given_up(silent);
    });
  }

  live_loop loop;
  timer_service timers;
};

TEST_P(slow_loop, gives_up_idle_peer_after_as_many_graces_as_limit_has) {
  run_until_given_up(means::idle_timeout);
  EXPECT_LE(iterations, limit / grace + 3);
}

TEST_P(slow_loop, gives_up_request_within_iteration_of_deadline) {
  run_until_given_up(means::deadline_timer);
  EXPECT_LE(iterations_after_limit, 3);
}

INSTANTIATE_TEST_SUITE_P(slow_in, slow_loop, testing::ValuesIn(all_phases),
                         [](const auto& of) { return std::string{name_of(of.param)}; });

}  // namespace
