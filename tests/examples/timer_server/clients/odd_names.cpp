// Loaded before libc. Some names resolve oddly:
//
//   slow...      take the system's resolver 20 seconds, and are not found
//   rebound...   are 127.0.0.1 when they are asked for first, and later the address of a cloud's metadata, as one who attacks wants
//   mixed...     are that address, in both families, and 127.0.0.1
//
// The file that CONNECTIONS names gets a line for each address that is connected to.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

namespace {

template <class F>
F original_of(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

// The list of these addresses. It is freed as the system's own is.
int find(std::initializer_list<const char*> addresses, const char* service, const addrinfo* hints, addrinfo** found) {
  addrinfo numeric = hints != nullptr ? *hints : addrinfo{};
  numeric.ai_flags = AI_NUMERICHOST;
  addrinfo** end = found;
  for (const char* const address : addresses) {
    if (const int error = original_of(&getaddrinfo, "getaddrinfo")(address, service, &numeric, end)) return error;
    while (*end != nullptr) end = &(*end)->ai_next;
  }
  return 0;
}

void note(const sockaddr& to) {
  const char* const file = std::getenv("CONNECTIONS");
  if (file == nullptr || (to.sa_family != AF_INET && to.sa_family != AF_INET6)) return;
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* const bytes = to.sa_family == AF_INET
                                ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(to).sin_addr)
                                : &reinterpret_cast<const sockaddr_in6&>(to).sin6_addr;
  inet_ntop(to.sa_family, bytes, text.data(), text.size());
  const int out = ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dprintf(out, "%s %d\n", text.data(), ntohs(reinterpret_cast<const sockaddr_in&>(to).sin_port));
  ::close(out);
}

}  // namespace

extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  static std::atomic<int> asked{0};
  const std::string_view host{name != nullptr ? name : ""};
  if (host.starts_with("slow")) {
    ::sleep(20);
    return EAI_AGAIN;
  }
  if (host.starts_with("rebound")) return find({asked++ == 0 ? "127.0.0.1" : "169.254.169.254"}, service, hints, found);
  if (host.starts_with("mixed"))
    return find({"169.254.169.254", "::ffff:169.254.169.254", "127.0.0.1"}, service, hints, found);
  return original_of(&getaddrinfo, "getaddrinfo")(name, service, hints, found);
}

extern "C" int connect(int socket, const sockaddr* to, socklen_t size) {
  if (to != nullptr) note(*to);
  return original_of(&connect, "connect")(socket, to, size);
}
