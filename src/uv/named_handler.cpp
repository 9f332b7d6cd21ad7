#include <tickwheel/uv/named_handler.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <ostream>

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

void* address_of(wheel_entry::callback handler) noexcept { return reinterpret_cast<void*>(handler); }

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
      *std::copy_n(one->name_.data(), std::min(one->name_.size(), size - 1), to) = '\0';
      return;
    }
  }
  write_place(handler, to, size);
}

std::ostream& operator<<(std::ostream& out, const handler_name& n) {
  if (const char* const name = n.names != nullptr ? n.names(n.handler) : nullptr) return out << "the handler " << name;
  char name[256];
  write_name(n.handler, name, sizeof name);
  return out << "the handler " << name;
}

}  // namespace tickwheel
