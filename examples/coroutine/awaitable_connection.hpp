// A TCP connection that a coroutine awaits: connecting, reading and writing. The coroutine can give up each of them, as
// tickwheel::with_timeout requires.
#pragma once

#include <uv.h>

#include <array>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <utility>

/// The handle must stay until libuv has closed it, also if the coroutine has ended by then. So it is on the heap, and the frame of the
/// coroutine has only its owner.
class awaitable_connection {
 public:
  struct closing {
    void operator()(awaitable_connection* c) const noexcept {
      const auto forget = [](uv_handle_t* h) { delete static_cast<awaitable_connection*>(h->data); };
      uv_close(reinterpret_cast<uv_handle_t*>(&c->tcp_), forget);
    }
  };
  using owner = std::unique_ptr<awaitable_connection, closing>;

  static owner make(uv_loop_t& loop) { return owner{new awaitable_connection{loop}}; }

  class operation;
  operation connect(const sockaddr_in& to) noexcept;
  /// Reads into all of `buffer` or a part of it.
  operation read() noexcept;
  /// Writes the first `size` bytes of `buffer`, which must not be changed until they are written.
  operation write(std::size_t size) noexcept;

  uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&tcp_); }

  std::array<char, 4096> buffer{};

 private:
  explicit awaitable_connection(uv_loop_t& loop) noexcept {
    uv_tcp_init(&loop, &tcp_);  // cannot fail: it makes no socket yet
    tcp_.data = this;
  }

  template <class Handle>
  static awaitable_connection& of(Handle* h) noexcept {
    return *static_cast<awaitable_connection*>(h->data);
  }
  void end(ssize_t result) noexcept {
    result_ = result;
    if (waiting_) std::exchange(waiting_, nullptr).resume();
  }

  uv_tcp_t tcp_{};
  uv_connect_t connect_{};
  uv_write_t write_{};
  sockaddr_in peer_{};
  unsigned to_write_ = 0;
  std::coroutine_handle<> waiting_;
  ssize_t result_ = 0;
};

/// Is awaited, one at a time. Its result is the number of bytes that were read, or 0, or a UV_ code: UV_EOF after the last byte.
class awaitable_connection::operation {
 public:
  using starter = int (*)(awaitable_connection&) noexcept;

  operation(awaitable_connection& on, starter start) noexcept : on_{on}, start_{start} {}

  /// After its destruction nothing waits any more. A read has then ended. A write goes on without a result: its bytes and its request
  /// belong to the connection.
  class awaiter {
   public:
    awaiter(awaitable_connection& on, starter start) noexcept : on_{on}, start_{start} {}
    awaiter(const awaiter&) = delete;
    awaiter& operator=(const awaiter&) = delete;
    ~awaiter() {
      on_.waiting_ = nullptr;
      uv_read_stop(on_.stream());
    }

    // NOLINTNEXTLINE(readability-convert-member-functions-to-static): the language calls it on an object
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiting) const noexcept {
      on_.waiting_ = waiting;
      on_.result_ = start_(on_);
      return on_.result_ == 0;
    }
    ssize_t await_resume() const noexcept { return on_.result_; }

   private:
    awaitable_connection& on_;
    starter start_;
  };
  awaiter operator co_await() const noexcept { return {on_, start_}; }

 private:
  awaitable_connection& on_;
  starter start_;
};

inline awaitable_connection::operation awaitable_connection::connect(const sockaddr_in& to) noexcept {
  peer_ = to;
  return {*this, [](awaitable_connection& c) noexcept {
            const auto* const address = reinterpret_cast<const sockaddr*>(&c.peer_);
            const auto on_connected = [](uv_connect_t* r, int error) { of(r->handle).end(error); };
            return uv_tcp_connect(&c.connect_, &c.tcp_, address, on_connected);
          }};
}

inline awaitable_connection::operation awaitable_connection::read() noexcept {
  return {*this, [](awaitable_connection& c) noexcept {
            const auto give_buffer = [](uv_handle_t* h, std::size_t, uv_buf_t* to) {
              *to = uv_buf_init(of(h).buffer.data(), static_cast<unsigned>(of(h).buffer.size()));
            };
            const auto on_read = [](uv_stream_t* s, ssize_t size, const uv_buf_t*) {
              if (size == 0) return;  // libuv's way to say "nothing yet"
              uv_read_stop(s);
              of(s).end(size);
            };
            return uv_read_start(c.stream(), give_buffer, on_read);
          }};
}

inline awaitable_connection::operation awaitable_connection::write(std::size_t size) noexcept {
  to_write_ = static_cast<unsigned>(size);
  return {*this, [](awaitable_connection& c) noexcept {
            const uv_buf_t bytes = uv_buf_init(c.buffer.data(), c.to_write_);
            const auto on_written = [](uv_write_t* r, int error) { of(r->handle).end(error); };
            return uv_write(&c.write_, c.stream(), &bytes, 1, on_written);
          }};
}
