// One loop that is blocked now and then while more comes than it can read in a poll: many peers behind one UDP socket, calls
// that another thread answers by posts, chains of zero delays, and forks whose child closes a service.
//
// What is checked is the contract: nothing early, no live peer evicted, no call expired that was answered in time, no zero
// delay in the iteration that armed it, and no timer stopped by a child.
#pragma once

#include "record.hpp"

#include <cstdint>
#include <thread>

namespace soak {

/// What came of it. All is counted by the loop's thread, and read once it has ended.
struct burst_counts {
  std::uint64_t datagrams = 0, evicted = 0, calls = 0, expired = 0, hops = 0, forks = 0, beats = 0;
};

/// *Thread safety:* `start`, `stop` and `join` are called by one thread.
class bursts {
 public:
  explicit bursts(shared& with) : with_{with} {}

  void start() {
    thread_ = std::thread{[this] { run(); }};
  }
  void stop() noexcept { stopping_ = true; }
  void join() { thread_.join(); }

  /// Requires: it was joined.
  const burst_counts& counts() const noexcept { return counts_; }

 private:
  void run();

  shared& with_;
  burst_counts counts_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace soak
