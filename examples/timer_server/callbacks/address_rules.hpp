// The rules say which addresses the service may call. If it called any URL, its users could reach all that it can reach: it would be a
// way into its network. So it never connects to an address that no rule allows.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

struct sockaddr;

namespace timer_server {

/// A list of address ranges that may be called. Loopback by default: 127.0.0.0/8 and ::1.
///
/// An IPv4 address that is written as an IPv6 one (::ffff:10.0.0.1) counts as the IPv4 address, in ranges and in addresses. An
/// IPv6 range never allows an IPv4 address: ::/0 does not contain 10.0.0.1.
///
/// *Thread safety:* that of a value. *Complexity:* `allows` looks at each range.
class address_rules {
 public:
  /// Allows loopback.
  address_rules();
  /// Allows nothing, until `allow` is called.
  static address_rules none() noexcept;

  /// Allows a range such as 10.1.0.0/16 or fd00::/8, or an address. Returns null, or why the text is no range; then nothing has
  /// changed.
  const char* allow(std::string_view text);

  /// Returns true if `peer` is an IPv4 or IPv6 address in one of the ranges. The port does not matter.
  bool allows(const sockaddr& peer) const noexcept;

 private:
  struct empty {};
  explicit address_rules(empty) noexcept {}

  struct range {
    std::array<std::uint8_t, 16> bytes{};  // of an IPv4 address the first four
    unsigned prefix = 0;                   // bits of them that count
    bool is_ipv4 = false;
  };
  std::vector<range> ranges_;
};

}  // namespace timer_server
