// Bearer tokens (RFC 6750) say who may use the API. Each has a rate.
#pragma once

#include <tickwheel/uv/timer_service.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace timer_server {

/// How many requests a token may make.
struct token_rate {
  double per_second = 0;  // 0: any number
  double burst = 1;       // at once, after a pause
};

/// The tokens that are valid.
///
/// *Time:* the loop's, so that a test can set it. *Complexity:* `admit` compares with each token, whichever fits, so the time says
/// nothing of them.
class bearer_tokens {
 public:
  enum class verdict : std::uint8_t {
    admitted,
    unknown,   // no token was given, or none of ours
    too_many,  // the token is valid, and has made too many requests
  };
  struct answer {
    verdict what{};
    std::chrono::seconds retry_after{};  // of `too_many`
  };

  explicit bearer_tokens(token_rate rate) noexcept : rate_{rate} {}

  /// Reads a list, with one token in each line. Empty lines, and lines that begin with #, are left out. A token has at least 16
  /// characters: letters, digits and -._~+/=. Returns an empty text, or which line is wrong and why, or that libcrypto has no SHA-256; no token stands in it.
  std::string read(std::string_view list);

  /// Judges an Authorization header; empty: there is none.
  answer admit(std::string_view authorization, tickwheel::clock::time_point now) noexcept;

  std::size_t size() const noexcept { return known_.size(); }

 private:
  using digest = std::array<unsigned char, 32>;
  struct token {
    digest hash{};    // the token is kept nowhere
    double left = 0;  // requests that it may make now
    tickwheel::clock::time_point since{};
  };

  /// No value: libcrypto fails. All texts would have the same hash then, and each token would be valid.
  static std::optional<digest> hash_of(std::string_view) noexcept;
  answer take(token&, tickwheel::clock::time_point now) const noexcept;

  token_rate rate_;
  std::vector<token> known_;
};

}  // namespace timer_server
