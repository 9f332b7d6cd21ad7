#include "simulated_clock.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>

namespace {

using read_clock = int (*)(clockid_t, timespec*);

// The C library's own clock_gettime, which needs no system call. Null until main finds it: an allocator may read the clock before, and
// finding a symbol may allocate.
read_clock true_clock = nullptr;

}  // namespace

// Shared libraries call this one in place of the C library's, because a program's own symbols come first.
extern "C" int clock_gettime(clockid_t id, timespec* out) noexcept {
  const int error = true_clock != nullptr ? true_clock(id, out) : static_cast<int>(syscall(SYS_clock_gettime, id, out));
  if (simulated_clock::running && (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE)) {
    ++simulated_clock::read;
    const auto ns = simulated_clock::shown.count();
    out->tv_sec = static_cast<time_t>(ns / 1'000'000'000);
    out->tv_nsec = static_cast<long>(ns % 1'000'000'000);
  }
  return error;
}

// Replaces a wait by a poll that does not wait: it costs a system call, and sees what is ready.
extern "C" int epoll_pwait(int epoll, epoll_event* events, int most, int timeout_ms, const sigset_t* mask) {
  ++simulated_clock::polled;
  const bool simulated = simulated_clock::running && timeout_ms != 0;
  const long ready = syscall(SYS_epoll_pwait, epoll, events, most, simulated ? 0 : timeout_ms, mask, _NSIG / 8);
  if (timeout_ms == 0 && simulated_clock::after_poll) [[unlikely]]
    std::exchange(simulated_clock::after_poll, {})();
  if (!simulated || ready != 0) return static_cast<int>(ready);
  ++simulated_clock::waited;
  // no poll returns on the dot, and libev, which waits for a time to be over and not only reached, counts on it
  const auto end = simulated_clock::shown + std::chrono::milliseconds{timeout_ms} + std::chrono::microseconds{1};
  const bool cut = timeout_ms < 0 || end > simulated_clock::bound;
  simulated_clock::shown = cut ? simulated_clock::bound : end;
  if (!cut || !simulated_clock::at_bound) return 0;
  simulated_clock::at_bound();
  return static_cast<int>(syscall(SYS_epoll_pwait, epoll, events, most, 0, mask, _NSIG / 8));
}

extern "C" int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) {
  return epoll_pwait(epoll, events, most, timeout_ms, nullptr);
}

// The kernel's own timers know no simulated time. A program that finds none, such as Asio, waits by epoll's timeout.
extern "C" int timerfd_create(int, int) noexcept {
  errno = ENOSYS;
  return -1;
}

std::chrono::nanoseconds simulated_clock::true_now() noexcept {
  timespec now{};
  true_clock(CLOCK_MONOTONIC_RAW, &now);
  return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
}

void simulated_clock::require_effect() {
  using namespace std::chrono;
  true_clock = reinterpret_cast<read_clock>(dlsym(RTLD_NEXT, "clock_gettime"));
  constexpr auto some_time = 123'456'789s + 987'654'321ns;
  set(some_time);

  const char* broken = nullptr;
  {
    scope simulated;
    uv_loop_t loop;
    uv_loop_init(&loop);
    if (steady_clock::now().time_since_epoch() != some_time) broken = "std::chrono::steady_clock";
    if (nanoseconds{static_cast<std::int64_t>(uv_hrtime())} != some_time) broken = "uv_hrtime";
    if (milliseconds{static_cast<std::int64_t>(uv_now(&loop))} != floor<milliseconds>(some_time)) broken = "uv_now";
    uv_loop_close(&loop);
  }
  if (steady_clock::now().time_since_epoch() == some_time) broken = "the end of the simulation";
  if (true_clock == nullptr) broken = "dlsym";
  if (broken == nullptr) return;
  std::fprintf(stderr, "simulated_clock: clock_gettime could not be replaced: %s reads another clock\n", broken);
  std::abort();
}
