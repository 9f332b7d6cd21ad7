#include "query.hpp"

#include "percent_encoding.hpp"

#include <algorithm>

namespace timer_server {

std::variant<query, std::string> query::read(std::string_view text, std::initializer_list<std::string_view> known) {
  query all;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (part.empty()) continue;
    const std::string_view name = part.substr(0, part.find('='));
    const auto* const found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) return "The query has a parameter that is unknown here: " + std::string{name} + '.';
    if (all[name]) return "The query has a parameter twice: " + std::string{name} + '.';
    auto value = percent_decode(part.substr(std::min(name.size() + 1, part.size())), plus_sign::space);
    if (!value) return "The query has a percent sign without two hexadecimal digits after it.";
    all.values_.emplace_back(*found, std::move(*value));
  }
  return all;
}

std::optional<std::string_view> query::operator[](std::string_view name) const noexcept {
  for (const auto& [given, value] : values_)
    if (given == name) return value;
  return std::nullopt;
}

}  // namespace timer_server
