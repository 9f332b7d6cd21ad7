// The request that the service sends when a timer is due.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace timer_server {

/// One HTTP request. The caller adds Host, Content-Length, User-Agent if there is none, and Timer-Signature if there is a secret.
struct callback_request {
  std::string url;
  std::string method = "POST";
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string body{};
};

/// Returns null if `method` may be used, or why not. A method is a token of at most 32 characters, except CONNECT and TRACE.
const char* problem_of_method(std::string_view method) noexcept;

/// Returns null if a callback may have this header, or why not. Headers that say where the request ends or what becomes of the
/// connection are the caller's, such as Content-Length, and so is Timer-Signature.
const char* problem_of_header(std::string_view name, std::string_view value) noexcept;

/// Returns null if a caller would send the request, or the first thing that is wrong with its URL, method or headers.
const char* problem_of_request(const callback_request& request) noexcept;

}  // namespace timer_server
