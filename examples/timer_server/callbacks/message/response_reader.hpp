// One HTTP/1 response without a socket: bytes go in, what the outcome depends on comes out. So it can be tested and fuzzed.
#pragma once

#include <boost/beast/http/basic_parser.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace timer_server {

struct response_limits {
  std::size_t header = 16384;      // also of what surrounds a chunk of the body
  std::size_t body = 65536;        // without the coding in chunks
  unsigned interim_responses = 8;  // 1xx, before the one that counts
};

/// Reads the response of one request, however it is cut into pieces. Its body is not kept.
class response_reader {
 public:
  enum class stage {
    reading,    // more bytes are needed
    complete,   // the response is whole
    malformed,  // it is no response, or beyond a limit; `problem` says why
  };

  /// A response to HEAD never has a body.
  response_reader(const response_limits& limits, bool of_head) noexcept : limits_{limits}, of_head_{of_head} {}

  /// Takes the next bytes. Requires: `reading`.
  stage take(std::string_view bytes);
  /// The callee sends no more: this ends a body without a length, and makes any other response malformed. Requires: `reading`.
  stage end();

  /// True once a byte has come.
  bool has_begun() const noexcept { return has_begun_; }
  /// The rest is known once the response is complete.
  unsigned status() const noexcept { return head_ ? head_->status : 0; }
  std::optional<std::string_view> retry_after() const noexcept;
  /// True if another request may be sent on this connection.
  bool keeps_connection() const noexcept { return keeps_connection_; }
  /// Why it is malformed.
  const char* problem() const noexcept { return problem_; }

 private:
  // Keeps what the outcome depends on.
  class parser final : public boost::beast::http::basic_parser<false> {
   public:
    parser();  // defined elsewhere: clang needs the class complete for its members' initial values
    unsigned status = 0;
    std::optional<std::string> retry_after;

   private:
    using error_code = boost::beast::error_code;
    using string_view = boost::beast::string_view;
    using field = boost::beast::http::field;

    void on_request_impl(boost::beast::http::verb, string_view, string_view, int, error_code&) override {}
    void on_response_impl(int code, string_view, int, error_code&) override { status = static_cast<unsigned>(code); }
    void on_field_impl(field name, string_view, string_view value, error_code&) override;
    void on_header_impl(error_code&) override {}
    void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
    std::size_t on_body_impl(string_view body, error_code&) override { return body.size(); }
    void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
    std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code&) override { return body.size(); }
    void on_finish_impl(error_code&) override {}
  };

  std::size_t parse(std::string_view bytes);
  std::size_t parse_header(std::string_view bytes);
  std::size_t parse_body(std::string_view bytes);
  void finish_header();
  void complete();
  void fail(const char* why) noexcept;
  void fail(const boost::beast::error_code& error) noexcept;

  response_limits limits_;
  std::optional<parser> head_;  // from the end of its header on
  std::string kept_;            // bytes that mean nothing yet
  const char* problem_ = nullptr;
  unsigned interim_responses_ = 0;
  stage stage_ = stage::reading;
  bool of_head_, has_begun_ = false, keeps_connection_ = false;
};

}  // namespace timer_server
