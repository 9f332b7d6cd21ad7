#include "probes.hpp"

#include <tickwheel/uv/detail/verdict_stamp.hpp>

#define _SDT_HAS_SEMAPHORES 1  // NOLINT: the header asks for this name
#include <sys/sdt.h>

// One counter under all the names that the macros expect.
#define TICKWHEEL_COUNTS_TRACERS __attribute__((alias("tickwheel_semaphore"), visibility("hidden")))
extern "C" {
__attribute__((section(".probes"))) volatile unsigned short tickwheel_semaphore = 0;
extern volatile unsigned short tickwheel_arm_semaphore TICKWHEEL_COUNTS_TRACERS;
extern volatile unsigned short tickwheel_fire_semaphore TICKWHEEL_COUNTS_TRACERS;
extern volatile unsigned short tickwheel_late_semaphore TICKWHEEL_COUNTS_TRACERS;
extern volatile unsigned short tickwheel_stall_semaphore TICKWHEEL_COUNTS_TRACERS;
}

namespace tickwheel::probes {

void arm(const void* timer, expiry_report::handler_id handler, clock::time_point due, const void* caller) noexcept {
  STAP_PROBE4(tickwheel, arm, timer, handler, due.time_since_epoch().count(), caller);
}

void fire(const void* timer, expiry_report::handler_id handler, const expiry_report& r) noexcept {
  STAP_PROBE3(tickwheel, fire, timer, handler, r.late.count());
  if (r.late - r.rounding > detail::verdict_stamp::longest_undisturbed)
    STAP_PROBE6(tickwheel, late, handler, r.late.count(), r.poll.count(), r.carried.count(), r.stall.count(),
                r.handler);
}

void stall(std::chrono::nanoseconds length, const slow_handler& slowest) noexcept {
  STAP_PROBE3(tickwheel, stall, length.count(), slowest.handler, slowest.took.count());
}

}  // namespace tickwheel::probes
