// The echo server of echo_server.hpp with coroutines: each connection is one, and awaits tickwheel's sockets.
#pragma once

#include "echo_message.hpp"

#include <tickwheel/uv/awaitable_tcp.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <array>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <span>
#include <vector>

namespace tickwheel::bench {

/// A limit on each read and write. Has the interface of `echo_server`.
class awaitable_echo {
 public:
  static constexpr const char* name = "awaitable";

  awaitable_echo(std::chrono::milliseconds idle_limit, bool bare) : limit_{idle_limit}, bare_{bare} {
    if (uv_loop_init(&loop_) != 0 || timers_.open(loop_) != 0) std::abort();
  }
  ~awaitable_echo() {
    for (tcp_socket& s : sockets_) s.close();
    timers_.close();
    uv_run(&loop_, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop_) != 0) std::abort();
  }
  awaitable_echo(const awaitable_echo&) = delete;
  awaitable_echo& operator=(const awaitable_echo&) = delete;

  /// Serves the peer at the other end of `socket`, which it closes in the end.
  void serve(int socket) {
    tcp_socket& made = sockets_.emplace_back();
    if (made.open(timers_) != 0 || uv_tcp_open(made.handle(), socket) != 0) std::abort();
    serve(made);
  }

  /// Handles what waits.
  void turn() noexcept { uv_run(&loop_, UV_RUN_NOWAIT); }

  /// Bytes.
  std::uint64_t echoed() const noexcept { return echoed_; }
  std::uint64_t idle() const noexcept { return idle_; }

 private:
  struct session {
    struct promise_type {
      session get_return_object() const noexcept { return {}; }
      std::suspend_never initial_suspend() const noexcept { return {}; }
      std::suspend_never final_suspend() const noexcept { return {}; }
      void return_void() const noexcept {}
      void unhandled_exception() const noexcept { std::terminate(); }
    };
  };

  session serve(tcp_socket& peer) {
    std::vector<char> held;
    for (;;) {
      const ssize_t got = co_await peer.read(buffer_, limit_);
      if (got == UV_ETIMEDOUT) ++idle_;
      if (got < 0) co_return;
      const std::span<const char> bytes = bare_ ? std::span<const char>{buffer_.data(), static_cast<std::size_t>(got)}
                                                : whole_messages(held, static_cast<std::size_t>(got));
      if (bytes.empty()) continue;
      const int error = co_await peer.write(bytes, limit_);
      if (error != 0) co_return;
      echoed_ += bytes.size();
      if (!held.empty()) held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(bytes.size()));
    }
  }

  // Whole messages are echoed from where they were read to. The rest of the last is held.
  std::span<const char> whole_messages(std::vector<char>& held, std::size_t size) const {
    std::span<const char> all{buffer_.data(), size};
    if (!held.empty()) {
      held.insert(held.end(), all.begin(), all.end());
      all = held;
    }
    std::size_t whole = 0;
    for (std::size_t next = 0; (next = checked_message(all.data() + whole, all.size() - whole)) != 0; whole += next)
      if (next == broken_message) std::abort();
    if (whole != all.size() && held.empty()) {
      held.assign(all.begin(), all.end());
      all = held;
    }
    return all.first(whole);
  }

  uv_loop_t loop_{};
  timer_service timers_;
  tcp_limit limit_;
  bool bare_;
  std::deque<tcp_socket> sockets_;
  std::array<char, 65536> buffer_{};
  std::uint64_t echoed_ = 0;
  std::uint64_t idle_ = 0;
};

}  // namespace tickwheel::bench
