// One loop that is blocked now and then while more arrives than it can read in a poll. It has many peers behind one UDP socket, calls that
// another thread answers by posts, chains of zero delays, and forks whose child closes a service.
//
// It checks the contract: nothing is early, no live peer is evicted, and no call expires that was answered in time. No zero delay runs in
// the iteration that armed it, and no child stops a timer.
#pragma once

#include "record.hpp"

#include <cstdint>
#include <thread>

namespace soak {

/// The results. The loop's thread counts them, and they are read once it has ended.
struct burst_counts {
  std::uint64_t datagrams = 0, evicted = 0, calls = 0, expired = 0, hops = 0, forks = 0, beats = 0;
};

/// *Thread safety:* one thread calls `start`, `stop` and `join`.
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
