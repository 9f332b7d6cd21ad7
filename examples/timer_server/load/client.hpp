// One connection to the server: a PUT at a time.
#pragma once

#include "../text/times.hpp"
#include "ledger.hpp"
#include "load_options.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace timer_load {

namespace http = boost::beast::http;

/// All clients share this.
struct context {
  const load_options& asked;
  ledger& book;
  tickwheel::event_loop& loop;
  std::string callback;
  tickwheel::clock::time_point began{};
  std::size_t next = 0;  // timer
  std::uint64_t state = 0x9E3779B97F4A7C15U;

  /// Returns true if it is time to schedule the next timer.
  bool may_schedule() const {
    const std::chrono::duration<double> passed = tickwheel::clock::now() - began;
    return asked.rate == 0 || static_cast<double>(next) < passed.count() * static_cast<double>(asked.rate);
  }
  std::chrono::nanoseconds limit() {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto span = static_cast<std::uint64_t>((asked.longest - asked.shortest).count()) + 1;
    return asked.shortest + std::chrono::milliseconds{static_cast<std::int64_t>((state >> 33U) % span)};
  }
};

/// Schedules one timer after the other, and sends a request again that had no answer.
class client {
 public:
  explicit client(context& in) : in_{in} {}
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  void connect() noexcept {
    if (is_stopped_) return;
    sockaddr_in at{};
    uv_ip4_addr("127.0.0.1", in_.asked.port, &at);
    uv_tcp_init(&in_.loop.uv(), &socket_);
    socket_.data = this;
    const auto on_connected = [](uv_connect_t* c, int error) {
      auto& self = *static_cast<client*>(c->handle->data);
      if (error == UV_ECANCELED) return;
      if (error != 0) return self.lose();
      uv_tcp_nodelay(&self.socket_, 1);
      uv_read_start(c->handle, give_buffer, on_read);
      self.send();
    };
    is_open_ = true;
    if (uv_tcp_connect(&connecting_, &socket_, reinterpret_cast<const sockaddr*>(&at), on_connected) != 0) lose();
  }
  void stop() noexcept {
    is_stopped_ = true;
    again_.cancel();
    if (std::exchange(is_open_, false)) uv_close(reinterpret_cast<uv_handle_t*>(&socket_), nullptr);
  }

 private:
  // The same timer again if the last request had no answer.
  void send() noexcept {
    if (!timer_) {
      if (in_.next == in_.asked.timers) return;  // the connection stays, to see an outage
      if (!in_.may_schedule()) {
        (void)again_.arm(std::chrono::milliseconds{5});
        return;
      }
      timer_ = in_.next++;
      in_.book.timers[*timer_].due = std::chrono::ceil<std::chrono::milliseconds>(now() + in_.limit());
    }
    const std::string body = R"({"due":")" + timer_server::write_moment(in_.book.timers[*timer_].due) +
                             R"(","callback":")" + in_.callback + R"("})";
    request_ = "PUT /v1/timers/" + in_.book.id_of(*timer_) +
               " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\n\r\n" + body;
    answer_.emplace();
    uv_buf_t buffer = uv_buf_init(request_.data(), static_cast<unsigned>(request_.size()));
    const auto on_written = [](uv_write_t* w, int error) {
      if (error != 0 && error != UV_ECANCELED) static_cast<client*>(w->handle->data)->lose();
    };
    if (uv_write(&write_, reinterpret_cast<uv_stream_t*>(&socket_), &buffer, 1, on_written) != 0) lose();
  }

  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    auto& self = *static_cast<client*>(h->data);
    *buffer = uv_buf_init(self.buffer_.data(), static_cast<unsigned>(self.buffer_.size()));
  }

  static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t* buffer) noexcept {
    auto& self = *static_cast<client*>(s->data);
    if (size == 0) return;
    if (size < 0) return self.lose();
    self.kept_.append(buffer->base, static_cast<std::size_t>(size));
    self.take();
  }

  void take() noexcept {
    if (!answer_) return lose();  // nothing was asked
    boost::beast::error_code error;
    answer_->eager(true);
    const std::size_t used = answer_->put(boost::asio::buffer(kept_.data(), kept_.size()), error);
    kept_.erase(0, used);
    if (error == http::error::need_more) return;
    if (error) return lose();
    if (!answer_->is_done()) return;
    const auto status = answer_->get().result_int();
    const bool goes_on = answer_->get().keep_alive();
    answer_.reset();
    // 409: it has been called already, after an answer was lost
    if (status == 201 || status == 200 || status == 409) {
      in_.book.confirm(*timer_);
      timer_.reset();
      return goes_on ? send() : lose();
    }
    (void)again_.arm(std::chrono::milliseconds{50});
  }

  void lose() noexcept {
    if (!std::exchange(is_open_, false)) return;
    in_.book.lose_server();
    kept_.clear();
    answer_.reset();
    uv_close(reinterpret_cast<uv_handle_t*>(&socket_),
             [](uv_handle_t* h) { (void)static_cast<client*>(h->data)->again_.arm(std::chrono::milliseconds{50}); });
  }

  void on_again() noexcept {
    if (is_stopped_) return;
    is_open_ ? send() : connect();
  }

  context& in_;
  tickwheel::member_timer<&client::on_again> again_{in_.loop.timers(), *this};
  uv_tcp_t socket_{};
  uv_connect_t connecting_{};
  uv_write_t write_{};
  bool is_open_ = false, is_stopped_ = false;
  std::optional<std::size_t> timer_;
  std::string request_;
  std::array<char, 4096> buffer_{};
  std::string kept_;
  std::optional<http::response_parser<http::string_body>> answer_;
};

}  // namespace timer_load
