// Counters and gauges of a scheduler, and their text for Prometheus.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/uv/service_stats.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>

namespace tickwheel::durable {

class scheduler;

/// A snapshot. The counters grow from the construction of the scheduler on, over `close` and `open`.
///
/// *Thread safety, lifetime:* a value. *Complexity:* 4 KB. *Errors:* none.
struct scheduler_stats {
  std::uint64_t scheduled = 0;       ///< requests answered `scheduled` or `replaced`
  std::uint64_t started = 0;         ///< executions that were handed to the handler
  std::uint64_t finished = 0;        ///< finishes that the store has confirmed, failures included
  std::uint64_t failed = 0;          ///< executions that ended by `fail` or `bury`, or were dropped
  std::uint64_t recovered = 0;       ///< tasks of lost nodes that this node made pending, or dead
  std::uint64_t stale = 0;           ///< finishes that were too late
  std::uint64_t unavailable = 0;     ///< requests answered `unavailable` or `unknown`
  std::uint64_t store_failures = 0;  ///< calls that the store has not carried out, or may not have; reads included

  std::size_t requests = 0;    ///< requests without an answer now
  std::size_t running = 0;     ///< executions now, those included whose end the store has not confirmed
  std::size_t loaded = 0;      ///< tasks in memory that wait for their time or for a place
  std::size_t partitions = 0;  ///< partitions that this node owns
  std::uint64_t dead = 0;      ///< dead tasks in the store, as of the last renewal; 10,000 means so many or more

  /// How long the oldest task has been due that was read and has not started; zero: none is. A task that the store does not let start is one
  /// of them: `store::problem` may say why.
  std::chrono::nanoseconds oldest_overdue{};
  std::chrono::nanoseconds oldest_running{};  ///< how long ago the oldest execution started; zero: none runs

  /// How late handlers were called, on the store's clock.
  duration_histogram lateness;
};

/// Writes the text exposition format, version 0.0.4, with the prefix `tickwheel_durable_`. Throws what the stream throws. The loop
/// thread; not for a hot path.
TICKWHEEL_API void write_prometheus(std::ostream&, const scheduler&);

}  // namespace tickwheel::durable
