#include "http_connection.hpp"

#include "addressee.hpp"
#include "problem_document.hpp"

#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace timer_server {
namespace {

using namespace std::chrono_literals;
using tickwheel::drain_call;
using tickwheel::request_phase;
using stage = http_framing::stage;
namespace http = boost::beast::http;

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

// A field that stands there more than once has no value that we could trust.
std::string_view only_value(const http_framing::request& request, http::field name) {
  return request.count(name) == 1 ? view(request[name]) : std::string_view{};
}

// An empty field was given all the same.
std::optional<std::string_view> value_if_given(const http_framing::request& request, http::field name) {
  const auto found = request.find(name);
  if (found == request.end()) return std::nullopt;
  return view(found->value());
}

problem problem_of(http_framing::status why) {
  const auto status = static_cast<unsigned>(why);
  switch (why) {
    case http::status::payload_too_large:
      return {.status = status, .code = "too-large", .detail = "The body of the request is too large."};
    case http::status::request_header_fields_too_large:
      return {.status = status, .code = "too-large", .detail = "The header of the request is too large."};
    case http::status::http_version_not_supported:
      return {.status = status, .code = "bad-request", .detail = "The service speaks HTTP/1.1."};
    case http::status::not_implemented:
      return {.status = status, .code = "bad-request", .detail = "The only transfer coding is chunked."};
    default:
      return {.status = status, .code = "bad-request", .detail = "The request is no valid HTTP/1.1."};
  }
}

}  // namespace

void http_connection::accept(connections& on, uv_stream_t& listener) noexcept {
  const auto self = std::make_shared<http_connection>(on);
  uv_tcp_init(&on.loop.uv(), &self->socket_);  // cannot fail: it makes no socket yet
  self->socket_.data = self.get();
  self->self_ = self;
  ++on.open;
  ++on.accepted;
  if (uv_accept(&listener, self->stream()) != 0) return self->close();
  if (on.open > on.most) {
    ++on.turned_away;
    return self->close();
  }
  if (self->phases_.start(on.phases) != 0 || self->read() != 0) return self->close();
  uv_tcp_nodelay(&self->socket_, 1);
}

http_connection::http_connection(connections& on)
    : on_{on},
      framing_{on.framing},
      phases_{on.loop.timers(), *this},
      rate_{on.loop.timers(), *this},
      linger_{on.loop.timers(), *this},
      drain_{on.drain, *this},
      rest_{on.loop.timers(), *stream(), *this} {}

// --- bytes in

int http_connection::read() noexcept {
  if (is_reading_ || peer_ended_) return 0;
  is_reading_ = true;
  const auto give_buffer = [](uv_handle_t* h, std::size_t, uv_buf_t* buffer) {
    auto& shared_by_all = static_cast<http_connection*>(h->data)->on_.read_buffer;
    *buffer = uv_buf_init(shared_by_all.data(), static_cast<unsigned>(shared_by_all.size()));
  };
  return uv_read_start(stream(), give_buffer, [](uv_stream_t* s, ssize_t size, const uv_buf_t* buffer) {
    const std::string_view bytes =
        size > 0 ? std::string_view{buffer->base, static_cast<std::size_t>(size)} : std::string_view{};
    static_cast<http_connection*>(s->data)->on_read(size, bytes);
  });
}

void http_connection::on_read(ssize_t size, std::string_view bytes) noexcept {
  if (size == 0) return;  // libuv's way to say "nothing yet"
  if (size == UV_EOF && !is_lingering_) return on_end_of_input();
  if (size < 0) return close();
  if (is_lingering_) return;
  if (!waiting_) return take(bytes);
  framing_.keep(bytes);
  if (framing_.buffered() < on_.framing.header) return;
  uv_read_stop(stream());
  is_reading_ = false;
}

// It may listen yet, and is told what became of its request, or of half of one.
void http_connection::on_end_of_input() noexcept {
  uv_read_stop(stream());
  is_reading_ = false;
  peer_ended_ = true;
  if (waiting_ || !rest_.is_idle()) return;
  if (!framing_.has_begun()) return close();
  framing_.stop();
  write_answer(timer_server::answer_with(problem_of(http::status::bad_request)));
  (void)flush();  // there is no next request
}

void http_connection::take(std::string_view bytes) noexcept {
  bool has_more = true;
  for (; has_more; bytes = {}) {
    phases_.on_bytes();
    drain_.begin_request();
    rate_.progress(bytes.size());
    is_taking_ = true;
    framing_.take(bytes, *this);
    is_taking_ = false;
    has_more = on_.out.empty() ? go_on() : flush();
  }
}

bool http_connection::on_request(const http_framing::request& request) {
  phases_.on_request_end();
  rate_.cancel();
  waiting_ = asked{.is_head = request.method() == http::verb::head, .keep_alive = request.keep_alive()};
  const auto answer = [to = weak_from_this()](const http_answer& a) {
    if (const auto self = to.lock()) self->answer_with(a);
  };
  // An empty field must not hide another of its name.
  if (request.count(http::field::origin) > 1 || request.count(http::field::content_type) > 1) {
    answer_with(timer_server::answer_with(
        {.status = 400, .code = "bad-request", .detail = "A request has one Origin and one Content-Type at most."}));
    return false;
  }
  const auto [host, target] = addressee_of(view(request.target()), view(request[http::field::host]));
  on_.requests->ask({.method = view(request.method_string()),
                     .target = target,
                     .host = host,
                     .origin = value_if_given(request, http::field::origin),
                     .content_type = value_if_given(request, http::field::content_type),
                     .authorization = only_value(request, http::field::authorization),
                     .body = request.body()},
                    answer);
  return false;
}

bool http_connection::on_expect_continue() {
  on_.out += "HTTP/1.1 100 Continue\r\n\r\n";
  return true;
}

void http_connection::on_refused(http_framing::status why) { write_answer(timer_server::answer_with(problem_of(why))); }

// --- bytes out

void http_connection::answer_with(const http_answer& answer) noexcept {
  if (!waiting_ || is_closing()) return;
  // never closed without a word
  if (!waiting_->keep_alive || phases_.aged() || on_.drain.draining()) framing_.stop();
  write_answer(answer);
  waiting_.reset();
  if (!is_taking_ && flush()) take({});
}

void http_connection::write_answer(const http_answer& answer) {
  ++on_.answers[std::min<std::size_t>(answer.status / 100, on_.answers.size() - 1)];
  std::string& out = on_.out;
  out += "HTTP/1.1 " + std::to_string(answer.status) + ' ' + phrase_of(answer.status) + "\r\n";
  if (!answer.content_type.empty()) out += "Content-Type: " + answer.content_type + "\r\n";
  if (answer.status != 204) out += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  if (!answer.allow.empty()) out += "Allow: " + answer.allow + "\r\n";
  if (answer.retry_after.count() != 0) out += "Retry-After: " + std::to_string(answer.retry_after.count()) + "\r\n";
  if (answer.asks_for_token) out += "WWW-Authenticate: Bearer\r\n";
  if (framing_.at() == stage::over) out += "Connection: close\r\n";
  out += "\r\n";
  if (!waiting_ || !waiting_->is_head) out += answer.body;
}

// Nearly always the socket takes all at once. If not, the peer is not read from until it took what it is owed, which bounds our
// memory, and it has to take that at the least rate.
bool http_connection::flush() noexcept {
  std::string& out = on_.out;
  const std::size_t taken = send(out);
  if (taken < out.size() && !is_closing()) {
    uv_read_stop(stream());
    is_reading_ = false;
    const std::string_view rest = std::string_view{out}.substr(taken);
    if (demand_rate() != 0 || rest_.write(rest, on_.rate.interval / 4) != 0) close();
  }
  const bool is_sent = taken == out.size();
  out.clear();
  return is_sent && !is_closing() && go_on();
}

// How much of it the socket takes at once; closes when there is none any more.
std::size_t http_connection::send(std::string_view bytes) noexcept {
  const std::ptrdiff_t sent = rest_.try_write(bytes);
  if (sent < 0) close();
  return sent < 0 ? 0 : static_cast<std::size_t>(sent);
}

void http_connection::on_taken(std::size_t bytes) noexcept { rate_.progress(bytes); }

void http_connection::on_write_failed() noexcept { close(); }

void http_connection::on_written() noexcept {
  rate_.cancel();
  if (go_on()) take({});
}

// All there was to send is sent: the next request is awaited, or has begun already and gets a time of its own.
bool http_connection::go_on() noexcept {
  const stage at = framing_.at();
  if (at == stage::over) return finish(), false;
  if (waiting_) return false;
  if (phases_.phase() == request_phase::response) {
    phases_.on_response_end();
    if (at != stage::idle) phases_.on_bytes();
  }
  if (at == stage::idle) drain_.end_request();
  if (at == stage::body && phases_.phase() == request_phase::header) {
    phases_.on_header_end();
    if (demand_rate() != 0) return close(), false;
  }
  if (framing_.held_back()) return true;
  if (peer_ended_)
    on_end_of_input();
  else if (read() != 0)
    close();
  return false;
}

int http_connection::demand_rate() noexcept { return rate_.start(on_.rate); }

// --- the end

// All is said. A socket that is closed while the peer still sends resets the connection, and the peer may lose what it was told
// last: so it is listened to a little longer.
void http_connection::finish() noexcept {
  if (peer_ended_) return close();
  phases_.cancel();
  rate_.cancel();
  is_lingering_ = true;
  if (read() != 0 || uv_shutdown(&shutdown_, stream(), [](uv_shutdown_t*, int) {}) != 0 || linger_.arm(1s) != 0)
    close();
}

void http_connection::on_phase_timeout(request_phase which) noexcept {
  switch (which) {
    case request_phase::header:
      ++on_.cut_header;
      break;
    case request_phase::body:
      ++on_.cut_body;
      break;
    case request_phase::keep_alive:
      ++on_.cut_keep_alive;
      break;
    default:
      ++on_.cut_age;
  }
  cut();
}

void http_connection::on_too_slow() noexcept {
  ++on_.cut_rate;
  cut();
}

void http_connection::on_drain(drain_call) noexcept { close(); }

// A peer that has begun a request is told why, as far as the socket takes it at once. One that does not take its answer is reset, or
// the system would go on offering it what it has taken from us.
void http_connection::cut() noexcept {
  if (!rest_.is_idle()) return end(true);
  if (framing_.has_begun()) {
    framing_.stop();
    write_answer(timer_server::answer_with(
        {.status = 408, .code = "timeout", .detail = "The request has not arrived in time."}));
    send(on_.out);
    on_.out.clear();
  }
  close();
}

// Idempotent: an error, a timeout and the drain may each want to.
void http_connection::end(bool by_reset) noexcept {
  if (is_closing()) return;
  phases_.cancel();  // no handler must run between here and the destructor
  rate_.cancel();
  rest_.cancel();
  linger_.cancel();
  drain_.leave();
  waiting_.reset();
  --on_.open;
  const auto gone = [](uv_handle_t* h) { const auto last = std::move(static_cast<http_connection*>(h->data)->self_); };
  if (!by_reset || uv_tcp_close_reset(&socket_, gone) != 0) uv_close(handle(), gone);
}

}  // namespace timer_server
