// Measures the cost of an operation on any machine: instructions, and cache lines.
//
//   cost_model --connections 100000
//
//   instructions   in user space, advancing included
//   lines          how many lines of 64 bytes it reads or writes, if none is in the cache when it begins
//   cold           how many of these no earlier operation touched in the same millisecond of 1000 operations: the lines that a cache
//                  which is large enough for the rest must fetch
//
// callgrind counts. It runs this program again for each workload and subject: one millisecond in sixteen of the scripts of
// wheel_bench, with the same checks of their outcome. Before each operation the simulated cache is emptied, except for the stack. The
// cost of the workload's own loop and script is counted with a subject that has no timers, and is subtracted.
//
// Timers expire in steps in which 17 of them are due. There an operation is a timer, and the timers of a step share all lines that
// the step touches.
//
// The kernel's part of reading the clock is not counted, nor is the part that the kernel maps into the process. Figures of heaps and
// trees grow with the number of connections, those of wheels do not.
//
// --json FILE writes {"rows": [{"workload", "subject", "n", "instructions", "cache_lines", "cold_lines"}, ...]}.
#include "../../examples/support/command_line.hpp"
#include "../../tests/support/simulated_clock.hpp"
#include "../support/callgrind.hpp"
#include "../support/json_file.hpp"
#include "experiment/callgrind_window.hpp"
#include "experiment/experiment.hpp"
#include "subjects/asio.hpp"
#include "subjects/c_timer.hpp"
#include "subjects/libev.hpp"
#include "subjects/libevent.hpp"
#include "subjects/libuv.hpp"
#include "subjects/nothing.hpp"
#include "subjects/plain_hashed.hpp"
#include "subjects/plain_hierarchical.hpp"
#include "subjects/timer.hpp"
#include "subjects/wheel.hpp"
#include "workloads/arm.hpp"
#include "workloads/arm_cancel.hpp"
#include "workloads/fire.hpp"
#include "workloads/rearm.hpp"
#include "workloads/request.hpp"
#include "workloads/touch.hpp"
#include "workloads/touch_30s.hpp"

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace tickwheel::bench {

namespace {

struct options {
  std::size_t connections = 100'000;
  std::string only;   // this workload, or this workload/subject
  std::string count;  // only this workload/subject, for callgrind
  json_file json;
};

/// Runs the workload once and counts. Returns the number of operations, or nothing if its outcome was wrong.
template <class Workload, class S>
std::optional<std::size_t> run_counted(std::size_t n) {
  const script plan = Workload::plan(n);
  const simulated_clock::scope simulated;
  experiment<S> e{plan, n};
  Workload::prepare(e);
  constexpr bool fires = std::is_same_v<Workload, fire>;
  constexpr std::size_t a_millisecond = 1000;
  callgrind_window::begin(fires ? 1 : a_millisecond);
  Workload::template run<callgrind_window>(e);
  callgrind_window::end();
  if (!std::is_same_v<S, nothing_subject> && e.result() != plan.expected) return std::nullopt;
  if (!fires) return callgrind_window::operations;
  return std::is_same_v<S, nothing_subject> ? callgrind_window::operations * fire::due_in_a_step
                                            : callgrind_window::fires;
}

struct counter {
  std::string workload, subject;
  std::optional<std::size_t> (*run)(std::size_t n);
  std::string name() const { return workload + '/' + subject; }
};

template <class... S>
struct subjects {};
using all_subjects = subjects<nothing_subject, wheel_subject<default_shape>, timer_subject<stamped_time>,
                              timer_subject<true_time>, c_timer_subject, libuv_subject, libevent_subject, libev_subject,
                              asio_subject, plain_hashed_subject, plain_hierarchical_subject>;

template <class Workload, class... S>
void add(std::vector<counter>& to, subjects<S...>) {
  (to.push_back({std::string{Workload::name}, std::string{S::name}, &run_counted<Workload, S>}), ...);
}

std::vector<counter> all_counters() {
  std::vector<counter> all;
  add<touch>(all, all_subjects{});
  add<rearm>(all, all_subjects{});
  add<request>(all, all_subjects{});
  add<touch_30s>(all, all_subjects{});
  add<arm>(all, all_subjects{});
  add<arm_cancel>(all, all_subjects{});
  add<fire>(all, all_subjects{});
  return all;
}

struct cost {
  double instructions = 0, lines = 0, cold = 0;  // per operation
};

/// The file that callgrind writes to, for as long as it is needed.
class output_file {
 public:
  ~output_file() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("cost_model." + std::to_string(::getpid()));
};

/// Runs this program under callgrind. If that fails, prints a line that says so and returns nothing.
std::optional<cost> count(const counter& c, std::size_t n) {
  const output_file out;
  const auto geometry = [](std::size_t size, std::size_t ways) {
    return std::to_string(size) + ',' + std::to_string(ways) + ',' + std::to_string(callgrind_window::line);
  };
  constexpr std::size_t last_level = std::size_t{16} << 20;
  const std::string options = "-q --log-file=/dev/null --instr-atstart=no --collect-atstart=no --cache-sim=yes --D1=" +
                              geometry(callgrind_window::cache, callgrind_window::ways) +
                              " --LL=" + geometry(last_level, 16) + " --callgrind-out-file='" + out.path.string() + "'";
  double operations = 0;
  const bool ran = run_under_callgrind(options, "--count " + c.name() + " --connections " + std::to_string(n),
                                       [&](const char* line) { operations = std::strtod(line, nullptr); });
  if (!ran || operations <= 0) {
    std::fprintf(stderr, "cost_model: %s could not be counted\n", c.name().c_str());
    return std::nullopt;
  }

  std::ifstream in{out.path};
  std::vector<std::string> events;
  cost sum;
  for (std::string row, word; std::getline(in, row);) {
    std::istringstream words{row};
    words >> word;
    if (word == "events:")
      while (words >> word) events.push_back(word);
    if (word != "totals:") continue;
    double value = 0;
    for (std::size_t i = 0; i < events.size() && words >> value; ++i) {
      if (events[i] == "Ir") sum.instructions += value;
      if (events[i] == "D1mr" || events[i] == "D1mw") sum.lines += value;
      if (events[i] == "DLmr" || events[i] == "DLmw") sum.cold += value;
    }
  }
  return cost{sum.instructions / operations, sum.lines / operations, sum.cold / operations};
}

int run(const options& o) {
  const std::vector<counter> counters = all_counters();
  if (!o.count.empty()) {
    simulated_clock::require_effect();
    for (const counter& c : counters) {
      if (c.name() != o.count) continue;
      const auto operations = c.run(o.connections);
      if (operations) std::printf("%zu\n", *operations);
      return operations ? 0 : 1;
    }
    return exit_bad_usage;
  }
  const auto wanted = [&](const counter& c) {
    return o.only.empty() || o.only == c.workload || o.only == c.name() ||
           (o.only.starts_with(c.workload + '/') && c.subject == nothing_subject::name);
  };
  std::printf("%zu connections\n%-24s %12s %8s %8s\n", o.connections, "", "instructions", "lines", "cold");
  nlohmann::json figures;
  cost baseline;
  for (const counter& c : counters) {
    if (!wanted(c)) continue;
    const std::optional<cost> counted = count(c, o.connections);
    if (!counted) return 1;
    if (c.subject == nothing_subject::name) {  // the first of a workload
      baseline = *counted;
      continue;
    }
    const cost own{counted->instructions - baseline.instructions, counted->lines - baseline.lines,
                   counted->cold - baseline.cold};
    std::printf("%-24s %12.1f %8.2f %8.2f\n", c.name().c_str(), own.instructions, own.lines, own.cold);
    std::fflush(stdout);
    figures["rows"].push_back({{"workload", c.workload},
                               {"subject", c.subject},
                               {"n", o.connections},
                               {"instructions", own.instructions},
                               {"cache_lines", own.lines},
                               {"cold_lines", own.cold}});
  }
  return o.json.write(figures) ? 0 : exit_bad_usage;
}

}  // namespace

}  // namespace tickwheel::bench

int main(int argc, char** argv) {
  tickwheel::bench::options o;
  CLI::App app{"What an operation takes on any machine: instructions, and cache lines.", "cost_model"};
  app.add_option("--connections", o.connections, "how many there are")
      ->capture_default_str()
      ->check(CLI::Range(2, 10'000'000));
  app.add_option("--only", o.only, "this workload, such as touch, or this subject of it, such as touch/libuv");
  app.add_option("--count", o.count, "count this workload/subject alone: what callgrind is given to run");
  o.json.add_option(app);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  return tickwheel::bench::run(o);
}
