// HTTP/1.1 without a socket: the bytes of a peer go in, and answers come out. So it can be tested and fuzzed.
#pragma once

#include "http_framing.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

struct http_limits {
  std::size_t header = 8192;   // of a request, as `framing_limits`
  std::size_t body = 1 << 16;  // of a request also
  std::size_t out = 1 << 16;   // beyond it no further request is answered before these answers are sent
};

/// One connection's requests, answered in the order in which they came. A request that is malformed or too large is answered with a
/// 4xx or 5xx, and ends the connection.
class http_exchange {
 public:
  using stage = http_framing::stage;  // `over`: close, once all answers are sent

  /// Tells the peer `keep_alive`, unless that is zero.
  http_exchange(const http_limits& limits, std::chrono::seconds keep_alive)
      : framing_{{.header = limits.header, .body = limits.body}}, most_out_{limits.out}, keep_alive_{keep_alive} {}

  /// Appends to `out` the answers of the requests that these bytes complete.
  void take(std::string_view bytes, std::string& out);

  /// Returns true if requests were left unanswered, because there was enough to send. Then `take` nothing once that is sent, and no bytes
  /// before, which bounds the memory.
  bool held_back() const noexcept { return framing_.held_back(); }

  /// The peer sends no more. Answers an incomplete request with a 400. The exchange is over in any case.
  void end(std::string& out);

  /// The peer took too long. Answers an incomplete request with a 408. The exchange is over in any case.
  void time_out(std::string& out);

  /// Makes the next answer the last one, and lets it say so.
  void last_answer() noexcept { last_ = true; }

  stage at() const noexcept { return framing_.at(); }
  /// Returns the number of requests that were complete and understood, and of those that were refused.
  std::uint64_t answered() const noexcept { return answered_; }
  std::uint64_t refused() const noexcept { return refused_; }
  /// Returns the number of bytes that are kept because their request is not complete. Fewer than `http_limits::header` unless held back.
  std::size_t buffered() const noexcept { return framing_.buffered(); }

 private:
  using status = http_framing::status;
  class answering;

  void answer(const http_framing::request&, std::string& out);
  void refuse(status why, std::string& out);
  void write(status code, std::string_view body, bool with_body, std::string& out) const;

  http_framing framing_;
  std::size_t most_out_;
  std::chrono::seconds keep_alive_;
  std::uint64_t answered_ = 0, refused_ = 0;
  bool last_ = false;
};
