// Finds the moments at which the disk of the machine is slow.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace chaos {

/// A thread makes a few bytes durable, again and again. A commit of a server on the same disk cannot be faster.
class disk_watch {
 public:
  /// A write that takes so long is a stall.
  static constexpr std::chrono::milliseconds stall{150};

  /// `folder`: on the disk.
  explicit disk_watch(const std::string& folder);
  ~disk_watch();
  disk_watch(const disk_watch&) = delete;
  disk_watch& operator=(const disk_watch&) = delete;

  /// Returns when the stalls that have ended since the last call began: the wall time in nanoseconds.
  std::vector<std::int64_t> take_stalls();

 private:
  void run(int file);

  std::atomic<bool> is_over_{false};
  std::mutex mutex_;
  std::vector<std::int64_t> stalls_;
  std::thread thread_;
};

}  // namespace chaos
