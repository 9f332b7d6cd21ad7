#include "../core/stream_format.hpp"

#include <tickwheel/durable/scheduler.hpp>
#include <tickwheel/durable/scheduler_stats.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <ostream>

namespace tickwheel::durable {

namespace {

using namespace std::chrono_literals;

template <class Value>
void write_one(std::ostream& out, const char* name, const char* type, const char* help, Value value) {
  out << "# HELP tickwheel_durable_" << name << ' ' << help << "\n# TYPE tickwheel_durable_" << name << ' ' << type
      << "\ntickwheel_durable_" << name << ' ' << value << '\n';
}

double seconds(std::chrono::nanoseconds d) noexcept { return std::chrono::duration<double>{d}.count(); }

// One unit less than a power of two of units, so that the counts are exact.
void write_lateness(std::ostream& out, const duration_histogram& h) {
  constexpr const char* name = "tickwheel_durable_lateness_seconds";
  out << "# HELP " << name << " How late handlers were called.\n# TYPE " << name << " histogram\n";
  for (unsigned power = 9; power <= 26; ++power) {
    const auto edge = h.unit() * (std::int64_t{1} << power);
    out << name << "_bucket{le=\"" << seconds(edge) << "\"} " << h.count_up_to(edge - h.unit()) << '\n';
  }
  out << name << "_bucket{le=\"+Inf\"} " << h.count() << '\n';
  out << name << "_sum " << seconds(h.sum()) << '\n' << name << "_count " << h.count() << '\n';
}

}  // namespace

void write_prometheus(std::ostream& out, const scheduler& of) {
  const classic_locale locale{out};
  const stream_format format{out, {}, std::numeric_limits<double>::digits10};
  out.width(0);
  const scheduler_stats s = of.stats();
  const auto counter = [&](const char* name, const char* help, std::uint64_t value) {
    write_one(out, name, "counter", help, value);
  };
  const auto gauge = [&](const char* name, const char* help, auto value) {
    write_one(out, name, "gauge", help, value);
  };
  counter("scheduled_total", "Requests answered scheduled or replaced.", s.scheduled);
  counter("started_total", "Executions that were handed to the handler.", s.started);
  counter("finished_total", "Finishes that the store has confirmed.", s.finished);
  counter("failed_total", "Executions that ended by fail or bury, or were dropped.", s.failed);
  counter("recovered_total", "Tasks of lost nodes that this node made pending, or dead.", s.recovered);
  counter("stale_total", "Finishes that were too late.", s.stale);
  counter("unavailable_total", "Requests answered unavailable or unknown.", s.unavailable);
  counter("store_failures_total", "Calls that the store has not carried out, or may not have.", s.store_failures);
  gauge("requests", "Requests without an answer.", s.requests);
  gauge("running", "Executions whose end the store has not confirmed.", s.running);
  gauge("loaded", "Tasks in memory that wait for their time or for a place.", s.loaded);
  gauge("partitions", "Partitions that this node owns.", s.partitions);
  gauge("dead", "Dead tasks in the store, counted up to 10,000.", s.dead);
  gauge("oldest_overdue_seconds", "How long the oldest task has been due that was read and has not started.",
        seconds(s.oldest_overdue));
  gauge("oldest_running_seconds", "How long ago the oldest execution started.", seconds(s.oldest_running));
  write_lateness(out, s.lateness);
}

}  // namespace tickwheel::durable
