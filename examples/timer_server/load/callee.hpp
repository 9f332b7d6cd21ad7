// The endpoint that the server calls.
#pragma once

#include "../../http/http_framing.hpp"
#include "../../support/listen.hpp"
#include "ledger.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace timer_load {

/// Answers each call with 204, and tells the ledger.
class callee {
 public:
  callee(tickwheel::event_loop& loop, ledger& book) : loop_{loop}, book_{book} {}

  /// Returns 0 or a UV_ code. Then `port` is known.
  int listen() noexcept {
    sockaddr_in at{};
    uv_ip4_addr("127.0.0.1", 0, &at);
    if (const int error = uv_tcp_init(&loop_.uv(), &listener_)) return error;
    listener_.data = this;
    const auto on_connection = [](uv_stream_t* s, int error) {
      if (error == 0) static_cast<callee*>(s->data)->accept(*s);
    };
    if (const int error = listen_at(listener_, at, on_connection)) return error;
    port = ntohs(at.sin_port);
    return 0;
  }
  void stop() noexcept {
    if (listener_.data == nullptr || is_stopped_) return;
    is_stopped_ = true;
    uv_close(reinterpret_cast<uv_handle_t*>(&listener_), nullptr);
    for (peer* const p : std::vector<peer*>{peers_.begin(), peers_.end()}) p->close();
  }

  int port = 0;

 private:
  class peer final : private http_framing::handler {
   public:
    explicit peer(callee& of) : of_{of}, framing_{{}} {
      uv_tcp_init(&of.loop_.uv(), &socket_);
      socket_.data = this;
    }
    void start(uv_stream_t& listener) noexcept {
      of_.peers_.insert(this);
      if (uv_accept(&listener, stream()) != 0) return close();
      uv_tcp_nodelay(&socket_, 1);
      const auto give = [](uv_handle_t*, std::size_t, uv_buf_t* buffer) {
        static std::array<char, 65'536> shared;
        *buffer = uv_buf_init(shared.data(), shared.size());
      };
      const auto take = [](uv_stream_t* s, ssize_t size, const uv_buf_t* buffer) {
        auto& self = *static_cast<peer*>(s->data);
        if (size < 0) return self.close();
        self.framing_.take({buffer->base, static_cast<std::size_t>(size)}, self);
      };
      if (uv_read_start(stream(), give, take) != 0) close();
    }
    void close() noexcept {
      if (uv_is_closing(reinterpret_cast<uv_handle_t*>(&socket_)) != 0) return;
      of_.peers_.erase(this);
      uv_close(reinterpret_cast<uv_handle_t*>(&socket_), [](uv_handle_t* h) { delete static_cast<peer*>(h->data); });
    }

   private:
    bool on_request(const http_framing::request& r) override {
      const auto header = [&](const char* name) { return std::string_view{r[name].data(), r[name].size()}; };
      of_.book_.call({.id = header("Timer-Id"),
                      .due = header("Timer-Due"),
                      .key = header("Idempotency-Key"),
                      .token = header("Timer-Token")});
      std::string answer = "HTTP/1.1 204 No Content\r\n\r\n";
      uv_buf_t buffer = uv_buf_init(answer.data(), static_cast<unsigned>(answer.size()));
      // a socket takes so little at once, unless its peer is gone
      if (uv_try_write(stream(), &buffer, 1) != static_cast<int>(answer.size())) close();
      return true;
    }
    bool on_expect_continue() override { return true; }
    void on_refused(http_framing::status) override { close(); }
    uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }

    callee& of_;
    http_framing framing_;
    uv_tcp_t socket_{};
  };

  void accept(uv_stream_t& listener) { (new peer{*this})->start(listener); }

  tickwheel::event_loop& loop_;
  ledger& book_;
  uv_tcp_t listener_{};  // its data is set once it is the loop's
  bool is_stopped_ = false;
  std::unordered_set<peer*> peers_;
};

}  // namespace timer_load
