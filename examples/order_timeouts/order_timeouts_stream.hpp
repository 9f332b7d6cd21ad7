// A TCP connection that carries messages of fixed size both ways.
#pragma once

#include "../rpc/rpc_protocol.hpp"

#include <uv.h>

#include <cstddef>
#include <utility>
#include <vector>

/// Reads messages of type `In` for its owner, and writes those of type `Out`. Messages that are written while a write is under way
/// go out together. The owner has three members:
///
///   void on_connected() noexcept;
///   void on_message(const In&) noexcept;
///   void on_closed() noexcept;             // the connection was lost, or `close` was called; may connect again, or destroy the stream
template <class In, class Out, class Owner>
class message_stream {
 public:
  explicit message_stream(Owner& self) noexcept : self_{self} {}
  message_stream(const message_stream&) = delete;
  message_stream& operator=(const message_stream&) = delete;

  /// Takes the connection that waits on `listener`. If this fails, `on_closed` follows.
  void accept(uv_stream_t& listener) noexcept {
    open(*listener.loop);
    if (uv_accept(&listener, stream()) != 0) return close();
    read();
  }

  /// Connects to `address`. If this fails, `on_closed` follows.
  void connect(uv_loop_t& loop, const sockaddr_in& address) noexcept {
    open(loop);
    const auto on_connect = [](uv_connect_t* r, int error) {
      auto& self = *static_cast<message_stream*>(r->handle->data);
      error == 0 ? self.read() : self.close();
    };
    if (uv_tcp_connect(&connect_, &socket_, reinterpret_cast<const sockaddr*>(&address), on_connect) != 0) close();
  }

  /// True while messages can be written.
  bool is_connected() const noexcept { return connected_; }

  /// Sends a message. It is lost if the connection is. A peer that does not take its messages is disconnected.
  void write(const Out& message) noexcept {
    if (!connected_) return;
    if (waiting_.size() == most_waiting) return close();
    waiting_.push_back(message);
    if (!writing_) write_waiting();
  }

  /// Idempotent.
  void close() noexcept {
    connected_ = false;
    auto* const handle = reinterpret_cast<uv_handle_t*>(&socket_);
    if (!open_ || uv_is_closing(handle)) return;
    uv_close(handle, [](uv_handle_t* h) {
      auto& self = *static_cast<message_stream*>(h->data);
      self.open_ = false;
      self.waiting_.clear();
      self.self_.on_closed();
    });
  }

 private:
  static constexpr std::size_t most_waiting = 65'536;

  void open(uv_loop_t& loop) noexcept {
    uv_tcp_init(&loop, &socket_);  // cannot fail: it makes no socket yet
    socket_.data = this;
    open_ = true;
    reader_.clear();
  }

  void read() noexcept {
    uv_tcp_nodelay(&socket_, 1);
    const auto give_room = [](uv_handle_t* h, std::size_t, uv_buf_t* room) {
      *room = static_cast<message_stream*>(h->data)->reader_.room();
    };
    const auto on_read = [](uv_stream_t* s, ssize_t size, const uv_buf_t*) {
      auto& self = *static_cast<message_stream*>(s->data);
      if (size < 0) return self.close();
      self.reader_.read(static_cast<std::size_t>(size), [&](const In& message) noexcept {
        self.self_.on_message(message);
        return self.connected_;
      });
    };
    connected_ = uv_read_start(stream(), give_room, on_read) == 0;
    connected_ ? self_.on_connected() : close();
  }

  void write_waiting() noexcept {
    std::swap(waiting_, being_written_);
    uv_buf_t bytes = uv_buf_init(reinterpret_cast<char*>(being_written_.data()),
                                 static_cast<unsigned>(being_written_.size() * sizeof(Out)));
    const auto on_written = [](uv_write_t* w, int error) {
      auto& self = *static_cast<message_stream*>(w->handle->data);
      self.writing_ = false;
      self.being_written_.clear();
      if (error != 0) return self.close();  // also when it is closing already
      if (!self.waiting_.empty()) self.write_waiting();
    };
    writing_ = uv_write(&write_, stream(), &bytes, 1, on_written) == 0;
    if (!writing_) close();
  }

  uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }

  Owner& self_;
  uv_tcp_t socket_{};
  uv_connect_t connect_{};
  uv_write_t write_{};
  bool open_ = false, connected_ = false, writing_ = false;
  frame_reader<In> reader_;
  std::vector<Out> waiting_, being_written_;
};
