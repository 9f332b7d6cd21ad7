// The parameters of a request: what stands behind the question mark of its target.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace timer_server {

/// The parameters that a route knows, with their decoded values.
class query {
 public:
  /// Reads "state=dead&limit=10". Returns a sentence that says what is wrong if a parameter is not in `known`, is given twice or is
  /// malformed. A parameter without "=" has an empty value.
  static std::variant<query, std::string> read(std::string_view text, std::initializer_list<std::string_view> known);

  /// Returns the value of a parameter. No value: it is not given.
  std::optional<std::string_view> operator[](std::string_view name) const noexcept;

 private:
  std::vector<std::pair<std::string_view, std::string>> values_;
};

}  // namespace timer_server
