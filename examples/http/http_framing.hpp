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

/// One connection's requests, in the order in which they came, however they were cut into pieces or put in a row on the way. A
/// request that is malformed or too large is refused; what follows it is ignored, as nobody can tell where the next one begins.
class http_framing {
 public:
  using request = boost::beast::http::request<boost::beast::http::string_body>;
  using status = boost::beast::http::status;

  enum class stage {
    idle,    // no request has begun
    header,  // bytes of one have come
    body,    // its header is complete
    over,    // nothing more is taken
  };

  /// Is told of what came. It may call `stop`, and no other function that changes the framing.
  class handler {
   public:
    /// A request is complete. It is gone when this returns. False: the bytes that follow it are kept for a later `take`.
    virtual bool on_request(const request&) = 0;
    /// The peer waits to be told that it may send the body: "HTTP/1.1 100 Continue". Returns as above.
    virtual bool on_expect_continue() = 0;
    /// The bytes are no request, or one that is too large. It is over; the status says why.
    virtual void on_refused(status) = 0;

   protected:
    ~handler() = default;
  };

  explicit http_framing(const framing_limits& limits) noexcept : limits_{limits} {}

  /// Takes bytes, after those that are kept, and tells `to` of what they complete.
  void take(std::string_view bytes, handler& to);

  /// Keeps bytes for a later `take`, and looks at none of them.
  void keep(std::string_view bytes);

  /// True when a handler returned false and bytes are left, which may complete a request: `take` nothing to go on.
  bool held_back() const noexcept { return held_back_; }

  /// Nothing more is taken, and what is kept is forgotten.
  void stop() noexcept;

  stage at() const noexcept;
  /// True when a request has begun and is not complete.
  bool has_begun() const noexcept { return at() == stage::header || at() == stage::body; }
  /// Bytes kept because they mean nothing yet; fewer than `framing_limits::header` unless held back.
  std::size_t buffered() const noexcept { return over_ ? 0 : kept_.size(); }

 private:
  using parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  // A step uses some bytes, or none if it takes more of them, and says whether to go on.
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
  std::optional<parser> request_;  // from the end of its header on
  std::string kept_;
  bool over_ = false, held_back_ = false;
};
