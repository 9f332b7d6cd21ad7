#include "event_log.hpp"

#include "../text/times.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace timer_server {
namespace {

std::string now() {
  return write_moment(std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now()));
}

std::string as_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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
    for (const auto& [name, value] : fields) line += ',' + as_json(name) + ':' + as_json(value);
    line += '}';
  } else {
    line = now() + ' ';
    line += event;
    for (const auto& [name, value] : fields) {
      line += ' ';
      line += name;
      line += '=';
      line += is_plain(value) ? value : as_json(value);
    }
  }
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), to_);
  std::fflush(to_);
}

}  // namespace timer_server
