// Awaitable sockets on real connections. Their limits are on manual time.
#include <tickwheel/uv/coroutine.hpp>
#include <tickwheel/uv/event_loop.hpp>

#include "../support/connected_sockets.hpp"

#include <sys/socket.h>

using tickwheel::tcp_socket;
using tickwheel::timed_result;
using tickwheel::with_timeout;

namespace {

using awaitable_tcp = tcp_test;

/// Closes the peer so that it resets the connection.
void reset(tcp_socket& socket) {
  uv_os_fd_t fd{};
  ASSERT_EQ(uv_fileno(reinterpret_cast<uv_handle_t*>(socket.handle()), &fd), 0);
  const linger now{1, 0};
  ASSERT_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  socket.close();
}

// --- operations ------------------------------------------------------------------------------------------------------

TEST_F(awaitable_tcp, echoes_each_message) {
  connect();
  int echoed = 0;
  const auto echo = [&]() -> routine {
    std::array<char, 64> bytes;
    for (;;) {
      const ssize_t size = co_await theirs.read(bytes);
      if (size < 0) co_return;
      const std::span<const char> read{bytes.data(), static_cast<std::size_t>(size)};
      EXPECT_EQ(co_await theirs.write(read), 0);
    }
  };
  const auto talk = [&]() -> routine {
    for (; echoed < 100; ++echoed) {
      EXPECT_EQ(co_await ours.write(std::string_view{"hello"}), 0);
      const ssize_t size = co_await ours.read(buffer);
      EXPECT_EQ(std::string_view(buffer.data(), static_cast<std::size_t>(size)), "hello");
    }
  };
  const routine server = echo(), client = talk();
  turn_until([&] { return client.done(); });
  EXPECT_EQ(echoed, 100);
  ours.close();
  turn_until([&] { return server.done(); });
}

TEST_F(awaitable_tcp, read_takes_part_that_fits) {
  connect();
  peer_sends("hello");
  std::string all;
  const auto read = [&]() -> routine {
    while (all.size() < 5) {
      const ssize_t size = co_await ours.read(std::span{buffer}.first(2));
      all.append(buffer.data(), static_cast<std::size_t>(size));
    }
  };
  const routine r = read();
  turn_until([&] { return r.done(); });
  EXPECT_EQ(all, "hello");
}

TEST_F(awaitable_tcp, empty_buffer_is_refused_and_empty_write_is_done) {
  connect();
  const routine r = read_into(got, ours, {});
  const routine w = write_into(result, ours, {});
  EXPECT_EQ(got, UV_EINVAL);
  EXPECT_EQ(result, 0);
}

TEST_F(awaitable_tcp, write_that_socket_takes_does_not_suspend) {
  connect();
  const routine w = write_into(result, ours, std::string_view{"hello"}, 0s);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(timers.stats().armed, 0U);
}

template <class Bytes>
constexpr bool can_write = requires(tickwheel::tcp_socket s, Bytes bytes) {
  s.write(bytes);
};

TEST(awaitable_tcp_write, refuses_literal_whose_null_would_be_sent) {
  static_assert(!can_write<const char(&)[6]>);
  static_assert(can_write<char(&)[6]>);
  static_assert(can_write<std::string_view>);
  static_assert(can_write<std::span<const char, 6>>);
  static_assert(can_write<const std::array<char, 6>&>);
}

TEST_F(awaitable_tcp, write_beyond_buffers_waits_until_all_is_taken) {
  connect();
  std::iota(beyond_buffers.begin(), beyond_buffers.end(), '\1');
  const routine w = write_into(result, ours, beyond_buffers);
  turn();
  EXPECT_EQ(result, unset);
  std::string received;
  const auto receive = [&]() -> routine {
    std::vector<char> part(100'000);
    while (received.size() < beyond_buffers.size()) {
      const ssize_t size = co_await theirs.read(part);
      if (size < 0) co_return;
      received.append(part.data(), static_cast<std::size_t>(size));
    }
  };
  const routine r = receive();
  turn_until([&] { return r.done() && w.done(); });
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(received == beyond_buffers);
}

TEST_F(awaitable_tcp, read_after_last_byte_results_in_eof_each_time) {
  connect();
  peer_sends("x");
  theirs.close();
  ssize_t first = unset, second = unset, third = unset;
  const auto read = [&]() -> routine {
    first = co_await ours.read(buffer);
    second = co_await ours.read(buffer);
    third = co_await ours.read(buffer);
  };
  const routine r = read();
  turn_until([&] { return r.done(); });
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, UV_EOF);
  EXPECT_EQ(third, UV_EOF);
}

TEST_F(awaitable_tcp, reset_by_peer_ends_read_and_later_write) {
  connect();
  const routine r = read_into(got, ours, buffer);
  reset(theirs);
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, UV_ECONNRESET);
  const routine w = write_into(result, ours, std::string_view{"hello"});
  EXPECT_EQ(result, UV_EPIPE);
}

TEST_F(awaitable_tcp, reset_by_peer_ends_write_that_waits) {
  connect();
  const routine w = write_into(result, ours, beyond_buffers);
  EXPECT_EQ(result, unset);
  reset(theirs);
  turn_until([&] { return w.done(); });
  EXPECT_TRUE(result == UV_ECONNRESET || result == UV_EPIPE) << uv_err_name(result);
}

TEST_F(awaitable_tcp, connect_to_closed_port_results_in_error) {
  listener.close();
  turn();
  const routine c = connect_into(result, ours, address);
  turn_until([&] { return c.done(); });
  EXPECT_EQ(result, UV_ECONNREFUSED);
}

TEST_F(awaitable_tcp, unconnected_socket_refuses_read_and_write) {
  const routine r = read_into(got, ours, buffer);
  const routine w = write_into(result, ours, std::string_view{"hello"});
  EXPECT_EQ(got, UV_ENOTCONN);
  EXPECT_LT(result, 0);
}

TEST_F(awaitable_tcp, accepts_connections_that_came_before) {
  tcp_socket a, b;
  int first = unset, second = unset, accepted = 0;
  ASSERT_EQ(a.open(loop, timers), 0);
  ASSERT_EQ(b.open(loop, timers), 0);
  const routine one = connect_into(first, a, address), two = connect_into(second, b, address);
  turn_until([&] { return first == 0 && second == 0; });
  const auto accept = [&]() -> routine {
    for (; accepted < 2; ++accepted) {
      EXPECT_EQ(co_await listener.accept(theirs), 0);
    }
  };
  const routine r = accept();
  turn_until([&] { return r.done(); });
  EXPECT_EQ(accepted, 2);
}

// --- two at once -----------------------------------------------------------------------------------------------------

TEST_F(awaitable_tcp, second_reader_is_refused) {
  connect();
  ssize_t second = unset;
  const routine r = read_into(got, ours, buffer);
  const routine s = read_into(second, ours, buffer, 1s);
  EXPECT_EQ(second, UV_EBUSY);
  peer_sends("x");
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, 1);
}

TEST_F(awaitable_tcp, second_writer_is_refused) {
  connect();
  int second = unset;
  const routine w = write_into(result, ours, beyond_buffers);
  const routine s = write_into(second, ours, beyond_buffers);
  EXPECT_EQ(second, UV_EBUSY);
  EXPECT_EQ(result, unset);
}

TEST_F(awaitable_tcp, second_connect_is_refused) {
  int second = unset;
  const routine c = connect_into(result, ours, address);
  const routine s = connect_into(second, ours, address);
  EXPECT_EQ(second, UV_EBUSY);
}

// The kernel answers 0 to the first of these, and stays connected to the first address.
TEST_F(awaitable_tcp, connected_socket_refuses_connect) {
  connect();
  int of_theirs = unset;
  const routine c = connect_into(result, ours, address);
  const routine d = connect_into(of_theirs, theirs, address);
  turn();
  EXPECT_EQ(result, UV_EISCONN);
  EXPECT_EQ(of_theirs, UV_EISCONN);
  peer_sends("hello");
  const routine r = read_into(got, ours, buffer);
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, 5);
}

TEST_F(awaitable_tcp, second_acceptor_is_refused) {
  int second = unset;
  tcp_socket other;
  const routine a = accept_into(result, listener, theirs);
  const routine b = accept_into(second, listener, other);
  EXPECT_EQ(second, UV_EBUSY);
}

TEST_F(awaitable_tcp, reader_and_writer_wait_at_the_same_time) {
  connect();
  const routine w = write_into(result, ours, beyond_buffers);
  const routine r = read_into(got, ours, buffer);
  peer_sends("x");
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, 1);
  EXPECT_EQ(result, unset);
}

// --- opening and closing ---------------------------------------------------------------------------------------------

TEST_F(awaitable_tcp, closed_socket_and_listener_refuse_operations) {
  tcp_socket closed;
  tickwheel::tcp_listener deaf;
  int connected = unset, accepted = unset;
  const routine r = read_into(got, closed, buffer);
  const routine w = write_into(result, closed, std::string_view{"x"});
  const routine c = connect_into(connected, closed, address);
  const routine a = accept_into(accepted, deaf, theirs);
  EXPECT_EQ(got, UV_ECANCELED);
  EXPECT_EQ(result, UV_ECANCELED);
  EXPECT_EQ(connected, UV_ECANCELED);
  EXPECT_EQ(accepted, UV_ECANCELED);
}

TEST_F(awaitable_tcp, closed_listener_refuses_listen) {
  sockaddr_in any_port;
  ASSERT_EQ(uv_ip4_addr("127.0.0.1", 0, &any_port), 0);
  tickwheel::tcp_listener listens;
  EXPECT_EQ(listens.listen(any_port), UV_ECANCELED) << "never opened";
  ASSERT_EQ(listens.open(loop, timers), 0);
  listens.close();
  EXPECT_EQ(listens.listen(any_port), UV_ECANCELED);
  ASSERT_EQ(listens.open(loop, timers), 0);
  EXPECT_EQ(listens.listen(any_port), 0);
}

TEST(closed_tcp, socket_and_listener_have_no_handle) {
  tcp_socket socket;
  tickwheel::tcp_listener deaf;
  EXPECT_DEATH((void)socket.handle(), "tickwheel: tcp_socket: handle was called before open or after close");
  EXPECT_DEATH((void)deaf.handle(), "tickwheel: tcp_listener: handle was called before open or after close");
}

TEST(closed_tcp, socket_that_has_closed_itself_has_no_handle) {
  tickwheel::event_loop loop;
  ASSERT_EQ(loop.open(), 0);
  tcp_socket socket;
  ASSERT_EQ(socket.open(loop.timers()), 0);
  sockaddr_in to;
  ASSERT_EQ(uv_ip4_addr("127.0.0.1", 9, &to), 0);
  int result = unset;
  { const routine given_up = connect_into(result, socket, to); }
  EXPECT_FALSE(socket.is_open());
  EXPECT_DEATH((void)socket.handle(), "tickwheel: tcp_socket: handle was called before open or after close");
}

TEST(closed_tcp, handle_that_a_walk_closed_stops_the_process) {
  const auto close_by_walk = [](auto owner) {
    uv_loop_t loop;
    tickwheel::timer_service timers;
    if (uv_loop_init(&loop) != 0 || timers.open(loop) != 0 || owner.open(timers) != 0) return;
    uv_close(reinterpret_cast<uv_handle_t*>(owner.handle()), nullptr);
    uv_run(&loop, UV_RUN_NOWAIT);
    owner.close();
  };
  const char* const line = "tickwheel: tcp_socket or tcp_listener: its handle was closed by uv_close";
  EXPECT_DEATH(close_by_walk(tcp_socket{}), line);
  EXPECT_DEATH(close_by_walk(tickwheel::tcp_listener{}), line);
}

TEST_F(awaitable_tcp, open_answers_what_is_wrong) {
  EXPECT_EQ(ours.open(loop, timers), UV_EALREADY);
  tcp_socket other;
  EXPECT_EQ(other.open(timers), UV_ECANCELED) << "manual time has no loop";
  const int answer = allocations::without_memory([&] { return other.open(loop, timers); });
  EXPECT_EQ(answer, UV_ENOMEM);
  EXPECT_FALSE(other.is_open());
}

TEST_F(awaitable_tcp, closed_socket_can_be_opened_and_connected_again) {
  for (int i = 0; i < 3; ++i) {
    connect();
    ours.close();
    EXPECT_FALSE(ours.is_open());
    ASSERT_EQ(ours.open(loop, timers), 0);
  }
}

TEST_F(awaitable_tcp, close_resumes_waiting_coroutines_from_the_loop) {
  connect();
  int accepted = unset;
  tcp_socket next;
  const routine r = read_into(got, ours, buffer);
  const routine w = write_into(result, ours, beyond_buffers);
  const routine a = accept_into(accepted, listener, next);
  ours.close();
  listener.close();
  EXPECT_EQ(got, unset);
  EXPECT_EQ(result, unset);
  EXPECT_EQ(accepted, unset);
  turn();
  EXPECT_EQ(got, UV_ECANCELED);
  EXPECT_EQ(result, UV_ECANCELED);
  EXPECT_EQ(accepted, UV_ECANCELED);
}

TEST_F(awaitable_tcp, close_resumes_connecting_coroutine) {
  const routine c = connect_into(result, ours, address);
  ours.close();
  turn();
  EXPECT_EQ(result, UV_ECANCELED);
}

TEST_F(awaitable_tcp, destroyed_socket_resumes_its_reader) {
  connect();
  const routine r = read_into(got, ours, buffer);
  { const tcp_socket gone = std::move(ours); }
  turn();
  EXPECT_EQ(got, UV_ECANCELED);
}

TEST_F(awaitable_tcp, moved_socket_still_serves_its_reader) {
  connect();
  const routine r = read_into(got, ours, buffer);
  const tcp_socket moved = std::move(ours);
  peer_sends("x");
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, 1);
}

TEST_F(awaitable_tcp, resumed_coroutine_may_close_its_socket) {
  connect();
  const auto read = [&]() -> routine {
    got = co_await ours.read(buffer);
    ours.close();
    result = static_cast<int>(co_await ours.read(buffer));
  };
  const routine r = read();
  peer_sends("x");
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, 1);
  EXPECT_EQ(result, UV_ECANCELED);
}

TEST_F(awaitable_tcp, resumed_coroutine_may_end_with_socket_in_frame) {
  connect();
  const auto serve = [](tcp_socket peer, std::span<char> into, ssize_t& read) -> detached {
    read = co_await peer.read(into);
  };
  serve(std::move(ours), buffer, got);
  peer_sends("x");
  turn_until([&] { return got != unset; });
  EXPECT_EQ(got, 1);
}

TEST_F(awaitable_tcp, coroutine_resumed_by_close_may_destroy_everything) {
  connect();
  std::optional<tcp_socket> socket{std::move(ours)};
  std::optional<routine> writer;
  const auto read = [&]() -> routine {
    got = co_await socket->read(buffer);
    writer.reset();
    socket.reset();
  };
  const routine r = read();
  writer.emplace(write_into(result, *socket, beyond_buffers));
  socket->close();
  turn();
  EXPECT_EQ(got, UV_ECANCELED);
  EXPECT_FALSE(socket.has_value());
}

TEST_F(awaitable_tcp, socket_that_nobody_reads_does_not_keep_loop_alive) {
  connect();
  listener.close();
  turn();
  EXPECT_FALSE(uv_loop_alive(loop.get()));
  const routine r = read_into(got, ours, buffer);
  EXPECT_TRUE(uv_loop_alive(loop.get()));
  peer_sends("x");
  turn_until([&] { return r.done(); });
  EXPECT_EQ(got, 1);
  EXPECT_FALSE(uv_loop_alive(loop.get()));
}

// --- giving up -------------------------------------------------------------------------------------------------------

TEST_F(awaitable_tcp, destroyed_reader_leaves_bytes_to_the_next) {
  connect();
  routine r = read_into(got, ours, buffer);
  turn();
  peer_sends("x");
  r.destroy();
  turn();
  EXPECT_EQ(got, unset);
  ssize_t next = unset;
  const routine n = read_into(next, ours, buffer);
  turn_until([&] { return n.done(); });
  EXPECT_EQ(next, 1);
}

TEST_F(awaitable_tcp, destroyed_writer_closes_socket) {
  connect();
  auto bytes = std::make_unique<std::string>(beyond_buffers);
  routine w = write_into(result, ours, *bytes);
  const routine r = read_into(got, ours, buffer);
  w.destroy();
  bytes.reset();
  EXPECT_FALSE(ours.is_open());
  turn();
  EXPECT_EQ(result, unset);
  EXPECT_EQ(got, UV_ECANCELED);
}

TEST_F(awaitable_tcp, destroyed_connect_closes_socket) {
  routine c = connect_into(result, ours, address);
  c.destroy();
  EXPECT_FALSE(ours.is_open());
  turn();
  EXPECT_EQ(result, unset);
}

TEST_F(awaitable_tcp, destroyed_acceptor_leaves_connection_to_the_next) {
  routine a = accept_into(result, listener, theirs);
  a.destroy();
  int connected = unset, accepted = unset;
  const routine c = connect_into(connected, ours, address);
  turn_until([&] { return c.done(); });
  turn();
  EXPECT_EQ(result, unset);
  const routine n = accept_into(accepted, listener, theirs);
  turn_until([&] { return n.done(); });
  EXPECT_EQ(accepted, 0);
}

TEST_F(awaitable_tcp, accept_without_memory_leaves_connection_to_the_next) {
  int connected = unset, accepted = unset;
  const routine c = connect_into(connected, ours, address);
  turn_until([&] { return c.done(); });
  turn();
  const auto accept = [&]() -> routine {
    {
      const allocations::failure none{0};
      result = co_await listener.accept(theirs);
    }
    accepted = co_await listener.accept(theirs);
  };
  const routine a = accept();
  turn_until([&] { return a.done(); });
  EXPECT_EQ(result, UV_ENOMEM);
  EXPECT_EQ(accepted, 0);
}

TEST_F(awaitable_tcp, with_timeout_ends_read_and_socket_stays_open) {
  connect();
  timed_result<ssize_t> first{unset, {}}, second{unset, {}};
  const auto read = [&]() -> routine {
    first = co_await with_timeout(timers, ours.read(buffer), 10ms);
    second = co_await with_timeout(timers, ours.read(buffer), 10ms);
  };
  const routine r = read();
  service.advance(20ms);
  peer_sends("x");
  turn_until([&] { return r.done(); });
  EXPECT_TRUE(first.timed_out());
  ASSERT_TRUE(second);
  EXPECT_EQ(*second, 1);
}

// The contract says so, because a caller that writes again would send the first bytes twice.
TEST_F(awaitable_tcp, write_whose_timeout_is_refused_may_have_sent_a_part) {
  reopen({.max_armed = 0});
  connect();
  timed_result<int> written{unset, {}};
  const auto write = [&]() -> routine { written = co_await with_timeout(timers, ours.write(beyond_buffers), 10ms); };
  const routine w = write();
  EXPECT_EQ(written.error, UV_ENOBUFS);
  EXPECT_TRUE(ours.is_open());
  const routine r = read_into(got, theirs, buffer);
  turn_until([&] { return r.done(); });
  EXPECT_GT(got, 0);
}

TEST_F(awaitable_tcp, with_timeout_ends_write_and_closes_socket) {
  connect();
  timed_result<int> written{unset, {}};
  const auto write = [&]() -> routine { written = co_await with_timeout(timers, ours.write(beyond_buffers), 10ms); };
  const routine w = write();
  service.advance(20ms);
  EXPECT_TRUE(written.timed_out());
  EXPECT_FALSE(ours.is_open());
}

// --- allocations -----------------------------------------------------------------------------------------------------

std::size_t libuv_allocations = 0;

/// While it lives, counts what libuv allocates.
class count_libuv {
 public:
  count_libuv() {
    libuv_allocations = 0;
    uv_replace_allocator([](std::size_t size) { return ++libuv_allocations, std::malloc(size); },
                         [](void* p, std::size_t size) { return ++libuv_allocations, std::realloc(p, size); },
                         [](std::size_t n, std::size_t size) { return ++libuv_allocations, std::calloc(n, size); },
                         &std::free);
  }
  ~count_libuv() { uv_replace_allocator(&std::malloc, &std::realloc, &std::calloc, &std::free); }
};

TEST_F(awaitable_tcp, reads_and_writes_allocate_nothing_besides_frame) {
  connect();
  std::size_t allocated = 0;
  const count_libuv counting;
  const auto talk = [&](tcp_socket& from, tcp_socket& to, std::size_t& count) -> routine {
    std::array<char, 5> bytes{};
    EXPECT_EQ(co_await from.write(bytes), 0);  // the first makes the timer's slots known
    EXPECT_EQ(co_await to.read(bytes, 1s), 5);
    const std::size_t before = allocations::count() + libuv_allocations;
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(co_await from.write(bytes, 1s), 0);
      EXPECT_EQ(co_await to.read(bytes, 1s), 5);
      EXPECT_EQ(co_await to.read(bytes, 0s), UV_ETIMEDOUT);
    }
    count = allocations::count() + libuv_allocations - before;
  };
  const routine r = talk(ours, theirs, allocated);
  turn_until([&] {
    service.time.advance(service.tick());
    return r.done();
  });
  EXPECT_EQ(allocated, 0U);
}

TEST_F(awaitable_tcp, write_that_waits_allocates_nothing_besides_frame) {
  connect();
  const count_libuv counting;
  const std::size_t before = allocations::count();
  const routine w = write_into(result, ours, beyond_buffers, 1s);
  EXPECT_EQ(allocations::count(), before + 1);
  service.advance(2s);
  EXPECT_EQ(result, UV_ETIMEDOUT);
  EXPECT_EQ(libuv_allocations, 0U);
}

}  // namespace
