// The interface of a subject whose timers are measured in real time: timers of one kind on a loop of its own.
//
// To add one, write a file in this folder that implements it, and name it in latency_bench.cpp. Nothing here knows libuv.
#pragma once

#include <chrono>
#include <cstddef>

namespace tickwheel::bench {

/// Is notified of events on the loop. It may arm any timer, and stop the loop.
class live_listener {
 public:
  virtual void on_due(std::size_t timer) noexcept = 0;
  /// The watched descriptor is readable.
  virtual void on_readable() noexcept = 0;

 protected:
  ~live_listener() = default;
};

/// *Lifetime:* is destroyed after `run` has returned, which cancels the armed timers.
class live_subject {
 public:
  live_subject() = default;
  live_subject(const live_subject&) = delete;
  live_subject& operator=(const live_subject&) = delete;
  virtual ~live_subject() = default;

  /// Arms an unarmed timer, as its users would: for the time nearest to `delay` from now, and not before it if the subject lets its
  /// users choose.
  virtual void arm(std::size_t timer, std::chrono::nanoseconds delay) noexcept = 0;
  /// Notifies the listener in each iteration in which `fd` is readable. Called at most once. `fd` is open until the subject is
  /// destroyed.
  virtual void watch(int fd) noexcept = 0;
  /// Runs the loop until it is stopped. It may end by itself if nothing is armed and nothing is watched.
  virtual void run() noexcept = 0;
  virtual void stop() noexcept = 0;
};

}  // namespace tickwheel::bench
