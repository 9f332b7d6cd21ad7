// An echo session with timeouts as one coroutine, and clients that try it: one that talks, one that is silent, one that does not read.
// It ends by itself, with 0 if each client was treated as it should be.
//
//   accept_all         accepts connections
//   serve              the session
//   talk, stay_silent, never_read
//                      the clients, coroutines also
#include "../support/command_line.hpp"
#include "../support/standard_descriptors.hpp"

#include <tickwheel/uv/awaitable_tcp.hpp>
#include <tickwheel/uv/coroutine.hpp>
#include <tickwheel/uv/event_loop.hpp>

#include <uv.h>

#include <array>
#include <chrono>
#include <coroutine>
#include <csignal>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>
#include <utility>

namespace {

using namespace std::chrono_literals;
using tickwheel::sleep_for;
using tickwheel::tcp_socket;

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
  tickwheel::tcp_listener listener;
  sockaddr_in address{};
  int clients = 0, failed = 0, idle_closes = 0, write_closes = 0;
};

// --- the session -----------------------------------------------------------------------------------------------------

session_task serve(server& on, tcp_socket peer) {
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = co_await peer.read(buffer, idle_limit);
    if (got == UV_ETIMEDOUT) ++on.idle_closes;
    if (got < 0) co_return;  // `peer` goes with the frame, and closes the connection
    const int error = co_await peer.write(std::span{buffer}.first(static_cast<std::size_t>(got)), write_limit);
    if (error == UV_ETIMEDOUT) ++on.write_closes;
    if (error != 0) co_return;
  }
}

session_task accept_all(server& on) {
  for (;;) {
    tcp_socket peer;
    const int error = co_await on.listener.accept(peer);
    if (error == UV_ECANCELED) co_return;  // the listener was closed
    if (error == 0) serve(on, std::move(peer));
  }
}

// --- clients ---------------------------------------------------------------------------------------------------------

// The last client ends the server. Without a listener and sessions the loop has nothing left to do.
void leave(server& on, const char* who, bool well) {
  std::printf("%-28s %s\n", who, well ? "yes" : "no");
  if (!well) ++on.failed;
  if (--on.clients == 0) on.listener.close();
}

session_task talk(server& on) {
  constexpr std::string_view words = "hello";
  std::array<char, words.size()> answer{};
  tcp_socket us;
  bool well = us.open(on.loop.timers()) == 0;
  if (well) well = co_await us.connect(on.address) == 0;
  for (int i = 0; i < 30 && well; ++i) {  // longer in all than the idle limit, which each message begins anew
    const int error = co_await us.write(words);
    const ssize_t received = co_await us.read(answer);
    well = error == 0 && received == ssize_t{words.size()} && words == std::string_view{answer.data(), answer.size()};
    co_await sleep_for(on.loop.timers(), 50ms);
  }
  leave(on, "who talks is answered", well);
}

session_task stay_silent(server& on) {
  std::array<char, 1> byte{};
  const auto began = on.loop.timers().now();
  tcp_socket us;
  bool well = us.open(on.loop.timers()) == 0;
  if (well) well = co_await us.connect(on.address) == 0;
  if (well) well = co_await us.read(byte, idle_limit + 2s) == UV_EOF;
  well = well && on.loop.timers().now() - began >= idle_limit;
  leave(on, "who is silent is closed", well && on.idle_closes == 1);
}

session_task never_read(server& on) {
  constexpr std::array<char, 4096> bytes{};
  tcp_socket us;
  bool goes_on = us.open(on.loop.timers()) == 0;
  if (goes_on) goes_on = co_await us.connect(on.address) == 0;
  while (goes_on) {  // all buffers on the way become full, so that the session cannot write, and closes
    goes_on = co_await us.write(bytes) == 0;
  }
  leave(on, "who does not read is closed", on.write_closes == 1);
}

// Listens at a port that the kernel chooses, and writes it to `address`. Returns 0 or a UV_ code.
int listen(server& on) noexcept {
  if (const int error = uv_ip4_addr("127.0.0.1", 0, &on.address)) return error;
  if (const int error = on.listener.open(on.loop.timers())) return error;
  if (const int error = on.listener.listen(on.address)) return error;
  int size = sizeof on.address;
  return uv_tcp_getsockname(on.listener.handle(), reinterpret_cast<sockaddr*>(&on.address), &size);
}

int run(server& on) {
  if (const int error = on.loop.open()) return error;
  const int error = listen(on);
  if (error == 0) {
    on.clients = 3;
    accept_all(on);
    talk(on);
    stay_silent(on);
    never_read(on);
    on.loop.run();
  }
  on.listener.close();
  on.loop.close();
  return error;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  CLI::App app{"An echo session as one coroutine, and three clients that try it. It takes no other options.",
               "coroutine_echo"};
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  std::signal(SIGPIPE, SIG_IGN);  // writing to a peer that is gone is an error of that peer, not the end of us
  server on;
  if (const int error = run(on)) {
    std::fprintf(stderr, "coroutine_echo: %s\n", uv_strerror(error));
    return exit_bad_usage;
  }
  const bool right = on.failed == 0 && on.clients == 0;
  std::printf("verdict: %s\n", right ? "right" : "wrong");
  return right ? 0 : 1;
}
