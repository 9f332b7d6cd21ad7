// A byte that goes to and fro between two TCP sockets of one loop, for as long as the loop runs: how long I/O waits.
#pragma once

#include "../support/loopback.hpp"

#include <uv.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <vector>

namespace tickwheel::bench {

/// A round trip takes two iterations of the loop, as each end hears of its byte in one.
class ping_pong {
 public:
  using clock = std::chrono::steady_clock;

  explicit ping_pong(uv_loop_t& loop) {
    connect(loop);
    for (end* const e : {&here_, &there_}) e->socket.data = this;
    if (uv_read_start(stream(here_), give_buffer, on_pong) != 0) std::abort();
    if (uv_read_start(stream(there_), give_buffer, on_ping) != 0) std::abort();
  }
  ping_pong(const ping_pong&) = delete;
  ping_pong& operator=(const ping_pong&) = delete;

  /// The first ball.
  void serve() noexcept {
    sent_ = clock::now();
    send(here_);
  }

  /// The loop has to turn once more before this is destroyed.
  void close() noexcept {
    for (end* const e : {&here_, &there_}) uv_close(reinterpret_cast<uv_handle_t*>(&e->socket), nullptr);
  }

  /// Counts the round trips that are not over by `from`.
  void count_from(clock::time_point from) noexcept { from_ = from; }
  const std::vector<std::chrono::nanoseconds>& trips() const noexcept { return trips_; }
  /// Of those that were over by then.
  std::chrono::nanoseconds longest_before() const noexcept { return longest_before_; }

 private:
  struct end {
    uv_tcp_t socket;
    std::array<char, 64> buffer;
  };

  static uv_stream_t* stream(end& e) noexcept { return reinterpret_cast<uv_stream_t*>(&e.socket); }

  void connect(uv_loop_t& loop) {
    const std::optional<loopback::ends> made = loopback{}.connect();
    if (!made) std::abort();
    if (uv_tcp_init(&loop, &here_.socket) != 0 || uv_tcp_open(&here_.socket, made->ours) != 0) std::abort();
    if (uv_tcp_init(&loop, &there_.socket) != 0 || uv_tcp_open(&there_.socket, made->theirs) != 0) std::abort();
  }

  static void send(end& from) noexcept {
    char ball = 'o';
    const uv_buf_t buffer = uv_buf_init(&ball, 1);
    if (uv_try_write(stream(from), &buffer, 1) != 1) std::abort();  // one byte is under way: there is room
  }
  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    auto& of = *reinterpret_cast<end*>(reinterpret_cast<uv_tcp_t*>(h));  // its first member
    *buffer = uv_buf_init(of.buffer.data(), static_cast<unsigned>(of.buffer.size()));
  }
  static void on_ping(uv_stream_t* s, ssize_t size, const uv_buf_t*) noexcept {
    if (size > 0) send(static_cast<ping_pong*>(s->data)->there_);
  }
  static void on_pong(uv_stream_t* s, ssize_t size, const uv_buf_t*) noexcept {
    if (size <= 0) return;
    auto& self = *static_cast<ping_pong*>(s->data);
    const clock::time_point now = clock::now();
    if (now >= self.from_)
      self.trips_.push_back(now - self.sent_);
    else
      self.longest_before_ = std::max<std::chrono::nanoseconds>(self.longest_before_, now - self.sent_);
    self.sent_ = now;
    send(self.here_);
  }

  end here_{};
  end there_{};
  clock::time_point sent_{};
  clock::time_point from_ = clock::time_point::max();
  std::vector<std::chrono::nanoseconds> trips_;
  std::chrono::nanoseconds longest_before_{};
};

}  // namespace tickwheel::bench
