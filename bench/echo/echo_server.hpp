// An echo server on a libuv loop, and what watches its connections for silence.
#pragma once

#include "echo_message.hpp"

#include <tickwheel/net/idle_timeout.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <vector>

namespace tickwheel::bench {

// --- what watches a connection ---------------------------------------------------------------------------------------
//
// Each mode has what a loop needs of it (`service`), and what a connection does (`watch`), which tells the connection
// of its silence.

/// Nothing does: what the others are compared with.
struct no_timers {
  static constexpr const char* name = "none";
  struct service {
    service(uv_loop_t&, std::chrono::milliseconds) {}
    void close() {}
  };
  struct watch {
    template <class Connection>
    watch(service&, Connection&) {}
    void touch() noexcept {}
    void close() noexcept {}
  };
};

/// An idle_timeout each, touched on every message.
struct touched_tickwheel {
  static constexpr const char* name = "tickwheel";
  struct service {
    service(uv_loop_t& loop, std::chrono::milliseconds idle_limit) : limit{idle_limit} {
      if (timers.open(loop) != 0) std::abort();
    }
    void close() { timers.close(); }
    timer_service timers;
    std::chrono::milliseconds limit;
  };
  struct watch {
    template <class Connection>
    watch(service& s, Connection& of)
        : connection{&of},
          call{[](void* c) noexcept { static_cast<Connection*>(c)->on_idle(); }},
          idle{s.timers, *this} {
      if (idle.start(s.limit) != 0) std::abort();
    }
    void touch() noexcept { idle.touch(); }
    void close() noexcept { idle.cancel(); }
    void on_idle() noexcept { call(connection); }
    void* connection;
    void (*call)(void*) noexcept;
    idle_timeout<&watch::on_idle> idle;
  };
};

/// A uv_timer_t each, restarted on every message.
struct restarted_libuv {
  static constexpr const char* name = "libuv";
  struct service {
    service(uv_loop_t& on, std::chrono::milliseconds idle_limit) : loop{on}, limit{idle_limit} {}
    void close() {}
    uv_loop_t& loop;
    std::chrono::milliseconds limit;
  };
  struct watch {
    template <class Connection>
    watch(service& s, Connection& of) {
      uv_timer_init(&s.loop, &timer);
      timer.data = &of;
      const auto limit = static_cast<std::uint64_t>(s.limit.count());
      uv_timer_start(
          &timer, [](uv_timer_t* t) { static_cast<Connection*>(t->data)->on_idle(); }, limit, limit);
    }
    void touch() noexcept { uv_timer_again(&timer); }
    void close() noexcept { uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr); }
    uv_timer_t timer;
  };
};

// --- the server ------------------------------------------------------------------------------------------------------

template <class Mode>
class echo_server {
 public:
  static constexpr const char* name = Mode::name;

  /// A `bare` one echoes bytes as they come, and knows no messages.
  echo_server(std::chrono::milliseconds idle_limit, bool bare) : service_{open(loop_), idle_limit}, bare_{bare} {}
  ~echo_server() {
    for (connection& c : connections_) c.close();
    service_.close();
    uv_run(&loop_, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop_) != 0) std::abort();
  }
  echo_server(const echo_server&) = delete;
  echo_server& operator=(const echo_server&) = delete;

  /// Serves the peer at the other end of `socket`, which it closes in the end.
  void serve(int socket) { connections_.emplace_back(*this, socket); }

  /// Handles what waits.
  void turn() noexcept { uv_run(&loop_, UV_RUN_NOWAIT); }

  /// Bytes.
  std::uint64_t echoed() const noexcept { return echoed_; }
  std::uint64_t idle() const noexcept { return idle_; }

 private:
  class connection {
   public:
    connection(echo_server& server, int fd) : server_{server}, watch_{server.service_, *this} {
      uv_tcp_init(&server.loop_, &socket_);
      socket_.data = this;
      if (uv_tcp_open(&socket_, fd) != 0 || uv_read_start(stream(), give_buffer, on_read) != 0) std::abort();
    }
    void close() noexcept {
      watch_.close();
      uv_close(reinterpret_cast<uv_handle_t*>(&socket_), nullptr);
    }
    // A benchmark with idle connections has gone wrong: it is counted, and said in the end.
    void on_idle() const noexcept { ++server_.idle_; }

   private:
    static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
      auto& shared = static_cast<connection*>(h->data)->server_.buffer_;
      *buffer = uv_buf_init(shared.data(), static_cast<unsigned>(shared.size()));
    }
    static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t* buffer) noexcept {
      auto& self = *static_cast<connection*>(s->data);
      if (size <= 0) return;
      self.watch_.touch();
      if (self.server_.bare_)
        self.echo(buffer->base, static_cast<std::size_t>(size));
      else
        self.receive(buffer->base, static_cast<std::size_t>(size));
    }

    // Whole messages are echoed from where they were read to; what is left of the last waits for the rest.
    void receive(const char* bytes, std::size_t size) {
      if (!held_.empty()) {
        held_.insert(held_.end(), bytes, bytes + size);
        bytes = held_.data();
        size = held_.size();
      }
      std::size_t whole = 0;
      for (std::size_t next = 0; (next = checked_message(bytes + whole, size - whole)) != 0; whole += next)
        if (next == broken_message) std::abort();
      if (whole != 0) echo(bytes, whole);
      if (whole != size)
        held_ = {bytes + whole, bytes + size};
      else if (!held_.empty())
        held_.clear();
    }

    void echo(const char* bytes, std::size_t size) noexcept {
      const uv_buf_t buffer = uv_buf_init(const_cast<char*>(bytes), static_cast<unsigned>(size));
      // what is under way at a time fits into any socket's buffer
      if (uv_try_write(stream(), &buffer, 1) != static_cast<int>(size)) std::abort();
      server_.echoed_ += size;
    }
    uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }

    echo_server& server_;
    typename Mode::watch watch_;
    uv_tcp_t socket_{};
    std::vector<char> held_;
  };

  static uv_loop_t& open(uv_loop_t& loop) {
    if (uv_loop_init(&loop) != 0) std::abort();
    return loop;
  }

  uv_loop_t loop_{};
  typename Mode::service service_;
  bool bare_;
  std::deque<connection> connections_;
  std::array<char, 65536> buffer_{};
  std::uint64_t echoed_ = 0;
  std::uint64_t idle_ = 0;
};

}  // namespace tickwheel::bench
