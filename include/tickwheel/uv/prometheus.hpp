// Writes a service's counters and histograms as text for Prometheus.
//
//   std::ostringstream body;
//   tickwheel::write_prometheus(body, timers.stats());
//
// With several loops, one call writes the stats of all services, each with its labels:
//
//   const tickwheel::labelled_stats all[] = {{R"(loop="0")", first}, {R"(loop="1")", second}};
//   tickwheel::write_prometheus(body, all);
//
// Each loop copies its own `service_stats` for that, because other threads may not read them.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/uv/service_stats.hpp>

#include <iosfwd>
#include <span>
#include <string_view>

namespace tickwheel {

/// A service's stats and their labels.
struct labelled_stats {
  std::string_view labels;  ///< without braces, such as `loop="0",host="a"`; may be empty
  /// Outlives the call.
  const service_stats& stats;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): a view, as the other
};

/// Writes the text exposition format, version 0.0.4. Counters are named `tickwheel_..._total`. The gauges are
/// `tickwheel_timers_pending`, its limit `tickwheel_timers_limit`, `tickwheel_remote_queued`, its limit
/// `tickwheel_remote_queue_limit`, and `tickwheel_loop_longest_iteration_seconds`. A limit that was not set is `+Inf`. The histograms are
/// `tickwheel_lateness_seconds`, `tickwheel_handler_seconds` and `tickwheel_loop_iteration_seconds`. docs/operating.md lists all.
///
/// The buckets end at 1, 2 and 5 of each power of ten, from a microsecond to ten seconds, whatever the tick. A duration just below
/// such a bound may count in the next bucket: if less than an eighth of the bound, or less than a tick of `lateness`, is between.
///
/// Metrics by handler have the label `handler` with its name: `tickwheel_handler_slow_calls_total`,
/// `tickwheel_handler_slow_seconds_total` and `tickwheel_handler_longest_seconds`. A service opened with
/// `service_options::count_handlers` also writes `tickwheel_handler_calls_total`, `tickwheel_handler_busy_seconds_total` and
/// `tickwheel_handler_late_seconds_total`. The label has at most 65 values for each service: the handlers after the first 64 are `other`.
///
/// The name of a handler is valid UTF-8, as `write_name` writes it, and quotes, backslashes and newlines in it are escaped. Labels
/// are written unchanged: the caller escapes quotes in values. *Thread safety:* the thread that owns the stats. Throws
/// what the stream throws. Not for a hot path, because streams may allocate.
TICKWHEEL_API void write_prometheus(std::ostream&, std::span<const labelled_stats>);
/// As above, for one service and without labels.
TICKWHEEL_API void write_prometheus(std::ostream&, const service_stats&);

}  // namespace tickwheel
