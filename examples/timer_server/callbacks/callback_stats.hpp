// The counters and gauges of a caller, for metrics.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace timer_server {

/// Counts since the caller was made, and what there is now.
struct callback_stats {
  std::uint64_t calls = 0;  // begun; those that were answered are the sum of the next five
  std::uint64_t done = 0, asked_to_wait = 0, not_called = 0, failed = 0, dead = 0;
  std::uint64_t timed_out = 0;    // of `failed` and `not_called`
  std::uint64_t disallowed = 0;   // of `dead`: no address of the host may be called
  std::uint64_t connections = 0;  // established
  std::uint64_t reused = 0;       // requests on a connection that had served another one
  std::uint64_t repeated = 0;     // requests sent again, because the callee had closed the connection before it came
  std::uint64_t resolutions = 0;  // of host names

  std::size_t running = 0;           // calls that have a connection, or are getting one
  std::size_t waiting = 0;           // calls that wait for one
  std::size_t open_connections = 0;  // of them idle: `idle_connections`
  std::size_t idle_connections = 0;
  std::size_t hosts = 0;              // with a connection or a call
  std::chrono::nanoseconds oldest{};  // since the call that waits longest for its answer began
};

}  // namespace timer_server
