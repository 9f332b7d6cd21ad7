#include "allocation_probe.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

std::atomic<std::size_t> allocated_count;
std::atomic<std::size_t> allocated_bytes;
std::atomic<std::size_t> freed_count;

constexpr std::int64_t no_failure = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> spared_left{no_failure};
std::atomic<bool> failed;

bool must_fail() noexcept {
  if (spared_left.load() == no_failure || spared_left.fetch_sub(1) > 0) return false;
  failed = true;
  return true;
}

void* allocate(std::size_t size, std::size_t alignment = 0) noexcept {
  if (must_fail()) return nullptr;
  if (size == 0) size = 1;
  void* const block = alignment == 0 ? std::malloc(size)
                                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (block == nullptr) return nullptr;
  ++allocated_count;
  allocated_bytes += size;
  return block;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment = 0) {
  if (void* const block = allocate(size, alignment)) return block;
#if defined(__cpp_exceptions)
  throw std::bad_alloc{};
#else
  std::abort();
#endif
}

// Volatile, because filling a block before it is freed is dead code to a compiler. Unchecked, because a block may begin with a count of
// elements that AddressSanitizer lets nobody write.
__attribute__((no_sanitize("address"))) void fill(void* block, std::size_t size) noexcept {
  auto* const bytes = static_cast<volatile unsigned char*>(block);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = 0xdd;
}

// Freed memory is overwritten, so that libuv, which no sanitizer checks, cannot use it unnoticed.
void release(void* block) noexcept {
  if (block != nullptr) {
    ++freed_count;
    fill(block, malloc_usable_size(block));
  }
  std::free(block);
}

}  // namespace

namespace allocations {

std::size_t count() noexcept { return allocated_count; }
std::size_t bytes() noexcept { return allocated_bytes; }
std::size_t outstanding() noexcept { return allocated_count - freed_count; }

failure::failure(std::size_t spared) noexcept {
  failed = false;
  spared_left = static_cast<std::int64_t>(spared);
}
failure::~failure() { spared_left = no_failure; }
bool failure::struck() const noexcept { return failed; }

}  // namespace allocations

void* operator new(std::size_t n) { return allocate_or_throw(n); }
void* operator new[](std::size_t n) { return allocate_or_throw(n); }
void* operator new(std::size_t n, std::align_val_t a) { return allocate_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return allocate_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }
