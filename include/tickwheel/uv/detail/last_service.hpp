// A guess which service a timer belongs to, so that the processor need not wait for the timer to know.
#pragma once

#include <tickwheel/core/export.h>

#include <cstdint>

#if defined(__GNUC__) && defined(__linux__) && defined(__GLIBC__) && defined(__LP64__)
#define TICKWHEEL_GUESSES_SERVICE
#endif

namespace tickwheel::detail {

#ifdef TICKWHEEL_GUESSES_SERVICE

/// The service that this thread armed or cancelled a timer of last; 0: none. It is only compared, so the service may be gone. Each
/// module has its own: a shared one would keep gcc's plugins from being unloaded. The model spares a module that was loaded a function
/// call.
TICKWHEEL_LOCAL inline constinit thread_local std::uintptr_t last_service [[gnu::tls_model("initial-exec")]] = 0;

/// Returns `service`, a member of a timer. The timer is often not in the cache. All data behind the address of the service
/// would then wait for it, and be fetched one after the other. Here the processor predicts the comparison, and goes on with the
/// address that the thread used last. A wrong guess costs a mispredicted branch. Returns 0 for a `service` with one of the bits
/// `tags`. No guess has one, so a right guess needs no look at them. Requires: `service` is not 0.
///
/// A compiler that knew that the two are equal would use the one that comes late. So the comparison is in assembly.
inline std::uintptr_t guessed_service(const std::uintptr_t& service, std::uintptr_t tags) noexcept {
  std::uintptr_t guess = last_service;
#ifdef __x86_64__
  // one instruction reads the timer and compares it
  __asm__ goto("cmp %0, %1\n\tjne %l2" : : "r"(guess), "m"(service) : "cc" : wrong);
#else
  // With one of these barriers, clang still selects instead of branching.
  std::uintptr_t compared = guess;
  __asm__("# guess" : "+r"(guess));
  __asm__("# compared" : "+r"(compared));
  if (compared != service) [[unlikely]]
    goto wrong;
#endif
  if (guess == 0) __builtin_unreachable();
  return guess;
wrong:
  if ((service & tags) != 0) return 0;
  return last_service = service;
}

#else

/// Returns `service`, or 0 if it has one of the bits `tags`.
inline std::uintptr_t guessed_service(std::uintptr_t service, std::uintptr_t tags) noexcept {
  return (service & tags) != 0 ? 0 : service;
}

#endif

}  // namespace tickwheel::detail
