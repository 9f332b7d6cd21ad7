#include "wall_clock.hpp"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {

constexpr std::int64_t second = 1'000'000'000;

std::atomic<std::int64_t> ahead_of_true_time = 0;

}  // namespace

// Shared libraries call this one in place of the C library's, because a program's own symbols come first. The clock is read before the
// offset: `set_wall_clock` relies on it.
extern "C" int clock_gettime(clockid_t id, timespec* out) noexcept {
  const long error = syscall(SYS_clock_gettime, id, out);
  if (error == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
    const std::int64_t shown = out->tv_sec * second + out->tv_nsec + ahead_of_true_time.load();
    out->tv_sec = shown / second;
    out->tv_nsec = shown % second;
  }
  return static_cast<int>(error);
}

namespace crash {

std::int64_t wall_now() noexcept {
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * second + now.tv_nsec;
}

// Another thread that still adds the old offset has read the true clock before the exchange.
clock_step set_wall_clock(std::int64_t ahead) noexcept {
  const std::int64_t begin = wall_now() - ahead_of_true_time;
  const std::int64_t before = ahead_of_true_time.exchange(ahead);
  return {wall_now() - ahead + before, begin + ahead};
}

}  // namespace crash
