// User-space instructions of the calling thread, counted by the processor.
#pragma once

#include <cstdint>
#include <optional>

#ifdef __linux__
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tickwheel::bench {

/// Not every machine has such a counter: virtual ones often do not, and the kernel may forbid it.
class instruction_counter {
 public:
#ifdef __linux__
  instruction_counter() noexcept {
    perf_event_attr what{};
    what.size = sizeof what;
    what.type = PERF_TYPE_HARDWARE;
    what.config = PERF_COUNT_HW_INSTRUCTIONS;
    what.disabled = 1;
    what.exclude_kernel = 1;
    what.exclude_hv = 1;
    fd_ = static_cast<int>(::syscall(SYS_perf_event_open, &what, 0, -1, -1, 0));
  }
  ~instruction_counter() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool available() const noexcept { return fd_ >= 0; }
  void start() const noexcept {
    if (available()) ::ioctl(fd_, PERF_EVENT_IOC_ENABLE, 0);
  }
  void stop() const noexcept {
    if (available()) ::ioctl(fd_, PERF_EVENT_IOC_DISABLE, 0);
  }
  /// Returns the number counted between each `start` and `stop` so far.
  std::optional<std::uint64_t> count() const noexcept {
    std::uint64_t counted = 0;
    if (!available() || ::read(fd_, &counted, sizeof counted) != sizeof counted) return std::nullopt;
    return counted;
  }

 private:
  int fd_ = -1;
#else
  bool available() const noexcept { return false; }
  void start() const noexcept {}
  void stop() const noexcept {}
  std::optional<std::uint64_t> count() const noexcept { return std::nullopt; }
#endif

 public:
  instruction_counter(const instruction_counter&) = delete;
  instruction_counter& operator=(const instruction_counter&) = delete;
};

}  // namespace tickwheel::bench
