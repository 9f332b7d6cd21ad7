// The URLs that may be called.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace timer_server {

/// The parts of a callback URL that a client needs.
struct callback_url {
  std::string host;  // a name, in lower case, or an address; an IPv6 address without its brackets
  std::uint16_t port = 0;
  std::string authority;  // host and port as the Host header has them: without the port if it is 80
  std::string target;     // path and query; at least "/"
  bool is_address = false;
};

/// Splits an http URL into `parts`. Returns null, or why `url` cannot be called; then `parts` means nothing.
///
/// A URL has at most 8000 characters. The host is a name, an IPv4 address or an IPv6 address in brackets. Refused are, each with
/// a message of its own: other schemes, user names and passwords, fragments, spaces, control characters, characters beyond ASCII,
/// an empty host, and a port that is none.
const char* parse_url(std::string_view url, callback_url& parts);

}  // namespace timer_server
