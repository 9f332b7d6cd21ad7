// The log tells the operator of each event in a line, as text or as JSON. Tokens, headers and bodies never stand in it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace timer_server {

enum class log_format : std::uint8_t { text, json };

/// Writes lines such as
///
///   2030-01-31T09:30:00.123Z listening address=127.0.0.1:8081
///   {"time":"2030-01-31T09:30:00.123Z","event":"listening","address":"127.0.0.1:8081"}
class event_log {
 public:
  /// A name, and a text or a number. JSON has numbers as numbers.
  using field = std::pair<std::string_view, std::variant<std::string, std::uint64_t>>;

  explicit event_log(log_format format, std::FILE* to = stdout) noexcept : format_{format}, to_{to} {}

  /// Writes one line at once. A value with a space, a quote or a control character is written as JSON writes it.
  void write(std::string_view event, std::initializer_list<field> fields = {}) const;

 private:
  log_format format_;
  std::FILE* to_;
};

}  // namespace timer_server
