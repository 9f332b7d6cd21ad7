#include <tickwheel/uv/named_handler.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <ostream>
#include <string_view>

#ifndef _WIN32
#include <pthread.h>
#endif

// Since 2.34 glibc has dladdr in itself. Other systems have always had.
#if __has_include(<dlfcn.h>) && (!defined(__GLIBC__) || __GLIBC_PREREQ(2, 34))
#include <dlfcn.h>
#define TICKWHEEL_FINDS_MODULES
#endif

namespace tickwheel {

namespace {

// Both are initialised before any code of a program runs, and are never destroyed. So static objects may use them in any order.
constinit std::mutex names_lock;
constinit named_handler* latest_name = nullptr;

#ifndef _WIN32
// The thread that forks holds the lock during the fork. In the child no other thread could release it.
[[maybe_unused]] const int lock_is_kept_in_forks =
    pthread_atfork([] { names_lock.lock(); }, [] { names_lock.unlock(); }, [] { names_lock.unlock(); });
#endif

void* address_of(wheel_entry::callback handler) noexcept { return reinterpret_cast<void*>(handler); }

// Returns the length of the code point at the beginning of `text`. 0: there is a zero, or no UTF-8. Requires: `text` is not empty.
std::size_t code_point_size(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  const unsigned head = byte(0);
  if (head < 0x80) return head != 0 ? 1 : 0;
  const std::size_t size = head < 0xe0 ? 2 : head < 0xf0 ? 3 : 4;
  if (head < 0xc2 || text.size() < size) return 0;
  const unsigned two = head << 8 | byte(1);
  const bool overlong = two >> 5 == 0xe080 >> 5 || two >> 4 == 0xf080 >> 4;
  const bool surrogate = two >> 5 == 0xeda0 >> 5;
  if (overlong || surrogate || two >= 0xf490) return 0;  // up to U+10FFFF
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  return size;
}

// Writes the code points of `text` for which there is room, and a zero. Anything else in it becomes '?'.
void write_utf8(std::string_view text, char* to, std::size_t size) noexcept {
  const char* const end = to + size - 1;
  while (!text.empty()) {
    const std::size_t valid = code_point_size(text);
    const std::size_t taken = valid != 0 ? valid : 1;
    if (taken > static_cast<std::size_t>(end - to)) break;
    std::memcpy(to, valid != 0 ? text.data() : "?", taken);
    to += taken;
    text.remove_prefix(taken);
  }
  *to = '\0';
}

// Writes "server+0x1ea66", or the address. A static function has no name that the loader knows.
void write_place(wheel_entry::callback handler, char* to, std::size_t size) noexcept {
#ifdef TICKWHEEL_FINDS_MODULES
  Dl_info found{};
  if (dladdr(address_of(handler), &found) != 0 && found.dli_fname != nullptr) {
    const char* const slash = std::strrchr(found.dli_fname, '/');
    const auto offset = reinterpret_cast<std::uintptr_t>(handler) - reinterpret_cast<std::uintptr_t>(found.dli_fbase);
    std::snprintf(to, size, "%s+%#zx", slash != nullptr ? slash + 1 : found.dli_fname,
                  static_cast<std::size_t>(offset));
    return;
  }
#endif
  std::snprintf(to, size, "%p", address_of(handler));
}

}  // namespace

named_handler::named_handler(wheel_entry::callback handler, std::string_view name) noexcept
    : handler_{handler}, name_{name} {
  const std::lock_guard lock{names_lock};
  next_ = latest_name;
  here_ = &latest_name;
  if (next_ != nullptr) next_->here_ = &next_;
  latest_name = this;
}

named_handler::~named_handler() {
  const std::lock_guard lock{names_lock};
  *here_ = next_;
  if (next_ != nullptr) next_->here_ = here_;
}

void write_name(wheel_entry::callback handler, char* to, std::size_t size) noexcept {
  {
    const std::lock_guard lock{names_lock};
    for (const named_handler* one = latest_name; one != nullptr; one = one->next_) {
      if (one->handler_ != handler || one->name_.empty()) continue;
      return write_utf8(one->name_, to, size);
    }
  }
  char place[300];  // the name of a file has at most 255 bytes
  write_place(handler, place, sizeof place);
  write_utf8(place, to, size);
}

std::ostream& operator<<(std::ostream& out, const handler_name& n) {
  if (const char* const name = n.names != nullptr ? n.names(n.handler) : nullptr) return out << "the handler " << name;
  char name[256];
  write_name(n.handler, name, sizeof name);
  return out << "the handler " << name;
}

}  // namespace tickwheel
