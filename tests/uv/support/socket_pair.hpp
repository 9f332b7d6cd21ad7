// The two ends of a connection, of which the test has both.
#pragma once

#include "../../support/prelude.hpp"

#include <sys/socket.h>
#include <unistd.h>

/// Ours does not block.
class socket_pair {
 public:
  socket_pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_.data()), 0); }
  socket_pair(int ours, int theirs) noexcept : ends_{ours, theirs} {}
  ~socket_pair() {
    for (const int end : ends_) ::close(end);
  }
  socket_pair(const socket_pair&) = delete;
  socket_pair& operator=(const socket_pair&) = delete;

  int ours() const { return ends_[0]; }
  int theirs() const { return ends_[1]; }
  void peer_sends() const { EXPECT_EQ(::write(theirs(), "x", 1), 1); }
  /// Reads what there is; false when there was nothing.
  bool receive() const {
    std::array<char, 64> bytes;
    return ::read(ours(), bytes.data(), bytes.size()) > 0;
  }

 private:
  std::array<int, 2> ends_{};
};
