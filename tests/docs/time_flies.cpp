// Is linked to a program of the documentation, so that a program that waits a minute does not take a minute. A poll that finds nothing for
// two milliseconds moves the steady clock by the rest of its timeout, for the whole process.
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace {

std::atomic<std::int64_t> skipped_ns{0};

}  // namespace

// Shared libraries call these in place of the C library's, because a program's own symbols come first.
extern "C" int clock_gettime(clockid_t id, timespec* out) noexcept {
  const auto error = static_cast<int>(syscall(SYS_clock_gettime, id, out));
  if (error == 0 && (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE)) {
    const std::int64_t ns = out->tv_nsec + skipped_ns.load();
    out->tv_sec += static_cast<time_t>(ns / 1'000'000'000);
    out->tv_nsec = static_cast<long>(ns % 1'000'000'000);
  }
  return error;
}

extern "C" int epoll_pwait(int epoll, epoll_event* events, int most, int timeout_ms, const sigset_t* mask) {
  const int waited_ms = timeout_ms < 0 ? timeout_ms : std::min(timeout_ms, 2);
  const auto ready = static_cast<int>(syscall(SYS_epoll_pwait, epoll, events, most, waited_ms, mask, _NSIG / 8));
  if (ready == 0) skipped_ns += std::int64_t{timeout_ms - waited_ms} * 1'000'000;
  return ready;
}

extern "C" int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) {
  return epoll_pwait(epoll, events, most, timeout_ms, nullptr);
}
