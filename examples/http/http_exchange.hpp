// HTTP/1.1 without a socket: what a peer sent goes in, what it is answered comes out. So it can be tested and fuzzed.
#pragma once

#include "http_framing.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

struct http_limits {
  std::size_t header = 8192;   // of a request, as of `framing_limits`
  std::size_t body = 1 << 16;  // as well
  std::size_t out = 1 << 16;   // beyond it no further request is answered before these answers are sent
};

/// One connection's requests, answered in the order in which they came. A request that is malformed or too large is answered with a
/// 4xx or 5xx, and ends the connection.
class http_exchange {
 public:
  using stage = http_framing::stage;  // `over`: close, once all answers are sent

  /// A `keep_alive` that is not zero is told to the peer.
  http_exchange(const http_limits& limits, std::chrono::seconds keep_alive)
      : framing_{{.header = limits.header, .body = limits.body}}, most_out_{limits.out}, keep_alive_{keep_alive} {}

  /// Appends to `out` the answers of the requests that these bytes complete.
  void take(std::string_view bytes, std::string& out);

  /// True when requests were left unanswered, as there was enough to send: `take` nothing once it is sent, and no more
  /// before, which bounds what is kept.
  bool held_back() const noexcept { return framing_.held_back(); }

  /// The peer sends no more. Answers what is incomplete with a 400; it is over in any case.
  void end(std::string& out);

  /// The peer took too long. Answers what is incomplete with a 408; it is over in any case.
  void time_out(std::string& out);

  /// The next answer is to be the last, and says so.
  void last_answer() noexcept { last_ = true; }

  stage at() const noexcept { return framing_.at(); }
  /// Requests that were complete and understood, and those that were refused as they were not.
  std::uint64_t answered() const noexcept { return answered_; }
  std::uint64_t refused() const noexcept { return refused_; }
  /// Bytes kept because they mean nothing yet; fewer than `http_limits::header` unless held back.
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
