// TCP connections on the loopback interface: both ends of each, as a server and its peers have them.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

namespace tickwheel::bench {

/// Connects to itself.
class loopback {
 public:
  /// The descriptors belong to the caller.
  struct ends {
    int ours, theirs;
  };

  loopback() noexcept : listener_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    listening_ =
        ::bind(listener_, at(), size) == 0 && ::listen(listener_, 1) == 0 && ::getsockname(listener_, at(), &size) == 0;
  }
  ~loopback() { ::close(listener_); }
  loopback(const loopback&) = delete;
  loopback& operator=(const loopback&) = delete;

  /// Returns a new connection, which sends at once what it is given. Empty if the system refuses one.
  std::optional<ends> connect() noexcept {
    if (!listening_) return std::nullopt;
    ends made{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1};
    if (::connect(made.ours, at(), sizeof address_) != 0) {
      ::close(made.ours);
      return std::nullopt;
    }
    made.theirs = ::accept(listener_, nullptr, nullptr);
    if (made.theirs < 0) {
      ::close(made.ours);
      return std::nullopt;
    }
    const int on = 1;
    for (const int fd : {made.ours, made.theirs}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return made;
  }

 private:
  sockaddr* at() noexcept { return reinterpret_cast<sockaddr*>(&address_); }

  int listener_;
  sockaddr_in address_{};
  bool listening_ = false;
};

}  // namespace tickwheel::bench
