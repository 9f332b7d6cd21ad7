#include "timer_payload.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace timer_server {
namespace {

using nlohmann::json;

// Moves a string out of `from`. Returns false if it has another type.
bool take_string(json& from, std::string& into) {
  auto* const text = from.get_ptr<std::string*>();
  if (text == nullptr) return false;
  into = std::move(*text);
  return true;
}

bool take_field(json& object, const char* name, std::string& into) {
  const auto found = object.find(name);
  return found != object.end() && take_string(*found, into);
}

}  // namespace

std::string write_payload(const callback_request& callback) {
  json object{{"url", callback.url}, {"method", callback.method}, {"body", callback.body}};
  json& headers = object["headers"] = json::array();
  for (const auto& [name, value] : callback.headers) headers.push_back({name, value});
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<callback_request> read_payload(std::string_view text) {
  json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  callback_request callback;
  if (!take_field(object, "url", callback.url) || !take_field(object, "method", callback.method) ||
      !take_field(object, "body", callback.body))
    return std::nullopt;
  const auto headers = object.find("headers");
  if (headers == object.end() || !headers->is_array()) return std::nullopt;
  for (json& header : *headers) {
    if (!header.is_array() || header.size() != 2) return std::nullopt;
    auto& [name, value] = callback.headers.emplace_back();
    if (!take_string(header[0], name) || !take_string(header[1], value)) return std::nullopt;
  }
  return callback;
}

}  // namespace timer_server
