// Awaitable sockets on a live loop that was blocked: bytes that had come by then are read before a limit ends the read.
#include <tickwheel/uv/awaitable_tcp.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include "../support/connected_sockets.hpp"

namespace {

/// The service is on the loop, and the peers are connected.
class tcp_stall : public tcp_test {
 protected:
  void SetUp() override {
    ASSERT_EQ(live.open(loop, with_wakeup({.stall_grace = 10ms})), 0);
    connect_with(live);
  }
  void TearDown() override {
    ours.close();
    listener.close();
    theirs.close();
    live.close();
  }

  void connect_with(tickwheel::timer_service& by) {
    ours.close();
    ASSERT_EQ(ours.open(by), 0);
    connect();
  }

  static constexpr auto limit = 60ms, block = 150ms;
  tickwheel::timer_service live;
};

class tcp_stall_in : public tcp_stall, public testing::WithParamInterface<phase> {};

TEST_P(tcp_stall_in, phase_does_not_end_read_whose_bytes_have_come) {
  for (const bool is_length : {true, false}) {
    got = unset;
    const routine r =
        is_length ? read_into(got, ours, buffer, limit) : read_into(got, ours, buffer, live.now() + limit);
    loop.once_in(GetParam(), [&] {
      peer_sends("x");
      block_for(block);
    });
    turn_until([&] { return r.done(); });
    EXPECT_EQ(got, 1);
  }
}

TEST_P(tcp_stall_in, phase_is_not_charged_to_silent_peer) {
  const auto began = live.read_clock();
  tickwheel::clock::time_point ended;
  const auto read = [&]() -> routine {
    got = co_await ours.read(buffer, limit);
    ended = live.judged_at();
  };
  const routine r = read();
  loop.once_in(GetParam(), [&] { block_for(block); });
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, UV_ETIMEDOUT);
  EXPECT_GE(ended, began + limit + block - 20ms) << "the grace, and the iteration before the read";
}

TEST_P(tcp_stall_in, phase_begins_read_with_passed_limit_that_takes_bytes) {
  for (const std::chrono::nanoseconds length : {-1s, 0s, 1s}) {
    got = unset;
    peer_sends("x");
    probe other{live, 0s};  // a pass is due in the iteration that begins the read
    block_for(1ms);
    std::optional<routine> r;
    loop.once_in(GetParam(), [&] {
      const tickwheel::tcp_limit passed = length <= 0s ? tickwheel::tcp_limit{length} : live.read_clock() - length;
      r.emplace(read_into(got, ours, buffer, passed));
    });
    turn_until([&] { return r && r->done(); });
    EXPECT_EQ(got, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(of, tcp_stall_in, testing::ValuesIn(all_phases),
                         [](const auto& of) { return std::string{name_of(of.param)}; });

TEST_F(tcp_stall, read_with_limit_of_zero_takes_bytes_that_are_there) {
  peer_sends("x");
  const routine r = read_into(got, ours, buffer, 0s);
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, 1);
}

TEST_F(tcp_stall, time_point_that_passed_in_block_ends_read_of_silent_peer) {
  const auto began = live.read_clock();
  const routine r = read_into(got, ours, buffer, began + limit);
  loop.once_in(phase::io, [&] { block_for(block); });
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, UV_ETIMEDOUT);
}

TEST_F(tcp_stall, limit_wakes_loop_that_waits) {
  const auto began = live.read_clock();
  const routine r = read_into(got, ours, buffer, 20ms);
  while (!r.done()) uv_run(loop.get(), UV_RUN_ONCE);
  EXPECT_EQ(got, UV_ETIMEDOUT);
  EXPECT_GE(live.read_clock(), began + 20ms - 10ms);
}

}  // namespace
