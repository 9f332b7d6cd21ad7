// Preloaded into a PostgreSQL server: while a file with the name in FULL_DISK exists, no file of a table can grow, as on a full
// disk.
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

bool is_of_a_table(int descriptor) {
  std::array<char, 64> link{};
  std::array<char, 512> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  const ssize_t size = ::readlink(link.data(), path.data(), path.size());
  return size > 0 &&
         std::string_view{path.data(), static_cast<std::size_t>(size)}.find("/base/") != std::string_view::npos;
}

bool is_refused(int descriptor, off_t end) {
  const char* const sign = std::getenv("FULL_DISK");
  struct stat found {};
  return sign != nullptr && ::access(sign, F_OK) == 0 && is_of_a_table(descriptor) &&
         ::fstat(descriptor, &found) == 0 && end > found.st_size;
}

}  // namespace

// The server's own symbols come after those of a preloaded library.
extern "C" ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t at) {
  using function = ssize_t (*)(int, const void*, size_t, off_t);
  static const auto next = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "pwrite"));
  if (is_refused(descriptor, at + static_cast<off_t>(size))) {
    errno = ENOSPC;
    return -1;
  }
  return next(descriptor, bytes, size, at);
}

// Newer servers extend a file in this way.
extern "C" int posix_fallocate(int descriptor, off_t at, off_t size) {
  using function = int (*)(int, off_t, off_t);
  static const auto next = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "posix_fallocate"));
  return is_refused(descriptor, at + size) ? ENOSPC : next(descriptor, at, size);
}
