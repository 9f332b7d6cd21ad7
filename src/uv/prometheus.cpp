#include <tickwheel/uv/prometheus.hpp>

#include "../core/stream_format.hpp"

#include <tickwheel/core/wheel.hpp>
#include <tickwheel/uv/handler_stats.hpp>
#include <tickwheel/uv/named_handler.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tickwheel {

namespace {

using stats_member = std::uint64_t service_stats::*;

struct counter {
  const char* name;
  const char* help;
  stats_member value;
};

constexpr counter counters[] = {
    {"timers_armed", "Times an unarmed timer was armed.", &service_stats::armed},
    {"timers_fired", "Callbacks that ran.", &service_stats::fired},
    {"timers_cancelled", "Timers cancelled, or still armed when destroyed or closed.", &service_stats::cancelled},
    {"timers_refused", "Arms beyond max_armed.", &service_stats::refused},
    {"passes", "Times the wheel was asked for what is due.", &service_stats::passes},
    {"passes_carried", "Passes that left work for the next.", &service_stats::carried},
    {"wakeups", "Times the loop was woken for its timers.", &service_stats::wakeups},
    {"stalls", "Loop iterations that took longer than stall_grace.", &service_stats::stalls},
    {"slow_handlers", "Handlers that took slow_handler or longer.", &service_stats::slow_handlers},
    {"remote_accepted", "Operations that other threads posted.", &service_stats::remote_accepted},
    {"remote_refused", "Operations of other threads that were refused.", &service_stats::remote_refused},
    {"remote_ran", "Handlers of other threads' operations that ran.", &service_stats::remote_ran},
    {"remote_withdrawn", "Operations that other threads cancelled.", &service_stats::remote_withdrawn},
    {"remote_cancelled", "Operations that had not run when the service closed.", &service_stats::remote_cancelled},
};

using namespace std::chrono_literals;

// Whatever the tick, so that loops with different ticks can be added up.
constexpr std::chrono::nanoseconds bounds[] = {1us, 2us,  5us,  10us, 20us,  50us,  100us, 200us, 500us, 1ms, 2ms,
                                               5ms, 10ms, 20ms, 50ms, 100ms, 200ms, 500ms, 1s,    2s,    5s,  10s};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest_exact = 9007199254740992;  // up to here a double has every integer

double seconds(std::chrono::nanoseconds d) { return std::chrono::duration<double>(d).count(); }

double limit(std::size_t option) { return option == unlimited ? infinity : static_cast<double>(option); }

// A metric of which each service, or each handler, has one value.
template <class Stats>
struct metric {
  const char* name;
  const char* suffix;
  const char* type;
  const char* help;
  double (*value)(const Stats&);
};

constexpr metric<service_stats> of_services[] = {
    {"stalled_seconds", "_total", "counter", "What stalls took beyond stall_grace.",
     [](const service_stats& s) { return seconds(s.stalled); }},
    {"loop_busy_seconds", "_total", "counter", "Time of the loop outside of its polls.",
     [](const service_stats& s) { return seconds(s.busy); }},
    {"loop_idle_seconds", "_total", "counter", "Time of the loop in its polls.",
     [](const service_stats& s) { return seconds(s.idle); }},
    {"loop_longest_iteration_seconds", "", "gauge", "The longest busy time of an iteration so far.",
     [](const service_stats& s) { return seconds(s.iterations.max()); }},
    {"timers_pending", "", "gauge", "Timers armed now.",
     [](const service_stats& s) { return static_cast<double>(s.pending); }},
    {"timers_limit", "", "gauge", "The option max_armed.", [](const service_stats& s) { return limit(s.max_armed); }},
    {"remote_queued", "", "gauge", "Operations that the loop has not taken yet.",
     [](const service_stats& s) { return static_cast<double>(s.remote_queued); }},
    {"remote_queue_limit", "", "gauge", "The option max_queued.",
     [](const service_stats& s) { return limit(s.max_queued); }},
};

constexpr metric<handler_stats> of_slow_handlers[] = {
    {"handler_slow_calls", "_total", "counter", "Calls of a handler that took slow_handler or longer.",
     [](const handler_stats& h) { return static_cast<double>(h.slow_calls); }},
    {"handler_slow_seconds", "_total", "counter", "Time of those calls.",
     [](const handler_stats& h) { return seconds(h.slow_time); }},
    {"handler_longest_seconds", "", "gauge", "The longest call of a handler so far.",
     [](const handler_stats& h) { return seconds(h.longest); }},
};

constexpr metric<handler_stats> of_all_handlers[] = {
    {"handler_calls", "_total", "counter", "Calls of a handler.",
     [](const handler_stats& h) { return static_cast<double>(h.calls); }},
    {"handler_busy_seconds", "_total", "counter", "Time of all calls of a handler.",
     [](const handler_stats& h) { return seconds(h.time); }},
    {"handler_late_seconds", "_total", "counter", "How late the calls of a handler began, in all.",
     [](const handler_stats& h) { return seconds(h.late); }},
};

class exposition {
 public:
  exposition(std::ostream& out, std::span<const labelled_stats> all) : out_{out}, all_{all} {
    for (const labelled_stats& one : all) {
      const std::size_t first = handlers_.size();
      for (const handler_stats& of : one.stats.handlers.all()) add(first, labels_of(one.labels, of.handler), of);
    }
  }

  void write(const counter& c) {
    head(c.name, "_total", "counter", c.help);
    for (const labelled_stats& of : all_) sample(c.name, "_total", of.labels, static_cast<double>(of.stats.*c.value));
  }

  void write(const metric<service_stats>& m) {
    head(m.name, m.suffix, m.type, m.help);
    for (const labelled_stats& of : all_) sample(m.name, m.suffix, of.labels, m.value(of.stats));
  }

  // The value of each handler of each service, with the name of the handler as a label. A metric of all calls has no value for a
  // service that counts only slow ones: its zeros would be wrong.
  void write(const metric<handler_stats>& m, bool of_all_calls) {
    bool has_head = false;
    for (const named_stats& of : handlers_) {
      if (of_all_calls && of.stats.calls == 0) continue;
      if (!std::exchange(has_head, true)) head(m.name, m.suffix, m.type, m.help);
      sample(m.name, m.suffix, of.labels, m.value(of.stats));
    }
  }

  void write(const char* name, const char* help, duration_histogram service_stats::*of) {
    head(name, "_seconds", "histogram", help);
    for (const labelled_stats& one : all_) {
      const duration_histogram& h = one.stats.*of;
      for (const std::chrono::nanoseconds limit : bounds)
        bucket(name, one.labels, h.count_up_to(limit), seconds(limit));
      bucket(name, one.labels, h.count(), infinity);
      sample(name, "_seconds_sum", one.labels, seconds(h.sum()));
      sample(name, "_seconds_count", one.labels, static_cast<double>(h.count()));
    }
  }

 private:
  struct named_stats {
    std::string labels;
    handler_stats stats;
  };

  void head(const char* name, const char* suffix, const char* type, const char* help) {
    out_ << "# HELP tickwheel_" << name << suffix << ' ' << help << "\n# TYPE tickwheel_" << name << suffix << ' '
         << type << '\n';
  }

  // Adds a handler of the service whose handlers begin at `first`. Two of them may have the same name, and no sample may be
  // written twice.
  void add(std::size_t first, std::string&& labels, const handler_stats& more) {
    for (; first < handlers_.size(); ++first) {
      if (handlers_[first].labels != labels) continue;
      handler_stats& to = handlers_[first].stats;
      to.slow_calls += more.slow_calls;
      to.slow_time += more.slow_time;
      to.longest = std::max(to.longest, more.longest);
      to.calls += more.calls;
      to.time += more.time;
      to.late += more.late;
      return;
    }
    handlers_.push_back({std::move(labels), more});
  }

  // Returns for instance loop="0",handler="session::on_idle".
  static std::string labels_of(std::string_view of_service, expiry_report::handler_id handler) {
    char name[256] = "other";
    if (handler != nullptr) write_name(handler, name, sizeof name);
    std::string labels{of_service};
    if (!labels.empty()) labels += ',';
    labels += "handler=\"";
    for (const char c : std::string_view{name}) {
      if (c == '"' || c == '\\' || c == '\n') labels += '\\';
      labels += c == '\n' ? 'n' : c;
    }
    labels += '"';
    return labels;
  }

  void sample(const char* name, const char* suffix, std::string_view labels, double value) {
    out_ << "tickwheel_" << name << suffix;
    if (!labels.empty()) out_ << '{' << labels << '}';
    out_ << ' ';
    write(value);
    out_ << '\n';
  }

  void bucket(const char* name, std::string_view labels, std::uint64_t count, double limit) {
    out_ << "tickwheel_" << name << "_seconds_bucket{" << labels << (labels.empty() ? "" : ",") << "le=\"";
    write(limit);
    out_ << "\"} " << count << '\n';
  }

  // Counts are written with all their digits.
  void write(double value) {
    if (value == infinity)
      out_ << "+Inf";
    else if (std::abs(value) < largest_exact && value == std::trunc(value))
      out_ << static_cast<std::int64_t>(value);
    else
      out_ << value;
  }

  std::ostream& out_;
  std::span<const labelled_stats> all_;
  std::vector<named_stats> handlers_;
};

}  // namespace

void write_prometheus(std::ostream& out, std::span<const labelled_stats> all) {
  const classic_locale locale{out};
  const stream_format format{out, {}, std::numeric_limits<double>::digits10};
  out.width(0);

  exposition text{out, all};
  for (const counter& one : counters) text.write(one);
  for (const metric<service_stats>& one : of_services) text.write(one);
  text.write("lateness", "How late timers were when a pass judged them.", &service_stats::lateness);
  text.write("handler", "How long handlers took.", &service_stats::handler_time);
  text.write("loop_iteration", "How long each iteration of the loop was busy.", &service_stats::iterations);
  for (const metric<handler_stats>& one : of_slow_handlers) text.write(one, false);
  for (const metric<handler_stats>& one : of_all_handlers) text.write(one, true);
}

void write_prometheus(std::ostream& out, const service_stats& stats) {
  const labelled_stats one{{}, stats};
  write_prometheus(out, {&one, 1});
}

}  // namespace tickwheel
