#include <tickwheel/uv/detail/cycle_counter.hpp>

#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tickwheel::detail {

namespace {

#if defined(TICKWHEEL_NO_CYCLE_COUNTER)
bool ask_processor() noexcept { return false; }
#elif defined(__GNUC__) && defined(__x86_64__)
// The counter is "invariant": it grows at one rate in all states of the processor.
bool ask_processor() noexcept {
  constexpr unsigned power_management = 0x80000007, invariant = 1U << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(power_management, &a, &b, &c, &d) != 0 && (d & invariant) != 0;
}
#elif defined(__GNUC__) && defined(__aarch64__)
bool ask_processor() noexcept { return true; }  // the architecture promises it
#else
bool ask_processor() noexcept { return false; }
#endif

}  // namespace

bool cycle_counter::is_steady() noexcept {
  static const bool answer = ask_processor();
  return answer;
}

}  // namespace tickwheel::detail
