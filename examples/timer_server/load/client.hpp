// One connection to the server: a request at a time.
#pragma once

#include "../text/times.hpp"
#include "context.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace timer_load {

namespace http = boost::beast::http;

/// Does one work after the other, and sends a request again that had no answer.
class client {
 public:
  explicit client(context& in) : in_{in} {}

  void connect() noexcept {
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
  // The same request again if the last one had no answer.
  void send() noexcept {
    if (!work_) work_ = in_.take_work();
    if (!work_) {
      // else the connection stays, to see an outage
      if (in_.may_have_work()) (void)again_.arm(std::chrono::milliseconds{5});
      return;
    }
    request_ = text_of(*work_);
    answer_.emplace();
    uv_buf_t buffer = uv_buf_init(request_.data(), static_cast<unsigned>(request_.size()));
    const auto on_written = [](uv_write_t* w, int error) {
      if (error != 0 && error != UV_ECANCELED) static_cast<client*>(w->handle->data)->lose();
    };
    if (uv_write(&write_, reinterpret_cast<uv_stream_t*>(&socket_), &buffer, 1, on_written) != 0) lose();
  }

  std::string text_of(const work& what) const {
    const std::string method = what.what == work::kind::cancel ? "DELETE" : "PUT";
    const std::string head = method + " /v1/timers/" + in_.book.id_of(what.timer) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    if (what.what == work::kind::cancel) return head + "\r\n";
    const std::string time = what.is_relative ? R"({"in":")" + timer_server::write_duration(what.in)
                                              : R"({"due":")" + timer_server::write_moment(what.due);
    const char* const end = what.what == work::kind::replace ? R"(","on_conflict":"replace"})" : R"("})";
    const std::string body = time + R"(","callback":")" + in_.callback + end;
    return head + "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           body;
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
    const bool goes_on = answer_->get().keep_alive();
    const bool is_final = note(answer_->get());
    answer_.reset();
    if (!is_final) return (void)again_.arm(std::chrono::milliseconds{50});
    work_.reset();
    goes_on ? send() : lose();
  }

  // Writes the answer into the ledger. Returns false if the request is to be sent again.
  bool note(const http::response<http::string_body>& answer) {
    const unsigned status = answer.result_int();
    if (work_->what == work::kind::schedule) {
      // 409: it has been called already, after an answer was lost
      if (status != 201 && status != 200 && status != 409) return false;
      in_.book.confirm(work_->timer, work_->is_relative ? due_of(answer.body()) : std::nullopt);
      in_.plan_change(work_->timer);
      return true;
    }
    const auto meaning = work_->what == work::kind::cancel ? meaning_of_cancel(status) : meaning_of_replace(status);
    if (meaning) in_.book.answer(work_->timer, *meaning);
    if (status == 504) doubt();
    return meaning.has_value();
  }

  static std::optional<change_answer> meaning_of_cancel(unsigned status) {
    switch (status) {
      case 204:
        return change_answer::cancelled;
      case 202:
        return change_answer::cancelling;
      case 409:
        return change_answer::kept;
      case 404:
        return change_answer::missing;
      default:
        return std::nullopt;
    }
  }

  static std::optional<change_answer> meaning_of_replace(unsigned status) {
    switch (status) {
      case 200:
        return change_answer::replaced;
      case 409:
        return change_answer::kept;
      case 201:  // there was none to replace
        return change_answer::missing;
      default:
        return std::nullopt;
    }
  }

  static std::optional<wall_time> due_of(const std::string& document) {
    const auto parsed = nlohmann::json::parse(document, nullptr, false);
    const auto due = parsed.is_object() ? parsed.find("due") : parsed.end();
    wall_time when{};
    if (due == parsed.end() || !due->is_string() ||
        timer_server::read_moment(due->get_ref<const std::string&>(), when) != nullptr)
      return std::nullopt;
    return when;
  }

  // Nobody knows whether the request was carried out.
  void doubt() {
    if (work_->what == work::kind::replace) in_.book.doubt(work_->timer);
  }

  void lose() noexcept {
    if (!std::exchange(is_open_, false)) return;
    again_.cancel();  // it would open the socket again before that is closed
    in_.book.lose_server();
    if (work_ && answer_) doubt();
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
  std::optional<work> work_;
  std::string request_;
  std::array<char, 4096> buffer_{};
  std::string kept_;
  std::optional<http::response_parser<http::string_body>> answer_;
};

}  // namespace timer_load
