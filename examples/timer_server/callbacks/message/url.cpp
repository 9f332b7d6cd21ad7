#include "url.hpp"

#include "../../text/characters.hpp"
#include "../callback_caller.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace timer_server {

namespace {

constexpr std::size_t max_url = 8000;  // what RFC 9110, 4.1 recommends to accept at least
constexpr std::size_t max_name = 253;  // of a host, by DNS
constexpr std::size_t max_label = 63;  // of each of its parts
constexpr std::uint16_t http_port = 80;

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter(char c) noexcept { return lower(c) >= 'a' && lower(c) <= 'z'; }
bool is_hex_digit(char c) noexcept { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); }

/// Takes `prefix`, in any case, from the front of `text`.
bool take_prefix(std::string_view& text, std::string_view prefix) noexcept {
  const bool is_there = text.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), text.begin(),
                                                                   [](char a, char b) { return a == lower(b); });
  if (is_there) text.remove_prefix(prefix.size());
  return is_there;
}

const char* problem_of_characters(std::string_view url) noexcept {
  for (const char c : url) {
    const auto code = static_cast<unsigned char>(c);
    if (c == ' ') return "callback URL: it has a space; write %20";
    if (code < 0x20 || code == 0x7f) return "callback URL: it has a control character";
    if (code > 0x7f)
      return "callback URL: it has a character beyond ASCII; percent-encode it, or write the host in Punycode";
  }
  return nullptr;
}

/// Whether `text` is an address of `family`, in its usual form.
bool is_address(int family, const std::string& text) noexcept {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(family, text.c_str(), bytes.data()) == 1;
}

const char* problem_of_name(std::string_view name) noexcept {
  if (name.size() > max_name) return "callback URL: the host's name is longer than 253 characters";
  if (name.back() == '.') name.remove_suffix(1);  // the root of DNS
  std::string_view label;
  do {
    const std::size_t dot = std::min(name.find('.'), name.size());
    label = name.substr(0, dot);
    name.remove_prefix(std::min(dot + 1, name.size()));
    if (label.empty()) return "callback URL: a part of the host's name is empty";
    if (label.size() > max_label) return "callback URL: a part of the host's name is longer than 63 characters";
    const auto is_of_names = [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; };
    if (!std::all_of(label.begin(), label.end(), is_of_names))
      return "callback URL: the host's name has a character other than letters, digits, '-', '_' and '.'";
  } while (!name.empty());
  // Resolvers take such names for addresses, in ways that differ.
  if (std::all_of(label.begin(), label.end(), is_digit))
    return "callback URL: the host is no IPv4 address, which is four numbers up to 255, and no name";
  return nullptr;
}

const char* parse_port(std::string_view text, std::uint16_t& port) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number && port != 0 ? nullptr : "callback URL: the port is no number from 1 to 65535";
}

const char* parse_authority(std::string_view text, callback_url& parts) {
  if (text.find('@') != std::string_view::npos)
    return "callback URL: it has a user name; send an Authorization header instead";
  if (text.empty()) return "callback URL: the host is empty";
  std::string_view host;
  const bool has_brackets = text.front() == '[';
  if (has_brackets) {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return "callback URL: the host has '[' without ']'";
    host = text.substr(1, bracket - 1);
    text.remove_prefix(bracket + 1);
    if (!text.empty() && text.front() != ':') return "callback URL: something other than a port follows ']'";
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    host = text.substr(0, colon);
    text.remove_prefix(colon);
  }
  if (host.empty()) return "callback URL: the host is empty";
  parts.host.resize(host.size());
  std::transform(host.begin(), host.end(), parts.host.begin(), lower);
  if (has_brackets) {
    if (!is_address(AF_INET6, parts.host)) return "callback URL: the host in brackets is no IPv6 address";
    parts.is_address = true;
  } else {
    parts.is_address = is_address(AF_INET, parts.host);
    if (!parts.is_address)
      if (const char* const problem = problem_of_name(parts.host)) return problem;
  }
  parts.port = http_port;
  if (!text.empty())
    if (const char* const problem = parse_port(text.substr(1), parts.port)) return problem;
  parts.authority.clear();
  if (has_brackets) parts.authority += '[';
  parts.authority += parts.host;
  if (has_brackets) parts.authority += ']';
  if (parts.port != http_port) parts.authority.append(1, ':').append(std::to_string(parts.port));
  return nullptr;
}

const char* parse_target(std::string_view text, callback_url& parts) {
  constexpr std::string_view never_in_a_url = "\"<>\\^`{|}";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '#') return "callback URL: it has a fragment, which no server is sent";
    if (never_in_a_url.find(c) != std::string_view::npos)
      return "callback URL: the path or query has a character that must be percent-encoded";
    const bool is_encoded = at + 2 < text.size() && is_hex_digit(text[at + 1]) && is_hex_digit(text[at + 2]);
    if (c == '%' && !is_encoded) return "callback URL: two hexadecimal digits must follow '%'";
  }
  parts.target.clear();
  if (text.empty() || text.front() != '/') parts.target += '/';
  parts.target += text;
  return nullptr;
}

}  // namespace

const char* parse_url(std::string_view url, callback_url& parts) {
  if (url.empty()) return "callback URL: it is empty";
  if (url.size() > max_url) return "callback URL: it is longer than 8000 characters";
  if (const char* const problem = problem_of_characters(url)) return problem;
  if (take_prefix(url, "https://")) return "callback URL: https is not supported yet; use http";
  if (!take_prefix(url, "http://")) return "callback URL: it does not begin with http://";
  const std::size_t end_of_authority = std::min(url.find_first_of("/?#"), url.size());
  if (const char* const problem = parse_authority(url.substr(0, end_of_authority), parts)) return problem;
  return parse_target(url.substr(end_of_authority), parts);
}

const char* problem_of_url(std::string_view url) noexcept {
  callback_url parts;
  return parse_url(url, parts);
}

}  // namespace timer_server
