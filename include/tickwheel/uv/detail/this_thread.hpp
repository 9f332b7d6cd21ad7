// Names the calling thread, as cheaply as the platform allows: every arm and cancel compares it.
#pragma once

#include <tickwheel/core/export.h>

namespace tickwheel::detail {

#if defined(__GNUC__) && defined(__linux__) && defined(__x86_64__) && defined(__LP64__)
/// Unlike that of any other running thread, and at least 64 bytes away from it. The thread pointer itself: by the ABI the word at
/// %fs:0 is its own address. The address of an inline thread_local would differ between a program and a shared library when symbols
/// are hidden.
inline const void* this_thread() noexcept {
  const void* pointer;
  // In AT&T's syntax and in Intel's. Volatile, because a coroutine may continue on another thread.
  __asm__ volatile("mov {%%fs:0, %0|%0, qword ptr fs:0}" : "=r"(pointer));
  return pointer;
}
#else
/// Unlike that of any other running thread, and at least 64 bytes away from it.
TICKWHEEL_API const void* this_thread() noexcept;
#endif

}  // namespace tickwheel::detail
