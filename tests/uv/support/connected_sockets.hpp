// Two ends of a connection on the loopback interface, as coroutines use them: sockets on a live loop, whose limits have manual time.
#pragma once

#include <tickwheel/uv/awaitable_tcp.hpp>

#include "allocation_checks.hpp"
#include "live_loop.hpp"
#include "probe.hpp"
#include "routine.hpp"

#include <csignal>

namespace {

constexpr int unset = 1 << 20;  // no result of any operation

// Each of them awaits one operation, and notes its result. They are not inline, but each test has its own: clang
// 14 with -fsanitize=function cannot compile a coroutine in a section of its own.
[[maybe_unused]] routine read_into(ssize_t& result, tickwheel::tcp_socket& from, std::span<char> into,
                                   tickwheel::tcp_limit limit = {}) {
  result = co_await from.read(into, limit);
}

[[maybe_unused]] routine write_into(int& result, tickwheel::tcp_socket& to, std::span<const char> bytes,
                                    tickwheel::tcp_limit limit = {}) {
  result = co_await to.write(bytes, limit);
}

[[maybe_unused]] routine connect_into(int& result, tickwheel::tcp_socket& socket, const sockaddr_in& to,
                                      tickwheel::tcp_limit limit = {}) {
  result = co_await socket.connect(to, limit);
}

[[maybe_unused]] routine accept_into(int& result, tickwheel::tcp_listener& from, tickwheel::tcp_socket& into,
                                     tickwheel::tcp_limit limit = {}) {
  result = co_await from.accept(into, limit);
}

/// Makes `listener` listen at a free port, and returns the address.
[[maybe_unused]] sockaddr_in listen_anywhere(tickwheel::tcp_listener& listener) {
  sockaddr_in address{};
  EXPECT_EQ(uv_ip4_addr("127.0.0.1", 0, &address), 0);
  EXPECT_EQ(listener.listen(address), 0);
  int size = sizeof address;
  EXPECT_EQ(uv_tcp_getsockname(listener.handle(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return address;
}

/// A listener, and two sockets that a test connects. Nothing may be left in the end.
class tcp_test : private leak_check, public manual_test {
 protected:
  tcp_test() {
    std::signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(listener.open(loop, timers), 0);
    EXPECT_EQ(ours.open(loop, timers), 0);
    address = listen_anywhere(listener);
  }

  /// Connects `ours` with `theirs`. Their buffers get sizes that do not grow, so that `beyond_buffers` never fits.
  void connect() {
    int connected = unset, accepted = unset;
    const routine a = accept_into(accepted, listener, theirs);
    const routine c = connect_into(connected, ours, address);
    turn_until([&] { return connected != unset && accepted != unset; });
    ASSERT_EQ(connected, 0);
    ASSERT_EQ(accepted, 0);
    for (const tickwheel::tcp_socket* socket : {&ours, &theirs}) {
      int sent = 64 << 10, received = sent;
      ASSERT_EQ(uv_send_buffer_size(reinterpret_cast<uv_handle_t*>(socket->handle()), &sent), 0);
      ASSERT_EQ(uv_recv_buffer_size(reinterpret_cast<uv_handle_t*>(socket->handle()), &received), 0);
    }
  }
  /// The peer sends `bytes`, which the kernel takes at once.
  void peer_sends(std::string_view bytes) {
    int sent = unset;
    const routine w = write_into(sent, theirs, bytes);
    ASSERT_EQ(sent, 0);
  }
  template <class Done>
  void turn_until(Done done) {
    const auto give_up = tickwheel::clock::now() + 10s;
    while (!done()) {
      ASSERT_LT(tickwheel::clock::now(), give_up);
      uv_run(loop.get(), UV_RUN_NOWAIT);
    }
  }
  /// As many iterations as anything takes that does not wait.
  void turn() {
    for (int i = 0; i < 10; ++i) uv_run(loop.get(), UV_RUN_NOWAIT);
  }

  std::array<char, 64> buffer{};
  /// More than the buffers of a connection hold: a write of it waits until the peer reads. To fill the buffers before a short
  /// write would not do: on a busy machine the kernel moves bytes to the peer later, and then takes the short write.
  std::string beyond_buffers = std::string(1 << 20, 'x');
  sockaddr_in address{};
  live_loop loop;
  tickwheel::tcp_listener listener;
  tickwheel::tcp_socket ours, theirs;
  ssize_t got = unset;
  int result = unset;
};

}  // namespace
