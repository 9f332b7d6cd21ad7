#include "callback_request.hpp"

#include "callback_caller.hpp"

#include <algorithm>
#include <array>

namespace timer_server {

namespace {

constexpr std::size_t max_method = 32;

/// RFC 9110, 5.6.2.
bool is_token(std::string_view text) noexcept {
  static constexpr std::string_view others = "!#$%&'*+-.^_`|~";
  const auto is_of_tokens = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_of_tokens);
}

bool equal_names(std::string_view lower_case, std::string_view name) noexcept {
  const auto is_equal = [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); };
  return std::equal(lower_case.begin(), lower_case.end(), name.begin(), name.end(), is_equal);
}

constexpr std::array<std::string_view, 11> names_of_the_caller{
    "host", "content-length", "transfer-encoding", "connection", "keep-alive",     "proxy-connection",
    "te",   "trailer",        "upgrade",           "expect",     "timer-signature"};

}  // namespace

const char* problem_of_method(std::string_view method) noexcept {
  if (!is_token(method)) return "method: it is no HTTP method, such as POST";
  if (method.size() > max_method) return "method: it is longer than 32 characters";
  if (method == "CONNECT" || method == "TRACE") return "method: CONNECT and TRACE are not supported";
  return nullptr;
}

const char* problem_of_header(std::string_view name, std::string_view value) noexcept {
  if (!is_token(name)) return "header: the name is empty, or has a character other than letters, digits and some signs";
  const auto is_reserved = [&](std::string_view reserved) { return equal_names(reserved, name); };
  if (std::any_of(names_of_the_caller.begin(), names_of_the_caller.end(), is_reserved))
    return "header: the caller sets Host, Content-Length, Transfer-Encoding, Connection, Keep-Alive, Proxy-Connection, "
           "TE, "
           "Trailer, Upgrade, Expect and Timer-Signature itself";
  const auto is_control = [](char c) {
    return c != '\t' && (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f);
  };
  if (std::any_of(value.begin(), value.end(), is_control)) return "header: the value has a control character";
  return nullptr;
}

const char* problem_of_request(const callback_request& request) noexcept {
  if (const char* const problem = problem_of_url(request.url)) return problem;
  if (const char* const problem = problem_of_method(request.method)) return problem;
  for (const auto& [name, value] : request.headers)
    if (const char* const problem = problem_of_header(name, value)) return problem;
  return nullptr;
}

}  // namespace timer_server
