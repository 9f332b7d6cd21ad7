// The processor's own count of time. Reading it takes a third of what reading the steady clock takes.
#pragma once

#include <tickwheel/core/export.h>

#include <cstdint>

namespace tickwheel::detail {

/// A counter that grows steadily while the processor runs, at a rate that nobody is told.
///
/// It is evidence only, never a reason to fire: nothing proves that the counters of two processors agree, and a virtual machine may
/// be moved to one that counts differently. So each count is converted by two readings of the steady clock around it.
///
/// *Thread safety:* any thread. *Complexity:* O(1), no system call.
struct cycle_counter {
  /// Returns true if this processor has such a counter, and the library was built to use it (Meson option `cycle_counter`). Asks the
  /// processor once.
  TICKWHEEL_API static bool is_steady() noexcept;

  /// Returns the count. The processor may read it a few instructions early or late. Requires: `is_steady`.
  static std::int64_t read() noexcept {
#if defined(__GNUC__) && defined(__x86_64__)
    return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#elif defined(__GNUC__) && defined(__aarch64__)
    std::int64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    return 0;
#endif
  }
};

}  // namespace tickwheel::detail
