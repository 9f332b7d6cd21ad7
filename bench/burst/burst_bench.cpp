// Measures what a million timers that are due in one tick do to the I/O of their loop.
//
//   burst_bench --timers 1000000
//
//   none        no timer: a round trip by itself
//   default     the burst, with the default bounds of a pass
//   unbounded   the burst, without work_per_pass and time_per_pass
//
// A byte goes to and fro between two TCP sockets of the loop. Its round trips are counted from the time when the timers are due
// until the last of them has run. "before" is the longest round trip before that time, while the wheel moves the timers to their
// slot. "last" is the lateness of the last timer, by the true clock. Repetitions are interleaved. Their round trips are taken
// together, and "before" and "last" are the worst.
//
// --json FILE writes {"rows": [{"name", "trips", "p50_us", "p99_us", "max_us", "before_us", "last_us"}, ...]}.
//
// Each handler reads the clock and is checked. The program ends with 1 unless each timer has run once, and none early.
#include "../../examples/support/command_line.hpp"
#include "../../examples/support/text_bars.hpp"
#include "../support/connection.hpp"
#include "../support/json_file.hpp"
#include "ping_pong.hpp"

#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct options {
  std::size_t timers = 1'000'000;
  unsigned repetitions = 3;
  milliseconds lead = 1s;
  milliseconds baseline = 500ms;
  json_file json;
};

struct mode {
  const char* name;
  bool has_timers;
  service_options service;
};

const std::array modes{
    mode{"none", false, {}},
    mode{"default", true, {}},
    mode{"unbounded", true, {.work_per_pass = unlimited, .time_per_pass = nanoseconds::max()}},
};

/// The results of a mode, in all repetitions.
struct result {
  std::vector<nanoseconds> trips;
  nanoseconds before{};
  nanoseconds last{};
  std::uint64_t wrong = 0;  // timers that did not run, ran twice, or ran early
};

/// When the burst is due, and what has happened to it. There is only one, because a callback gets nothing but its timer.
struct burst {
  clock::time_point due;
  clock::time_point last;
  std::uint64_t early;
  std::size_t left;
  uv_loop_t* loop;
};
burst running;

void on_due(wheel_entry& entry) noexcept {
  const clock::time_point now = clock::now();
  running.early += now < running.due;
  running.last = now;
  expired.add(static_cast<connection<timer>&>(timer::from(entry)).id);
  if (--running.left == 0) uv_stop(running.loop);
}

std::uint64_t sum_of_all(std::size_t n) {
  tally all;
  for (std::size_t id = 0; id < n; ++id) all.add(id);
  return all.sum;
}

void measure(const options& o, const mode& m, result& out) {
  uv_loop_t loop;
  if (uv_loop_init(&loop) != 0) std::abort();
  {
    timer_service timers;
    if (timers.open(loop, m.service) != 0) std::abort();
    connections<connection<timer>> all{m.has_timers ? o.timers : 0, timers, &on_due};
    ping_pong io{loop};
    expired = {};
    running = {clock::now() + o.lead, {}, 0, m.has_timers ? o.timers : 0, &loop};
    for (const auto& c : all)
      if (c->arm_at(running.due) != 0) std::abort();
    if (m.has_timers && clock::now() >= running.due) {
      std::fprintf(stderr, "burst_bench: --lead: the burst was due before all timers were armed\n");
      std::exit(exit_bad_usage);
    }

    io.serve();
    if (m.has_timers) {
      io.count_from(running.due);
      uv_run(&loop, UV_RUN_DEFAULT);
      // the one trip that was under way when the last timer ran
      for (const std::size_t before = io.trips().size(); io.trips().size() == before;) uv_run(&loop, UV_RUN_ONCE);
      out.before = std::max(out.before, io.longest_before());
      out.last = std::max<nanoseconds>(out.last, running.last - running.due);
    } else {
      io.count_from(clock::now());
      for (const clock::time_point end = clock::now() + o.baseline; clock::now() < end;) uv_run(&loop, UV_RUN_ONCE);
    }
    out.trips.insert(out.trips.end(), io.trips().begin(), io.trips().end());
    out.wrong += running.early;
    if (m.has_timers && (expired.count != o.timers || expired.sum != sum_of_all(o.timers))) ++out.wrong;
    io.close();
    timers.close();
    uv_run(&loop, UV_RUN_DEFAULT);
  }
  if (uv_loop_close(&loop) != 0) std::abort();
}

double us(nanoseconds time) { return std::chrono::duration<double, std::micro>{time}.count(); }

nanoseconds at(const std::vector<nanoseconds>& sorted, double fraction) {
  const auto i = static_cast<std::size_t>(fraction * static_cast<double>(sorted.size()));
  return sorted[std::min(i, sorted.size() - 1)];
}

int run(const options& o) {
  std::array<result, modes.size()> results;
  for (unsigned i = 0; i < o.repetitions; ++i)
    for (std::size_t m = 0; m < modes.size(); ++m) measure(o, modes[m], results[m]);

  std::printf("%zu timers due in one tick, %u times, libuv %s; round trips over TCP meanwhile, in us\n", o.timers,
              o.repetitions, uv_version_string());
  std::printf("%-10s %8s %10s %10s %10s %10s %10s\n", "", "trips", "p50", "p99", "max", "before", "last, ms");
  std::uint64_t wrong = 0;
  nlohmann::json figures{{"timers", o.timers}};
  for (std::size_t m = 0; m < modes.size(); ++m) {
    result& r = results[m];
    std::sort(r.trips.begin(), r.trips.end());
    const std::string last = modes[m].has_timers ? std::to_string(r.last / 1ms) : "-";
    std::printf("%-10s %8zu %10.1f %10.1f %10.1f %10.1f %10s\n", modes[m].name, r.trips.size(), us(at(r.trips, 0.5)),
                us(at(r.trips, 0.99)), us(r.trips.back()), us(r.before), last.c_str());
    figures["rows"].push_back({{"name", modes[m].name},
                               {"trips", r.trips.size()},
                               {"p50_us", us(at(r.trips, 0.5))},
                               {"p99_us", us(at(r.trips, 0.99))},
                               {"max_us", us(r.trips.back())},
                               {"before_us", us(r.before)},
                               {"last_us", us(r.last)}});
    wrong += r.wrong;
  }
  for (std::size_t m = 0; m < modes.size(); ++m)
    std::printf("\n%s: round trips\n%s", modes[m].name, bars_of(results[m].trips).c_str());
  if (wrong == 0) return o.json.write(figures) ? 0 : exit_bad_usage;
  std::fprintf(stderr, "burst_bench: some timer did not run, ran twice, or ran early\n");
  return 1;
}

}  // namespace

}  // namespace tickwheel::bench

int main(int argc, char** argv) {
  tickwheel::bench::options o;
  CLI::App app{"What a million timers that are due in one tick do to the I/O of their loop.", "burst_bench"};
  app.add_option("--timers", o.timers, "how many are due together")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--repetitions", o.repetitions, "of each mode, interleaved")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  using std::chrono::milliseconds;
  add_duration(app, "--lead", o.lead, milliseconds{1}, milliseconds{1},
               "how long before they are due the timers are armed: milliseconds, or with a unit [1s]");
  add_duration(app, "--baseline", o.baseline, milliseconds{1}, milliseconds{1},
               "how long round trips are counted without timers: milliseconds, or with a unit [500ms]");
  o.json.add_option(app);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  return tickwheel::bench::run(o);
}
