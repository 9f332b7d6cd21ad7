// A service's counters and histograms as text that Prometheus reads.
//
//   std::ostringstream body;
//   tickwheel::write_prometheus(body, timers.stats());
//
// With a service a loop, one call writes them all, told apart by their labels:
//
//   const tickwheel::labelled_stats all[] = {{R"(loop="0")", first}, {R"(loop="1")", second}};
//   tickwheel::write_prometheus(body, all);
//
// Each loop copies its own `service_stats` for that, as they are not to be read by other threads.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/uv/service_stats.hpp>

#include <iosfwd>
#include <span>
#include <string_view>

namespace tickwheel {

/// The labels, as they stand between the braces (`loop="0",host="a"`), or empty; and what they are of.
struct labelled_stats {
  std::string_view labels;  ///< without the braces; may be empty
  /// Outlives the call.
  const service_stats& stats;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): a view, as the other
};

/// Writes the text exposition format, version 0.0.4: counters named `tickwheel_..._total`, the gauge
/// `tickwheel_timers_pending`, and the histograms `tickwheel_lateness_seconds` and `tickwheel_handler_seconds`, whose buckets
/// are powers of two of their unit, so that they are exact. Labels are written as they are: quotes in values are the caller's
/// to escape. *Thread safety:* whoever owns the stats. Throws what the stream throws; not on a hot path, as streams may
/// allocate.
TICKWHEEL_API void write_prometheus(std::ostream&, std::span<const labelled_stats>);
/// As above, for one service and without labels.
TICKWHEEL_API void write_prometheus(std::ostream&, const service_stats&);

}  // namespace tickwheel
