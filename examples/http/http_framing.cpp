#include "http_framing.hpp"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>

#include <cstdint>
#include <iterator>
#include <utility>

namespace http = boost::beast::http;

namespace {

// Only the names of methods begin like this (RFC 9110, 5.6.2). A peer that speaks TLS, or anything except HTTP, is detected by its
// first byte.
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

http_framing::stage http_framing::at() const noexcept {
  if (over_) return stage::over;
  if (request_) return stage::body;
  return kept_.empty() ? stage::idle : stage::header;
}

void http_framing::take(std::string_view bytes, handler& to) {
  const bool from_kept = !kept_.empty();
  if (from_kept) bytes = kept_.append(bytes);
  step last{.used = 1};
  while (last.goes_on && last.used != 0 && !bytes.empty() && !over_) {
    last = request_ ? parse_body(bytes, to) : parse_header(bytes, to);
    bytes.remove_prefix(last.used);
  }
  held_back_ = !last.goes_on && !bytes.empty() && !over_;
  if (over_) bytes = {};
  if (from_kept)
    kept_.erase(0, kept_.size() - bytes.size());
  else
    kept_.assign(bytes);
}

void http_framing::keep(std::string_view bytes) {
  if (over_) return;
  kept_.append(bytes);
  held_back_ = !kept_.empty();
}

void http_framing::stop() noexcept {
  over_ = true;
  held_back_ = false;
}

// The parser is given a header when all of it is there. Given parts of it, it would take each field by itself and compare its limit with
// the rest. It would then accept any number of fields, a few at a time.
http_framing::step http_framing::parse_header(std::string_view bytes, handler& to) {
  constexpr std::string_view end_of_header = "\r\n\r\n";
  if (!may_begin_a_request(bytes.front())) return {0, refuse(status::bad_request, to)};
  const std::size_t end = bytes.substr(0, limits_.header).find(end_of_header);
  if (end == std::string_view::npos) {
    if (bytes.size() >= limits_.header) refuse(status::request_header_fields_too_large, to);
    return {};
  }
  const std::size_t size = end + end_of_header.size();
  request_.emplace();
  request_->header_limit(static_cast<std::uint32_t>(limits_.header));
  request_->body_limit(limits_.body);
  boost::beast::error_code error;
  request_->put(boost::asio::buffer(bytes.data(), size), error);
  if (error || !request_->is_header_done()) return {size, refuse(status_of(error), to)};
  return {size, accept_header(to)};
}

bool http_framing::accept_header(handler& to) {
  const request& header = request_->get();
  // The end of the body must be beyond doubt. Otherwise one of us could read a part of it as another request, and the other not.
  const auto hosts = header.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && header.version() >= 11)) return refuse(status::bad_request, to);
  const auto codings = header.equal_range(http::field::transfer_encoding);
  if (codings.first != codings.second) {
    const bool is_chunked = boost::beast::iequals(codings.first->value(), "chunked");
    if (!is_chunked || std::next(codings.first) != codings.second) return refuse(status::not_implemented, to);
    if (header.version() < 11) return refuse(status::bad_request, to);
    header_ = header;
  }
  if (request_->is_done()) return complete(to);
  request_->eager(true);
  // HTTP/1.0 knows no interim response (RFC 9110, 10.1.1)
  if (header.version() >= 11 && boost::beast::iequals(header[http::field::expect], "100-continue"))
    return to.on_expect_continue();
  return true;
}

// The parser is given at most the limit at once. The bytes around a chunk, which it must see as a whole, are then no longer than that.
http_framing::step http_framing::parse_body(std::string_view bytes, handler& to) {
  // The parser of Boost 1.74 asserts that there are more bytes than these when it returns to the last chunk.
  constexpr std::string_view last_chunk = "0\r\n\r\n";
  const bool may_be_last = bytes.size() < last_chunk.size() && bytes.substr(0, 3) == last_chunk.substr(0, 3);
  if (request_->chunked() && may_be_last) return {};
  const std::string_view shown = bytes.substr(0, limits_.header);
  boost::beast::error_code error;
  const std::size_t used = request_->put(boost::asio::buffer(shown.data(), shown.size()), error);
  if (error == http::error::need_more) {
    if (used == 0 && shown.size() == limits_.header) refuse(status::request_header_fields_too_large, to);
  } else if (error) {
    refuse(status_of(error), to);
  } else if (request_->is_done()) {
    return {used, complete(to)};
  }
  return {used};
}

bool http_framing::complete(handler& to) {
  // The parser adds the fields after a body in chunks to the header. They must not take the place of one there (RFC 9110, 6.5.1).
  if (request_->chunked()) static_cast<http::fields&>(request_->get()) = std::move(header_);
  const bool goes_on = to.on_request(request_->get());
  request_.reset();
  return goes_on;
}

bool http_framing::refuse(status why, handler& to) {
  stop();
  request_.reset();
  to.on_refused(why);
  return false;
}
