// Answers on real sockets: one that was there in time is in time, whatever the loop was blocked by.
#include <tickwheel/net/pending_calls.hpp>

#include "../../uv/support/live_test.hpp"

using tickwheel::deadline;

namespace {

/// A call over a socket: any byte is its answer.
struct call : tickwheel::pending_call {
  call(live_loop& loop, tickwheel::timer_service& timers) : pending_call{timers} {
    EXPECT_EQ(pending.open(4), 0);
    reader = &loop.on_readable(sockets.ours(), [this] {
      if (!sockets.receive()) return;
      answered += pending.complete(1) != nullptr;
      reader->close();
    });
  }

  void on_failed(int why) noexcept {
    error = why;
    at = tickwheel::clock::now();
    reader->close();
  }

  socket_pair sockets;
  live_loop::hook* reader = nullptr;
  tickwheel::pending_calls<&call::on_failed> pending;
  int answered = 0;
  int error = 0;
  tickwheel::clock::time_point at{};
};

class pending_calls_loop : public live_test, public testing::WithParamInterface<phase> {
 protected:
  void SetUp() override { open(); }
};

TEST_P(pending_calls_loop, answer_during_block_is_taken) {
  call c{loop, timers};
  ASSERT_EQ(c.pending.start(c, 1, deadline::after(50ms)), 0);
  loop.once_in(GetParam(), [&] {
    block_for(10ms);
    c.sockets.peer_sends();
    block_for(90ms);
  });
  loop.run();
  EXPECT_EQ(c.answered, 1) << "the call expired though its answer was there";
  EXPECT_EQ(c.error, 0);
}

TEST_P(pending_calls_loop, call_without_answer_expires_after_block) {
  call c{loop, timers};
  const auto until = deadline::after(50ms);
  ASSERT_EQ(c.pending.start(c, 1, until), 0);
  loop.once_in(GetParam(), [] { block_for(100ms); });
  loop.run();
  EXPECT_EQ(c.answered, 0);
  EXPECT_EQ(c.error, UV_ETIMEDOUT);
  EXPECT_TRUE(until.passed(c.at));
}

TEST_P(pending_calls_loop, loop_ends_when_last_call_is_answered) {
  call c{loop, timers};
  ASSERT_EQ(c.pending.start(c, 1, deadline::after(1h)), 0);
  c.sockets.peer_sends();
  loop.run();
  EXPECT_EQ(c.answered, 1);
}

INSTANTIATE_TEST_SUITE_P(blocked_in, pending_calls_loop, testing::ValuesIn(all_phases),
                         [](const auto& each) { return std::string{name_of(each.param)}; });

}  // namespace
