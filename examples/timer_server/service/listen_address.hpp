// The address at which the service listens: "127.0.0.1:8081" or "[::1]:8081".
#pragma once

#include <uv.h>

#include <optional>
#include <string>
#include <string_view>

namespace timer_server {

class listen_address {
 public:
  /// No value: it is no address with a port.
  static std::optional<listen_address> read(std::string_view text);

  /// Returns true if only this machine can connect to it.
  bool is_loopback() const noexcept;

  const sockaddr& socket_address() const noexcept { return reinterpret_cast<const sockaddr&>(storage_); }

  /// Returns the address of a bound socket.
  static std::optional<listen_address> of(const uv_tcp_t&) noexcept;

  std::string text() const;

 private:
  sockaddr_storage storage_{};
};

}  // namespace timer_server
