// A callee on loopback that does what a test tells it, on the loop of the test.
#pragma once

#include "support/listen.hpp"

#include <uv.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// Counts the requests of each connection and has the script react to them. A request ends with "\r\n\r\n" and the body that its
/// Content-Length announces.
class scripted_callee {
 public:
  class peer {
   public:
    /// Writes at once, as far as the socket takes it.
    void write(std::string_view bytes) {
      uv_buf_t b = uv_buf_init(const_cast<char*>(bytes.data()), static_cast<unsigned>(bytes.size()));
      if (!is_closed()) (void)uv_try_write(stream(), &b, 1);
    }
    void close() {
      if (is_closed()) return;
      closed_ = true;
      uv_close(handle(), free_it);
    }
    void reset() {
      if (is_closed()) return;
      closed_ = true;
      uv_tcp_close_reset(&socket_, free_it);
    }
    void stop_reading() { uv_read_stop(stream()); }
    bool is_closed() const { return closed_; }
    int requests = 0;
    std::string request;  // the latest whole one
    std::string received;

   private:
    friend class scripted_callee;
    explicit peer(scripted_callee& on) : on_{on} {}
    static void free_it(uv_handle_t* h) { static_cast<peer*>(h->data)->is_freed_ = true; }
    uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&socket_); }
    uv_handle_t* handle() { return reinterpret_cast<uv_handle_t*>(&socket_); }
    void take() {
      for (;;) {
        const std::size_t end = received.find("\r\n\r\n");
        if (end == std::string::npos) return;
        const std::size_t length = received.find("Content-Length: ");
        const std::size_t body = length < end ? std::stoul(received.substr(length + 16, 20)) : 0;
        if (received.size() < end + 4 + body) return;
        request = received.substr(0, end + 4 + body);
        received.erase(0, request.size());
        ++requests;
        ++on_.requests;
        on_.on_request(*this);
      }
    }
    scripted_callee& on_;
    uv_tcp_t socket_{};
    bool closed_ = false, is_freed_ = false;
  };

  scripted_callee(uv_loop_t& loop, std::function<void(peer&)> script) : on_request{std::move(script)}, loop_{loop} {
    uv_tcp_init(&loop, &listener_);
    listener_.data = this;
    uv_ip4_addr("127.0.0.1", 0, &address_);
    listen_at(listener_, address_, [](uv_stream_t* s, int) { static_cast<scripted_callee*>(s->data)->accept(); });
    uv_unref(reinterpret_cast<uv_handle_t*>(&listener_));
  }
  ~scripted_callee() {
    close();
    for (bool all = false; !all;) {
      all = is_freed_;
      for (const auto& p : peers) all = all && p->is_freed_;
      if (!all) uv_run(&loop_, UV_RUN_NOWAIT);
    }
  }
  void close() {
    stop_listening();
    for (const auto& p : peers) p->close();
  }
  void stop_listening() {
    auto* const handle = reinterpret_cast<uv_handle_t*>(&listener_);
    if (!uv_is_closing(handle))
      uv_close(handle, [](uv_handle_t* h) { static_cast<scripted_callee*>(h->data)->is_freed_ = true; });
  }

  std::string url(std::string_view path = "/due") const {
    return "http://127.0.0.1:" + std::to_string(port()) + std::string{path};
  }
  int port() const { return ntohs(address_.sin_port); }

  std::function<void(peer&)> on_request;
  std::function<void(peer&)> on_accept = [](peer&) {};
  std::vector<std::unique_ptr<peer>> peers;
  int requests = 0;

 private:
  void accept() {
    peers.push_back(std::unique_ptr<peer>(new peer{*this}));
    peer& p = *peers.back();
    uv_tcp_init(&loop_, &p.socket_);
    p.socket_.data = &p;
    if (uv_accept(reinterpret_cast<uv_stream_t*>(&listener_), p.stream()) != 0) return p.close();
    const auto give = [](uv_handle_t* h, std::size_t, uv_buf_t* b) {
      auto& buffer = static_cast<peer*>(h->data)->on_.buffer_;
      *b = uv_buf_init(buffer.data(), static_cast<unsigned>(buffer.size()));
    };
    const auto on_read = [](uv_stream_t* s, ssize_t size, const uv_buf_t* b) {
      auto& self = *static_cast<peer*>(s->data);
      if (size < 0) return self.close();
      self.received.append(b->base, static_cast<std::size_t>(size));
      self.take();
    };
    uv_read_start(p.stream(), give, on_read);
    uv_unref(p.handle());  // only the caller keeps the loop alive
    on_accept(p);
  }

  uv_loop_t& loop_;
  uv_tcp_t listener_{};
  sockaddr_in address_{};
  std::vector<char> buffer_ = std::vector<char>(65536);
  bool is_freed_ = false;
};
