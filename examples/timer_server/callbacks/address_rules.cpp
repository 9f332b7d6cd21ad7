#include "address_rules.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <system_error>

namespace timer_server {

namespace {

constexpr unsigned ipv4_bits = 32, ipv6_bits = 128;
constexpr unsigned mapped_bits = ipv6_bits - ipv4_bits;  // of ::ffff:0:0/96, where the IPv4 addresses are

using address_bytes = std::array<std::uint8_t, 16>;

struct address {
  address_bytes bytes{};
  bool is_ipv4 = false;
};

address of_ipv4(const in_addr& from) noexcept {
  address a{.is_ipv4 = true};
  std::memcpy(a.bytes.data(), &from, sizeof from);
  return a;
}

bool is_mapped(const in6_addr& a) noexcept { return IN6_IS_ADDR_V4MAPPED(&a); }

address of_ipv6(const in6_addr& from) noexcept {
  if (is_mapped(from)) {
    in_addr ipv4{};
    std::memcpy(&ipv4, &from.s6_addr[mapped_bits / 8], sizeof ipv4);
    return of_ipv4(ipv4);
  }
  address a;
  std::memcpy(a.bytes.data(), &from, sizeof from);
  return a;
}

/// Returns the first `prefix` bits of an address; the others are 0.
address_bytes masked(const address_bytes& bytes, unsigned prefix) noexcept {
  address_bytes m{};
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const unsigned bits_before = static_cast<unsigned>(at) * 8;
    const unsigned bits = std::clamp(prefix, bits_before, bits_before + 8) - bits_before;
    m[at] = static_cast<std::uint8_t>(bytes[at] & (0xff00U >> bits));
  }
  return m;
}

}  // namespace

address_rules::address_rules() {
  allow("127.0.0.0/8");
  allow("::1/128");
}

address_rules address_rules::none() noexcept { return address_rules{empty{}}; }

const char* address_rules::allow(std::string_view text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string base{text.substr(0, slash)};
  in_addr ipv4{};
  in6_addr ipv6{};
  const bool is_ipv4 = inet_pton(AF_INET, base.c_str(), &ipv4) == 1;
  if ((!is_ipv4 && inet_pton(AF_INET6, base.c_str(), &ipv6) != 1) || base.find('\0') != std::string::npos)
    return "address range: it is no IPv4 or IPv6 address, with or without the length of a prefix, such as 10.1.0.0/16";
  const unsigned most = is_ipv4 ? ipv4_bits : ipv6_bits;
  unsigned prefix = most;
  if (slash != text.size()) {
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
    if (error != std::errc{} || end != digits.data() + digits.size() || prefix > most)
      return is_ipv4 ? "address range: the prefix of an IPv4 range has 0 to 32 bits"
                     : "address range: the prefix of an IPv6 range has 0 to 128 bits";
  }
  const address first = is_ipv4 ? of_ipv4(ipv4) : of_ipv6(ipv6);
  if (!is_ipv4 && first.is_ipv4) {
    if (prefix < mapped_bits) return "address range: write IPv4 addresses as such, not as part of an IPv6 range";
    prefix -= mapped_bits;
  }
  if (masked(first.bytes, prefix) != first.bytes)
    return "address range: the address has bits beyond the prefix; write the first address of the range";
  ranges_.push_back({first.bytes, prefix, first.is_ipv4});
  return nullptr;
}

bool address_rules::allows(const sockaddr& peer) const noexcept {
  if (peer.sa_family != AF_INET && peer.sa_family != AF_INET6) return false;
  const address a = peer.sa_family == AF_INET ? of_ipv4(reinterpret_cast<const sockaddr_in&>(peer).sin_addr)
                                              : of_ipv6(reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr);
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const range& r) { return r.is_ipv4 == a.is_ipv4 && masked(a.bytes, r.prefix) == r.bytes; });
}

}  // namespace timer_server
