// An echo session with timeouts as one coroutine, and clients that try it: one that talks, one that is silent, one that does not read.
// It takes no options and ends by itself, with 0 if each client was treated as it should be.
//
//   serve              the session
//   talk, stay_silent, never_read
//                      the clients, coroutines also
//
// Besides time they await the operations of awaitable_connection.hpp.
#include "../support/listen.hpp"
#include "awaitable_connection.hpp"

#include <tickwheel/uv/coroutine.hpp>
#include <tickwheel/uv/event_loop.hpp>

#include <uv.h>

#include <chrono>
#include <coroutine>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string_view>
#include <utility>

namespace {

using namespace std::chrono_literals;
using tickwheel::sleep_for;
using tickwheel::timer_service;
using tickwheel::with_timeout;

// A coroutine that nobody waits for. It runs at once, and its frame is destroyed when it returns.
struct session_task {
  struct promise_type {
    // NOLINTBEGIN(readability-convert-member-functions-to-static): the language calls them on an object
    session_task get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }  // libuv's C frames cannot be unwound
    // NOLINTEND(readability-convert-member-functions-to-static)
  };
};

constexpr auto idle_limit = 1s, write_limit = 1s;

struct server {
  tickwheel::event_loop loop;
  uv_tcp_t listener{};
  sockaddr_in address{};
  int clients = 0, failed = 0, idle_closes = 0, write_closes = 0;
};

// --- the session -----------------------------------------------------------------------------------------------------

session_task serve(server& on, awaitable_connection::owner peer) {
  timer_service& timers = on.loop.timers();
  for (;;) {
    const auto got = co_await with_timeout(timers, peer->read(), idle_limit);
    if (got.timed_out()) ++on.idle_closes;
    if (!got || *got < 0) co_return;  // `peer` goes with the frame, and closes the connection
    const auto sent = co_await with_timeout(timers, peer->write(static_cast<std::size_t>(*got)), write_limit);
    if (sent.timed_out()) ++on.write_closes;
    if (!sent || *sent != 0) co_return;
  }
}

// --- clients ---------------------------------------------------------------------------------------------------------

// The last client ends the server. Without a listener and sessions the loop has nothing left to do.
void leave(server& on, const char* who, bool well) {
  std::printf("%-28s %s\n", who, well ? "yes" : "no");
  if (!well) ++on.failed;
  if (--on.clients == 0) uv_close(reinterpret_cast<uv_handle_t*>(&on.listener), nullptr);
}

session_task talk(server& on) {
  constexpr std::string_view words = "hello";
  const awaitable_connection::owner us = awaitable_connection::make(on.loop.uv());
  bool well = co_await us->connect(on.address) == 0;
  for (int i = 0; i < 30 && well; ++i) {  // longer in all than the idle limit, which each message begins anew
    words.copy(us->buffer.data(), words.size());
    const ssize_t sent = co_await us->write(words.size());
    us->buffer.fill(0);
    const ssize_t received = co_await us->read();
    well = sent == 0 && received == ssize_t{words.size()} && words == us->buffer.data();
    co_await sleep_for(on.loop.timers(), 50ms);
  }
  leave(on, "who talks is answered", well);
}

session_task stay_silent(server& on) {
  const awaitable_connection::owner us = awaitable_connection::make(on.loop.uv());
  const auto began = on.loop.timers().now();
  const ssize_t connected = co_await us->connect(on.address);
  const auto got = co_await with_timeout(on.loop.timers(), us->read(), idle_limit + 2s);
  const bool well = connected == 0 && got && *got == UV_EOF && on.loop.timers().now() - began >= idle_limit;
  leave(on, "who is silent is closed", well && on.idle_closes == 1);
}

session_task never_read(server& on) {
  const awaitable_connection::owner us = awaitable_connection::make(on.loop.uv());
  bool goes_on = co_await us->connect(on.address) == 0;
  while (goes_on) {  // until all buffers on the way are full, so that the session cannot write
    const auto sent = co_await with_timeout(on.loop.timers(), us->write(us->buffer.size()), 200ms);
    goes_on = sent && *sent == 0;
  }
  co_await sleep_for(on.loop.timers(), write_limit);
  leave(on, "who does not read is closed", on.write_closes == 1);
}

// Listens at a port that the kernel chooses, and writes it to `address`. Returns 0 or a UV_ code.
int listen(server& on) noexcept {
  on.listener.data = &on;
  const auto accept = [](uv_stream_t* listener, int error) {
    server& self = *static_cast<server*>(listener->data);
    auto peer = awaitable_connection::make(self.loop.uv());
    if (error == 0 && uv_accept(listener, peer->stream()) == 0) serve(self, std::move(peer));
  };
  if (const int error = uv_ip4_addr("127.0.0.1", 0, &on.address)) return error;
  return listen_at(on.listener, on.address, accept);
}

int run(server& on) {
  if (const int error = on.loop.open()) return error;
  if (const int error = uv_tcp_init(&on.loop.uv(), &on.listener)) return error;
  if (const int error = listen(on)) {
    uv_close(reinterpret_cast<uv_handle_t*>(&on.listener), nullptr);
    return error;
  }
  on.clients = 3;
  talk(on);
  stay_silent(on);
  never_read(on);
  on.loop.run();
  on.loop.close();
  return 0;
}

}  // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);  // writing to a peer that is gone is an error of that peer, not the end of us
  server on;
  if (const int error = run(on)) {
    std::fprintf(stderr, "coroutine_echo: %s\n", uv_strerror(error));
    return 2;
  }
  const bool right = on.failed == 0 && on.clients == 0;
  std::printf("verdict: %s\n", right ? "right" : "wrong");
  return right ? 0 : 1;
}
