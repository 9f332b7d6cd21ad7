// Connections over TCP on the loopback interface, as a server and its peers have them.
#pragma once

#include "../../../examples/support/descriptor_limit.hpp"
#include "socket_pair.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

/// True when the process may have `connections`, both ends of them, and what else a test opens.
inline bool has_descriptors_for(std::size_t connections) {
  constexpr std::size_t others = 64;
  return raise_descriptor_limit() >= 2 * connections + others;
}

/// Connects `count` peers to `all`.
inline void connect_peers(std::deque<socket_pair>& all, std::size_t count) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, at, size), 0);
  ASSERT_EQ(::listen(listener, 16), 0);
  ASSERT_EQ(::getsockname(listener, at, &size), 0);
  for (std::size_t i = 0; i < count; ++i) {
    const int theirs = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(theirs, at, size), 0);
    const int ours = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    ASSERT_GE(ours, 0);
    const int on = 1;
    ::setsockopt(theirs, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    all.emplace_back(ours, theirs);
  }
  ::close(listener);
}
