// What a subject offers whose timers are measured as time passes: timers of one kind on a loop of its own.
//
// To add one, write a file in subjects/ that implements it, and name it in latency_bench.cpp. Nothing here knows of libuv.
#pragma once

#include <chrono>
#include <cstddef>

namespace tickwheel::bench {

/// Told of what happens on the loop. It may arm any timer, and stop the loop.
class live_listener {
 public:
  virtual void on_due(std::size_t timer) noexcept = 0;
  /// What is watched is readable.
  virtual void on_readable() noexcept = 0;

 protected:
  ~live_listener() = default;
};

/// *Lifetime:* destroyed when `run` has returned; timers that are armed then are let go.
class live_subject {
 public:
  live_subject() = default;
  live_subject(const live_subject&) = delete;
  live_subject& operator=(const live_subject&) = delete;
  virtual ~live_subject() = default;

  /// Arms an unarmed timer, as its users would: the closest the subject comes to `delay` from now, and not below it where
  /// it lets its user choose.
  virtual void arm(std::size_t timer, std::chrono::nanoseconds delay) noexcept = 0;
  /// Has the listener told in each iteration in which `fd` is readable. Called once at most; `fd` is open until the subject
  /// is destroyed.
  virtual void watch(int fd) noexcept = 0;
  /// Runs the loop until it is stopped; it may end by itself when nothing is armed and nothing is watched.
  virtual void run() noexcept = 0;
  virtual void stop() noexcept = 0;
};

}  // namespace tickwheel::bench
