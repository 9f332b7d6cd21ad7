// The wall clock of the machine. libfaketime does not replace system calls, so all processes of a round write the same time.
#include "../crash/child/wall_clock.hpp"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace crash {

std::int64_t wall_now() noexcept {
  timespec now{};
  (void)syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace crash
