// Loaded before libc: names that begin with "slow" take the system's resolver 20 seconds, and are not found.
#include <dlfcn.h>
#include <netdb.h>
#include <unistd.h>

#include <cstring>

extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  if (name != nullptr && std::strncmp(name, "slow", 4) == 0) {
    ::sleep(20);
    return EAI_AGAIN;
  }
  const auto real = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(name, service, hints, found);
}
