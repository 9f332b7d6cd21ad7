#include "listen_address.hpp"

#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <system_error>

namespace timer_server {

std::optional<listen_address> listen_address::read(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  std::string host{text.substr(0, colon)};
  listen_address address;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (uv_ip6_addr(host.c_str(), port, reinterpret_cast<sockaddr_in6*>(&address.storage_)) != 0) return std::nullopt;
  } else if (uv_ip4_addr(host.c_str(), port, reinterpret_cast<sockaddr_in*>(&address.storage_)) != 0) {
    return std::nullopt;
  }
  return address;
}

bool listen_address::is_loopback() const noexcept {
  if (storage_.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr);
  constexpr std::uint32_t loopback_network = 127;
  return ntohl(reinterpret_cast<const sockaddr_in&>(storage_).sin_addr.s_addr) >> 24U == loopback_network;
}

std::optional<listen_address> listen_address::of(const uv_tcp_t& socket) noexcept {
  listen_address address;
  int size = sizeof address.storage_;
  if (uv_tcp_getsockname(&socket, reinterpret_cast<sockaddr*>(&address.storage_), &size) != 0) return std::nullopt;
  return address;
}

std::string listen_address::text() const {
  std::array<char, 64> host{};
  if (storage_.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(storage_);
    uv_ip6_name(&address, host.data(), host.size());
    return '[' + std::string{host.data()} + "]:" + std::to_string(ntohs(address.sin6_port));
  }
  const auto& address = reinterpret_cast<const sockaddr_in&>(storage_);
  uv_ip4_name(&address, host.data(), host.size());
  return host.data() + (':' + std::to_string(ntohs(address.sin_port)));
}

}  // namespace timer_server
