#include "response_reader.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>

#include <algorithm>

namespace http = boost::beast::http;

namespace timer_server {

namespace {

constexpr std::string_view beginning = "HTTP/1.";
constexpr std::string_view end_of_header = "\r\n\r\n";

/// Whether this may be the beginning of a response. A callee that does not speak HTTP is found out by its first bytes.
bool may_begin_a_response(std::string_view bytes) noexcept {
  const std::size_t size = std::min(bytes.size(), beginning.size());
  return bytes.substr(0, size) == beginning.substr(0, size);
}

}  // namespace

response_reader::parser::parser() = default;

void response_reader::parser::on_field_impl(field name, string_view, string_view value, error_code&) {
  // a field after the body says nothing
  if (name == field::retry_after && !is_header_done() && !retry_after) retry_after.emplace(value.data(), value.size());
}

response_reader::stage response_reader::take(std::string_view bytes) {
  has_begun_ = has_begun_ || !bytes.empty();
  const bool from_kept = !kept_.empty();
  if (from_kept) bytes = kept_.append(bytes);
  std::size_t used = 1;
  while (used != 0 && !bytes.empty() && stage_ == stage::reading) {
    used = parse(bytes);
    bytes.remove_prefix(used);
  }
  if (stage_ == stage::complete && !bytes.empty()) keeps_connection_ = false;  // nobody asked for them
  if (from_kept)
    kept_.erase(0, kept_.size() - bytes.size());
  else
    kept_.assign(bytes);
  return stage_;
}

response_reader::stage response_reader::end() {
  boost::beast::error_code error = http::error::partial_message;
  if (head_ && head_->need_eof()) head_->put_eof(error);
  if (error)
    fail(has_begun_ ? "the callee closed the connection in the middle of its response"
                    : "the callee closed the connection without a response");
  else
    complete();
  return stage_;
}

std::optional<std::string_view> response_reader::retry_after() const noexcept {
  if (!head_ || !head_->retry_after) return std::nullopt;
  return *head_->retry_after;
}

// Takes one step, and says how many bytes it took; none when it takes more of them.
std::size_t response_reader::parse(std::string_view bytes) { return head_ ? parse_body(bytes) : parse_header(bytes); }

// The parser is given a header when all of it is there. Given parts of it, it would take each field by itself and hold its limit
// against what is left: any number of them, a few at a time.
std::size_t response_reader::parse_header(std::string_view bytes) {
  if (!may_begin_a_response(bytes)) {
    fail("the callee does not answer in HTTP/1");
    return 0;
  }
  const std::size_t end = bytes.substr(0, limits_.header).find(end_of_header);
  if (end == std::string_view::npos) {
    if (bytes.size() >= limits_.header) fail(http::error::header_limit);
    return 0;
  }
  const std::size_t size = end + end_of_header.size();
  head_.emplace();
  head_->header_limit(static_cast<std::uint32_t>(limits_.header));
  head_->body_limit(limits_.body);
  if (of_head_) head_->skip(true);
  boost::beast::error_code error;
  head_->put(boost::asio::buffer(bytes.data(), size), error);
  if (error || !head_->is_header_done())
    fail(error);
  else
    finish_header();
  return size;
}

void response_reader::finish_header() {
  constexpr unsigned switching_protocols = 101;
  if (head_->status / 100 == 1) {
    if (head_->status == switching_protocols) return fail("the callee switched to another protocol");
    if (++interim_responses_ > limits_.interim_responses) return fail("the callee sent too many 1xx responses");
    head_.reset();  // the next one may be the one that counts
  } else if (head_->is_done()) {
    complete();
  } else {
    head_->eager(true);
  }
}

// The parser is shown no more than the limit at once, so that what it must see as a whole, which is what surrounds a chunk, is no
// longer than that.
std::size_t response_reader::parse_body(std::string_view bytes) {
  // The parser of Boost 1.74 asserts, when it comes back to the last chunk, that there are more bytes than these.
  constexpr std::string_view last_chunk = "0\r\n\r\n";
  const bool may_be_last = bytes.size() < last_chunk.size() && bytes.substr(0, 3) == last_chunk.substr(0, 3);
  if (head_->chunked() && may_be_last) return 0;
  const std::string_view shown = bytes.substr(0, limits_.header);
  boost::beast::error_code error;
  const std::size_t used = head_->put(boost::asio::buffer(shown.data(), shown.size()), error);
  if (error == http::error::need_more) {
    if (used == 0 && shown.size() == limits_.header) fail(http::error::header_limit);
  } else if (error) {
    fail(error);
  } else if (head_->is_done()) {
    complete();
  }
  return used;
}

void response_reader::complete() {
  stage_ = stage::complete;
  keeps_connection_ = head_->keep_alive();
}

void response_reader::fail(const char* why) noexcept {
  stage_ = stage::malformed;
  problem_ = why;
}

void response_reader::fail(const boost::beast::error_code& error) noexcept {
  if (error == http::error::header_limit) return fail("the header of the response is too large");
  if (error == http::error::body_limit) return fail("the body of the response is too large");
  fail("the response is no valid HTTP/1");
}

}  // namespace timer_server
