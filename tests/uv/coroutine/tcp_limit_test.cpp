// Limits of awaitable sockets: when they end an operation, what they cost, and what is left when the service closes.
#include <tickwheel/uv/coroutine.hpp>
#include <tickwheel/uv/remote.hpp>

#include "../support/connected_sockets.hpp"

using tickwheel::tcp_socket;

namespace {

using tcp_limit = tcp_test;

TEST_F(tcp_limit, ends_read_on_time_and_not_early) {
  connect();
  const routine r = read_into(got, ours, buffer, 10ms);
  service.advance(10ms - 1ns);
  EXPECT_EQ(got, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(got, UV_ETIMEDOUT);
}

// The iteration has read its time stamp before, for an operation of another coroutine.
TEST_F(tcp_limit, counts_from_await_after_work_of_same_iteration) {
  connect();
  (void)timers.now();
  service.time.block(9ms);
  const routine r = read_into(got, ours, buffer, 10ms);
  const routine a = accept_into(result, listener, theirs, 10ms);
  service.advance(10ms - 1ns);
  EXPECT_EQ(got, unset);
  EXPECT_EQ(result, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(got, UV_ETIMEDOUT);
  EXPECT_EQ(result, UV_ETIMEDOUT);
}

TEST_F(tcp_limit, of_second_read_counts_from_its_own_await) {
  connect();
  const auto read_twice = [&]() -> routine {
    got = co_await ours.read(buffer, 1s);
    service.time.block(9ms);
    got = co_await ours.read(buffer, 10ms);
  };
  peer_sends("x");
  const routine r = read_twice();
  turn_until([&] { return got == 1; });
  service.advance(10ms - 1ns);
  EXPECT_EQ(got, 1);
  service.advance(1ns + service.tick());
  EXPECT_EQ(got, UV_ETIMEDOUT);
}

TEST_F(tcp_limit, of_read_leaves_socket_open_and_bytes_to_the_next) {
  connect();
  const auto read_twice = [&]() -> routine {
    got = co_await ours.read(buffer, 10ms);
    got = co_await ours.read(buffer, 10ms);
  };
  const routine r = read_twice();
  turn();
  service.advance(11ms);
  EXPECT_EQ(got, UV_ETIMEDOUT);
  EXPECT_TRUE(ours.is_open());
  peer_sends("x");
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, 1);
}

TEST_F(tcp_limit, ends_write_to_peer_that_never_reads) {
  connect();
  const routine w = write_into(result, ours, beyond_buffers, 10ms);
  const routine r = read_into(got, ours, buffer);
  turn();
  service.advance(10ms - 1ns);
  EXPECT_EQ(result, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(result, UV_ETIMEDOUT);
  EXPECT_FALSE(ours.is_open());
  turn();
  EXPECT_EQ(got, UV_ECANCELED);
}

// The connection is there, but the loop has not polled since.
TEST_F(tcp_limit, ends_connect_while_libuv_has_the_request) {
  const routine c = connect_into(result, ours, address, 10ms);
  service.advance(11ms);
  EXPECT_EQ(result, UV_ETIMEDOUT);
  EXPECT_FALSE(ours.is_open());
  turn();
  EXPECT_EQ(result, UV_ETIMEDOUT);
}

TEST_F(tcp_limit, ends_accept_and_listener_stays_open) {
  int next = unset;
  const auto accept_twice = [&]() -> routine {
    result = co_await listener.accept(theirs, 10ms);
    next = co_await listener.accept(theirs, 10ms);
  };
  const routine a = accept_twice();
  service.advance(11ms);
  EXPECT_EQ(result, UV_ETIMEDOUT);
  int connected = unset;
  const routine c = connect_into(connected, ours, address);
  turn_until([&] { return a.done(); });
  EXPECT_EQ(next, 0);
}

TEST_F(tcp_limit, may_be_a_time_point) {
  connect();
  const routine r = read_into(got, ours, buffer, timers.now() + 10ms);
  service.advance(10ms - 1ns);
  EXPECT_EQ(got, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(got, UV_ETIMEDOUT);
}

TEST_F(tcp_limit, that_has_passed_ends_read_in_next_pass) {
  connect();
  for (const tickwheel::tcp_limit passed :
       {tickwheel::tcp_limit{0s}, tickwheel::tcp_limit{-1h}, tickwheel::tcp_limit{timers.now() - 1h}}) {
    got = unset;
    const routine r = read_into(got, ours, buffer, passed);
    EXPECT_EQ(got, unset);
    service.advance(2 * service.tick());
    EXPECT_EQ(got, UV_ETIMEDOUT);
  }
}

/// A pass is due at the next turn, and the wheel's time is behind it by several ticks.
void let_pass_be_due(manual_service& service, probe& other) {
  other.arm(3 * service.tick());
  service.time.oversleep(1ms);
}

// The posted call begins them in a pass whose stamp is older than the call.
TEST_F(tcp_limit, that_has_passed_lets_operation_take_what_is_there) {
  connect();
  tcp_socket client;
  ASSERT_EQ(client.open(loop, timers), 0);
  for (const std::chrono::nanoseconds length : {-1h, 0h, 1h}) {
    const tickwheel::tcp_limit passed = length <= 0s ? tickwheel::tcp_limit{length} : timers.now() - length;
    got = result = unset;
    int connected = unset;
    peer_sends("x");
    const routine c = connect_into(connected, client, address);
    tcp_socket accepted;
    std::optional<routine> reads, accepts;
    const auto begin = [&]() noexcept {
      reads.emplace(read_into(got, ours, buffer, passed));
      accepts.emplace(accept_into(result, listener, accepted, passed));
    };
    ASSERT_EQ(timers.remote().post(0s, begin), 0);
    let_pass_be_due(service, p);
    service.turn();
    EXPECT_EQ(got, unset);
    EXPECT_EQ(result, unset);
    turn_until([&] { return reads->done() && accepts->done(); });
    EXPECT_EQ(got, 1);
    EXPECT_EQ(result, 0);
    client.close();
    accepted.close();
    turn();
    ASSERT_EQ(client.open(loop, timers), 0);
  }
  client.close();
}

TEST_F(tcp_limit, that_has_passed_is_not_judged_with_an_earlier_limit) {
  connect();
  for (const bool is_length : {true, false}) {
    { const routine r = read_into(got, ours, buffer, 20ms); }
    got = unset;
    peer_sends("x");
    std::optional<routine> reads;
    const auto begin = [&] {
      const tickwheel::tcp_limit passed = is_length ? tickwheel::tcp_limit{-5ms} : timers.now() - 5ms;
      reads.emplace(read_into(got, ours, buffer, passed));
    };
    const probe begins{timers, 10ms, begin};
    service.time.oversleep(30ms);
    service.turn();
    EXPECT_EQ(begins.fired, 1);
    EXPECT_EQ(got, unset);
    turn_until([&] { return reads->done(); });
    EXPECT_EQ(got, 1);
  }
}

TEST_F(tcp_limit, that_never_ends_arms_nothing) {
  connect();
  for (const tickwheel::tcp_limit endless : {tickwheel::tcp_limit{}, tickwheel::tcp_limit{std::chrono::hours::max()},
                                             tickwheel::tcp_limit{tickwheel::clock::time_point::max()}}) {
    const routine r = read_into(got, ours, buffer, endless);
    EXPECT_EQ(timers.stats().armed, 0U);
  }
}

TEST_F(tcp_limit, leaves_out_stalls_of_our_own_loop) {
  reopen({.stall_grace = 10ms});
  connect();
  const routine r = read_into(got, ours, buffer, 100ms);
  service.advance(50ms);
  service.time.block(500ms);  // of which 10 ms are no stall
  service.advance(39ms);
  EXPECT_EQ(got, unset);
  service.advance(2ms);
  EXPECT_EQ(got, UV_ETIMEDOUT);
}

TEST_F(tcp_limit, that_is_a_time_point_includes_stalls) {
  connect();
  const routine r = read_into(got, ours, buffer, timers.now() + 100ms);
  service.advance(50ms);
  service.time.block(500ms);
  service.advance(service.tick());
  EXPECT_EQ(got, UV_ETIMEDOUT);
}

// --- the timer behind them -------------------------------------------------------------------------------------------

TEST_F(tcp_limit, of_each_operation_shares_one_timer_that_stays) {
  connect();
  const auto read = [&]() -> routine {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(co_await ours.read(buffer, 1s), 1);
    got = co_await ours.read(buffer, 1s);
  };
  const routine r = read();
  for (int i = 0; i < 100; ++i) {
    peer_sends("x");
    turn();
    service.advance(1ms);
  }
  EXPECT_EQ(timers.stats().armed, 1U);
  service.advance(999ms - 1ns);
  EXPECT_EQ(got, unset);
  service.advance(service.tick());
  EXPECT_EQ(got, UV_ETIMEDOUT);
}

TEST_F(tcp_limit, that_is_earlier_than_the_last_ends_on_time) {
  connect();
  { const routine r = read_into(got, ours, buffer, 1h); }
  const routine r = read_into(got, ours, buffer, 10ms);
  service.advance(11ms);
  EXPECT_EQ(got, UV_ETIMEDOUT);
}

TEST_F(tcp_limit, of_earlier_operation_does_not_end_later_one) {
  connect();
  { const routine r = read_into(got, ours, buffer, 10ms); }
  const routine r = read_into(got, ours, buffer);
  service.advance(1s);
  EXPECT_EQ(got, unset);
}

TEST_F(tcp_limit, does_not_keep_loop_alive) {
  connect();
  const routine r = read_into(got, ours, buffer, 1h);
  EXPECT_FALSE(service.time.alive());
  EXPECT_TRUE(uv_loop_alive(loop.get()));
}

TEST_F(tcp_limit, is_refused_at_max_armed_and_nothing_begins) {
  reopen({.max_armed = 1});
  connect();
  ssize_t refused = unset;
  const routine a = read_into(got, ours, buffer, 1s);
  const routine b = read_into(refused, theirs, buffer, 1s);
  EXPECT_EQ(refused, UV_ENOBUFS);
  const routine c = read_into(refused, theirs, buffer);
  EXPECT_EQ(got, unset);
}

// --- the service is gone ---------------------------------------------------------------------------------------------

TEST_F(tcp_limit, is_refused_by_closed_service) {
  connect();
  timers.close();
  const routine r = read_into(got, ours, buffer, 1s);
  EXPECT_EQ(got, UV_ECANCELED);
  ssize_t without = unset;
  const routine s = read_into(without, ours, buffer);
  peer_sends("x");
  turn_until([&] { return s.done(); });
  EXPECT_EQ(without, 1);
}

TEST_F(tcp_limit, is_lost_if_service_closes_during_read) {
  connect();
  const routine r = read_into(got, ours, buffer, 10ms);
  timers.close();
  service.time.advance(1s);
  EXPECT_EQ(got, unset);
  peer_sends("x");
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, 1);
}

TEST_F(tcp_limit, counts_again_after_service_was_opened_again) {
  connect();
  {
    const routine r = read_into(got, ours, buffer, 10ms);
    timers.close();
  }
  ASSERT_EQ(timers.open(service.time), 0);
  const routine r = read_into(got, ours, buffer, 20ms);
  service.advance(21ms);
  EXPECT_EQ(got, UV_ETIMEDOUT);
}

TEST_F(tcp_limit, service_may_be_destroyed_before_socket_and_reader) {
  mortal_service own;
  tcp_socket socket;
  ASSERT_EQ(socket.open(loop, *own.timers), 0);
  const auto connect_and_read = [&]() -> routine {
    result = co_await socket.connect(address, 1s);
    got = co_await socket.read(buffer, 1s);
  };
  int accepted = unset;
  const routine a = accept_into(accepted, listener, theirs);
  const routine r = connect_and_read();
  turn_until([&] { return result == 0 && accepted == 0; });
  own.timers.reset();
  peer_sends("x");
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, 1);
  socket.close();
}

TEST_F(tcp_limit, coroutine_that_it_resumes_may_destroy_service) {
  mortal_service own;
  const auto connect_late = [&]() -> routine {
    tcp_socket socket;
    EXPECT_EQ(socket.open(loop, *own.timers), 0);
    result = co_await socket.connect(address, 10ms);
    own.timers.reset();
  };
  const routine r = connect_late();
  own.time.advance(11ms);
  EXPECT_EQ(result, UV_ETIMEDOUT);
  EXPECT_FALSE(own.timers);
  EXPECT_TRUE(r.done());
}

TEST_F(tcp_limit, is_named_by_its_handler) {
  connect();
  std::deque<tickwheel::timer::callback> slow;
  const auto note = [](void* context, const tickwheel::slow_handler& told) noexcept {
    static_cast<std::deque<tickwheel::timer::callback>*>(context)->push_back(told.handler);
  };
  timers.on_slow_handler(note, &slow);
  const auto read = [&]() -> routine {
    got = co_await ours.read(buffer, 10ms);
    service.time.block(1s);
  };
  const routine r = read();
  service.advance(11ms);
  EXPECT_EQ(slow, std::deque{tcp_socket::handler()});
}

}  // namespace
