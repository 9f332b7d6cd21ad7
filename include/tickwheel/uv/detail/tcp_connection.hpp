// A TCP connection: the operations of libuv, and the coroutines that wait for them.
#pragma once

#include <tickwheel/uv/detail/tcp_handle.hpp>
#include <tickwheel/uv/detail/tcp_wait.hpp>
#include <tickwheel/uv/tcp_limit.hpp>

#include <uv.h>

#include <cstddef>
#include <span>
#include <utility>

namespace tickwheel::detail {

/// A connection. Its reader waits for `in`, its writer for `out`.
class tcp_connection final : public tcp_handle {
 public:
  tcp_connection(uv_loop_t& loop, timer_service& timers) noexcept
      : tcp_handle{loop, timers}, in_{timers, this, &expire_read}, out_{timers, this, &expire_write} {}

  /// Coroutines that wait are resumed with UV_ECANCELED once libuv has closed it.
  void close() noexcept {
    if (!begin_close(&on_closed)) return;
    in_.close();
    out_.close();
    is_reading_ = false;
  }
  /// Closes it, and frees it after that.
  void release() noexcept {
    close();
    if (disown()) delete this;
  }

  int begin_read(std::span<char> into, tcp_wait& wait, const tcp_limit& limit) noexcept {
    if (const int error = in_.begin(wait, limit)) return error;
    into_ = into;
    if (is_reading_) return 0;
    const int error = uv_read_start(stream(), &give_buffer, &on_read);
    is_reading_ = error == 0;
    if (error != 0) in_.forget();
    return error;
  }
  void give_up_read() noexcept {
    in_.forget();
    pause();
  }

  bool is_writing() const noexcept { return out_.is_awaited(); }

  int begin_write(std::span<const char> bytes, tcp_wait& wait, const tcp_limit& limit) noexcept {
    if (const int error = out_.begin(wait, limit)) return error;
    const uv_buf_t all = buffer_of(bytes);
    const auto on_written = [](uv_write_t* r, int error) noexcept { of<tcp_connection>(r->handle).end_request(error); };
    return begun(uv_write(&request_.write, stream(), &all, 1, on_written));
  }
  /// Asks the kernel only if a connect was begun.
  bool is_connected() noexcept {
    sockaddr_storage peer;
    int size = sizeof peer;
    return uv_is_readable(stream()) != 0 && uv_tcp_getpeername(&tcp(), reinterpret_cast<sockaddr*>(&peer), &size) == 0;
  }
  int begin_connect(const sockaddr& to, tcp_wait& wait, const tcp_limit& limit) noexcept {
    if (const int error = out_.begin(wait, limit)) return error;
    const auto on_connected = [](uv_connect_t* r, int error) noexcept {
      of<tcp_connection>(r->handle).end_request(error);
    };
    return begun(uv_tcp_connect(&request_.connect, &tcp(), &to, on_connected));
  }
  /// Only closing ends a request of libuv, which uses the bytes of the coroutine's frame.
  void give_up_request() noexcept {
    out_.forget();
    close();
  }

  static uv_buf_t buffer_of(std::span<const char> bytes) noexcept {
    uv_buf_t buffer;
    buffer.base = const_cast<char*>(bytes.data());
    buffer.len = static_cast<decltype(buffer.len)>(bytes.size());
    return buffer;
  }

 private:
  union request {
    uv_connect_t connect;
    uv_write_t write;
  };

  void pause() noexcept {
    if (std::exchange(is_reading_, false)) uv_read_stop(stream());
  }
  int begun(int error) noexcept {
    if (error != 0) out_.forget();
    return error;
  }
  void end_request(int error) noexcept {
    if (out_.is_awaited()) out_.end(error);
  }

  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    *buffer = buffer_of(of<tcp_connection>(h).into_);
  }

  // A coroutine that reads again at once finds the reading started: a message then costs libuv nothing besides the bytes.
  static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t*) noexcept {
    auto& self = of<tcp_connection>(s);
    if (size == 0) return;  // libuv's way to say "nothing yet"
    if (size < 0) self.pause();
    self.in_.end(size);
    if (!self.in_.is_awaited()) self.pause();
  }

  static void expire_read(void* connection) noexcept {
    auto& self = *static_cast<tcp_connection*>(connection);
    self.pause();
    self.in_.end(UV_ETIMEDOUT);
  }
  static void expire_write(void* connection) noexcept {
    auto& self = *static_cast<tcp_connection*>(connection);
    self.close();
    self.out_.end(UV_ETIMEDOUT);
  }

  static void on_closed(uv_handle_t* h) noexcept {
    auto& self = of<tcp_connection>(h);
    if (self.in_.is_awaited()) self.in_.end(UV_ECANCELED);
    if (self.out_.is_awaited()) self.out_.end(UV_ECANCELED);
    if (self.end_close()) delete &self;
  }

  tcp_side in_;
  tcp_side out_;
  std::span<char> into_;
  request request_{};
  bool is_reading_ = false;
};

}  // namespace tickwheel::detail
