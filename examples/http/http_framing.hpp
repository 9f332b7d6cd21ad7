// The framing of HTTP/1.1 finds the beginning and the end of each request: bytes go in, whole requests come out. It knows no socket,
// and no answer.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

struct framing_limits {
  std::size_t header = 8192;   // of a request, with its first line; also of what surrounds a chunk of a body
  std::size_t body = 1 << 16;  // kept whole until the request is handled
};

/// The requests of one connection, in their order, however they were cut into pieces or joined on the way. A request that is malformed
/// or too large is refused. Everything after it is ignored, because its end is unknown.
class http_framing {
 public:
  using request = boost::beast::http::request<boost::beast::http::string_body>;
  using status = boost::beast::http::status;

  enum class stage {
    idle,    // no request has begun
    header,  // some bytes of a request have arrived
    body,    // its header is complete
    over,    // nothing more is taken
  };

  /// Is notified of requests. It may call `stop`, and no other function that changes the framing.
  class handler {
   public:
    /// A request is complete. It is destroyed when this returns. Returns false to keep the bytes after it for a later `take`.
    virtual bool on_request(const request&) = 0;
    /// The peer waits for permission to send the body: "HTTP/1.1 100 Continue". Returns as above.
    virtual bool on_expect_continue() = 0;
    /// The bytes are no request, or one that is too large. The framing is over; the status says why.
    virtual void on_refused(status) = 0;

   protected:
    ~handler() = default;
  };

  explicit http_framing(const framing_limits& limits) noexcept : limits_{limits} {}

  /// Takes bytes, after those that are kept, and notifies `to` of the requests that they complete.
  void take(std::string_view bytes, handler& to);

  /// Keeps bytes for a later `take`, and reads none of them.
  void keep(std::string_view bytes);

  /// Returns true if a handler returned false and the bytes after it may complete a request. `take` nothing to go on.
  bool held_back() const noexcept { return held_back_; }

  /// Takes nothing more, and frees the kept bytes.
  void stop() noexcept;

  stage at() const noexcept;
  /// Returns true if a request has begun and is not complete.
  bool has_begun() const noexcept { return at() == stage::header || at() == stage::body; }
  /// Returns the number of bytes that are kept because their request is not complete. Fewer than `framing_limits::header` unless held back.
  std::size_t buffered() const noexcept { return over_ ? 0 : kept_.size(); }

 private:
  using parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  // A step uses some bytes, or none if it needs more of them. It returns whether to go on.
  struct step {
    std::size_t used = 0;
    bool goes_on = true;
  };
  step parse_header(std::string_view bytes, handler& to);
  step parse_body(std::string_view bytes, handler& to);
  bool accept_header(handler& to);
  bool complete(handler& to);
  bool refuse(status why, handler& to);

  framing_limits limits_;
  std::optional<parser> request_;      // from the end of its header on
  boost::beast::http::fields header_;  // of a request whose body is in chunks
  std::string kept_;
  bool over_ = false, held_back_ = false;
};
