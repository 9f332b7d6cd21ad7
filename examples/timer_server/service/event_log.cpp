#include "event_log.hpp"

#include "../text/times.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace timer_server {
namespace {

std::string now() {
  return write_moment(std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now()));
}

std::string as_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string value_as_json(const std::variant<std::string, std::uint64_t>& value) {
  const auto* const number = std::get_if<std::uint64_t>(&value);
  return number != nullptr ? std::to_string(*number) : as_json(std::get<std::string>(value));
}

bool is_plain(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7F' && c != '"' && c != '\\'; });
}

}  // namespace

void event_log::write(std::string_view event, std::initializer_list<field> fields) const {
  std::string line;
  if (format_ == log_format::json) {
    line = R"({"time":)" + as_json(now()) + R"(,"event":)" + as_json(event);
    for (const auto& [name, value] : fields) line += ',' + as_json(name) + ':' + value_as_json(value);
    line += '}';
  } else {
    line = now() + ' ';
    line += event;
    for (const auto& [name, value] : fields) {
      line += ' ';
      line += name;
      line += '=';
      const auto* const text = std::get_if<std::string>(&value);
      line += text != nullptr && is_plain(*text) ? *text : value_as_json(value);
    }
  }
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), to_);
  std::fflush(to_);
}

}  // namespace timer_server
