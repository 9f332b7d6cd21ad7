#include "http_exchange.hpp"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>

#include <iterator>

namespace http = boost::beast::http;

namespace {

// What the server has to offer.
constexpr std::string_view greeting = "Hello.\n";
constexpr std::size_t large_size = 1 << 20;  // of /large, for peers that read slowly

const std::string& large() {
  static const std::string text(large_size, 'x');
  return text;
}

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

// The methods' names and nothing else begin like this (RFC 9110, 5.6.2): a peer that speaks TLS, or anything but HTTP,
// is found out by its first byte.
bool may_begin_a_request(char c) {
  constexpr std::string_view others = "!#$%&'*+-.^_`|~";
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_letter || (c >= '0' && c <= '9') || others.find(c) != std::string_view::npos;
}

http::status status_of(const boost::beast::error_code& error) {
  if (error == http::error::header_limit) return http::status::request_header_fields_too_large;
  if (error == http::error::body_limit) return http::status::payload_too_large;
  if (error == http::error::bad_version) return http::status::http_version_not_supported;
  return http::status::bad_request;
}

}  // namespace

http_exchange::stage http_exchange::at() const noexcept {
  if (over_) return stage::over;
  if (request_) return stage::body;
  return kept_.empty() ? stage::idle : stage::header;
}

void http_exchange::take(std::string_view bytes, std::string& out) {
  const bool from_kept = !kept_.empty();
  if (from_kept) bytes = kept_.append(bytes);
  std::size_t used = 1;
  while (used != 0 && !bytes.empty() && !over_ && out.size() < limits_.out) {
    used = parse(bytes, out);
    bytes.remove_prefix(used);
  }
  held_back_ = used != 0 && !bytes.empty() && !over_;
  if (over_) bytes = {};
  if (from_kept)
    kept_.erase(0, kept_.size() - bytes.size());
  else
    kept_.assign(bytes);
}

void http_exchange::end(std::string& out) {
  if (at() == stage::header || at() == stage::body) refuse(status::bad_request, out);
  over_ = true;
}

void http_exchange::time_out(std::string& out) {
  const bool has_begun = at() == stage::header || at() == stage::body;
  over_ = true;
  if (has_begun) write(status::request_timeout, "", true, out);
}

// Takes one step, and says how many bytes it took; none when it takes more of them.
std::size_t http_exchange::parse(std::string_view bytes, std::string& out) {
  return request_ ? parse_body(bytes, out) : parse_header(bytes, out);
}

// The parser is given a header when all of it is there. Given parts of it, it would take each field by itself and hold
// its limit against what is left: any number of them, a few at a time.
std::size_t http_exchange::parse_header(std::string_view bytes, std::string& out) {
  constexpr std::string_view end_of_header = "\r\n\r\n";
  if (!may_begin_a_request(bytes.front())) {
    refuse(status::bad_request, out);
    return 0;
  }
  const std::size_t end = bytes.substr(0, limits_.header).find(end_of_header);
  if (end == std::string_view::npos) {
    if (bytes.size() >= limits_.header) refuse(status::request_header_fields_too_large, out);
    return 0;
  }
  const std::size_t size = end + end_of_header.size();
  request_.emplace();
  request_->header_limit(static_cast<std::uint32_t>(limits_.header));
  request_->body_limit(limits_.body);
  boost::beast::error_code error;
  request_->put(boost::asio::buffer(bytes.data(), size), error);
  if (error || !request_->is_header_done())
    refuse(status_of(error), out);
  else
    accept_header(out);
  return size;
}

void http_exchange::accept_header(std::string& out) {
  const auto& request = request_->get();
  // Where the body ends must be beyond doubt, or it could be read as another request by one of us and not by the other.
  const auto hosts = request.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && request.version() >= 11)) return refuse(status::bad_request, out);
  const auto codings = request.equal_range(http::field::transfer_encoding);
  if (codings.first != codings.second) {
    const bool is_chunked = boost::beast::iequals(codings.first->value(), "chunked");
    if (!is_chunked || std::next(codings.first) != codings.second) return refuse(status::not_implemented, out);
    if (request.version() < 11) return refuse(status::bad_request, out);
  }
  if (request_->is_done()) return answer(out);
  request_->eager(true);
  if (boost::beast::iequals(request[http::field::expect], "100-continue")) out += "HTTP/1.1 100 Continue\r\n\r\n";
}

// The parser is shown no more than the limit at once, so that what it must see as a whole, which is what surrounds a
// chunk, is no longer than that.
std::size_t http_exchange::parse_body(std::string_view bytes, std::string& out) {
  // The parser of Boost 1.74 asserts, when it comes back to the last chunk, that there are more bytes than these.
  constexpr std::string_view last_chunk = "0\r\n\r\n";
  const bool may_be_last = bytes.size() < last_chunk.size() && bytes.substr(0, 3) == last_chunk.substr(0, 3);
  if (request_->chunked() && may_be_last) return 0;
  const std::string_view shown = bytes.substr(0, limits_.header);
  boost::beast::error_code error;
  const std::size_t used = request_->put(boost::asio::buffer(shown.data(), shown.size()), error);
  if (error == http::error::need_more) {
    if (used == 0 && shown.size() == limits_.header) refuse(status::request_header_fields_too_large, out);
  } else if (error) {
    refuse(status_of(error), out);
  } else if (request_->is_done()) {
    answer(out);
  }
  return used;
}

void http_exchange::answer(std::string& out) {
  ++answered_;
  const auto& request = request_->get();
  over_ = last_ || !request_->keep_alive();
  const http::verb method = request.method();
  const bool reads = method == http::verb::get || method == http::verb::head;
  const std::string_view target = view(request.target());
  const std::string_view path = target.substr(0, target.find('?'));
  const bool with_body = method != http::verb::head;
  if (path != "/" && path != "/large" && path != "/echo")
    write(status::not_found, "Not here.\n", with_body, out);
  else if (path == "/echo" ? method != http::verb::post : !reads)
    write(status::method_not_allowed, "Not this way.\n", with_body, out);
  else if (path == "/echo")
    write(status::ok, request.body(), with_body, out);
  else
    write(status::ok, path == "/" ? greeting : large(), with_body, out);
  request_.reset();
}

void http_exchange::refuse(status why, std::string& out) {
  ++refused_;
  over_ = true;
  request_.reset();
  write(why, "", true, out);
}

void http_exchange::write(status code, std::string_view body, bool with_body, std::string& out) const {
  out += "HTTP/1.1 " + std::to_string(static_cast<unsigned>(code)) + ' ';
  out += view(http::obsolete_reason(code));
  out += "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  if (code == status::method_not_allowed) out += "Allow: GET, HEAD, POST\r\n";
  if (over_)
    out += "Connection: close\r\n";
  else if (keep_alive_.count() != 0)
    out += "Connection: keep-alive\r\nKeep-Alive: timeout=" + std::to_string(keep_alive_.count()) + "\r\n";
  out += "\r\n";
  if (with_body) out += body;
}
