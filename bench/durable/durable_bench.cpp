// Measures durable timers on one machine, beside the same writes on bare SQLite.
//
//   durable_bench --pending 1000000 --folder /var/tmp
//
//   fsync             how long the disk takes for 64 KiB
//   raw schedule      bare SQLite: inserts in batches of 1,000, each batch durable
//   schedule          requests to a scheduler on a sqlite_store, with 8,000 of them in flight
//   raw cancel        bare SQLite: cancels of pending tasks in batches of 1,000
//   cancel            cancels of the tasks of `schedule`, with 8,000 of them in flight
//   raw start+finish  bare SQLite: both writes of an execution, in batches of 1,000
//   start+finish      tasks that are due at once, started, and finished by their handlers
//   lateness          2,500 starts per second, scheduled two seconds ahead
//   one tick          all tasks due at one moment: the longest time without a confirmed finish
//   recovery          from `open` of a file with running tasks to the first overdue start
//
// --json FILE writes {"rows": [{"name", "pending", "per_second", "p50_us", "p99_us", "max_us"}, ...]}.
#include "../../examples/command_line.hpp"
#include "../support/json_file.hpp"
#include "disk_probe.hpp"
#include "raw_sqlite.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/sqlite.hpp>
#include <tickwheel/uv/event_loop.hpp>
#include <tickwheel/uv/timer.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using steady = std::chrono::steady_clock;

struct options {
  std::size_t pending = 100'000;
  std::size_t operations = 100'000;
  std::chrono::milliseconds lateness_time = 10s;
  std::string folder = ".";
  json_file json;
};

double seconds(nanoseconds d) { return std::chrono::duration<double>{d}.count(); }
double microseconds(nanoseconds d) { return std::chrono::duration<double, std::micro>{d}.count(); }

// 32 bytes, in no order: as an order's id is
std::string id_of(std::uint64_t number) {
  std::uint64_t mixed = (number + 1) * 0x9E3779B97F4A7C15U;
  mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9U;
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(mixed),
                static_cast<unsigned long long>(number));
  return text;
}

const std::string payload(100, 'p');

class table {
 public:
  void add(const char* name, std::size_t pending, double per_second) {
    std::printf("%-18s %9zu pending %10.0f per second\n", name, pending, per_second);
    rows_.push_back({{"name", name}, {"pending", pending}, {"per_second", per_second}});
  }
  void add(const char* name, std::size_t pending, nanoseconds p50, nanoseconds p99, nanoseconds longest) {
    std::printf("%-18s %9zu pending   p50 %9.0f us   p99 %9.0f us   longest %9.0f us\n", name, pending,
                microseconds(p50), microseconds(p99), microseconds(longest));
    rows_.push_back({{"name", name},
                     {"pending", pending},
                     {"p50_us", microseconds(p50)},
                     {"p99_us", microseconds(p99)},
                     {"max_us", microseconds(longest)}});
  }
  nlohmann::json json() const { return {{"rows", rows_}}; }

 private:
  nlohmann::json rows_ = nlohmann::json::array();
};

void remove_file(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) std::remove((path + suffix).c_str());
}

/// A scheduler on a file, and its loop.
class bench_node {
 public:
  bench_node(const std::string& path, durable::scheduler_options of = {})
      : scheduler{loop.timers(), durable::sqlite_store(path), std::move(of)} {
    if (const int error = loop.open()) fail("loop", error);
    scheduler.on_due([this](durable::execution run) noexcept { on_start ? on_start(std::move(run)) : run.done(); });
  }

  void open() {
    bool is_ready = false;
    const int error = scheduler.open([&](int result) noexcept {
      is_ready = true;
      if (result != 0) fail("open", result);
    });
    if (error != 0) fail("open", error);
    run_until([&] { return is_ready; });
  }
  void run_until(const std::function<bool()>& done) {
    while (!done()) loop.run(UV_RUN_ONCE);
  }

  /// Schedules tasks with the numbers from `first` on, with 8,000 in flight.
  void schedule(std::uint64_t first, std::size_t count, durable::clock::time_point due) {
    std::size_t asked = 0;
    std::size_t answered = 0;
    while (answered != count) {
      for (; asked != count && asked - answered < 8000; ++asked) {
        const int error =
            scheduler.schedule({id_of(first + asked), due, payload, {}}, [&](durable::schedule_result r) noexcept {
              if (r != durable::schedule_result::scheduled) fail(to_string(r), 0);
              ++answered;
            });
        if (error != 0) fail("schedule", error);
      }
      loop.run(UV_RUN_ONCE);
    }
  }

  /// Cancels pending tasks with the numbers from `first` on, with 8,000 in flight.
  void cancel(std::uint64_t first, std::size_t count) {
    std::size_t asked = 0;
    std::size_t answered = 0;
    while (answered != count) {
      for (; asked != count && asked - answered < 8000; ++asked) {
        const int error = scheduler.cancel(id_of(first + asked), [&](durable::cancel_result r) noexcept {
          if (r != durable::cancel_result::cancelled) fail(to_string(r), 0);
          ++answered;
        });
        if (error != 0) fail("cancel", error);
      }
      loop.run(UV_RUN_ONCE);
    }
  }

  event_loop loop;
  durable::scheduler scheduler;
  std::function<void(durable::execution)> on_start;

 private:
  [[noreturn]] static void fail(const char* what, int error) noexcept {
    std::fprintf(stderr, "durable_bench: %s: %s\n", what, error != 0 ? uv_strerror(error) : "unexpected");
    std::exit(1);
  }
};

const auto far_away = durable::clock::now() + std::chrono::hours{24};

void run_raw(const options& o, table& out) {
  const std::string path = o.folder + "/durable_bench_raw.db";
  remove_file(path);
  const auto batches = [](std::uint64_t first, std::size_t count,
                          const std::function<void(const std::vector<std::string>&)>& run) {
    std::vector<std::string> ids;
    for (std::size_t i = 0; i < count; i += ids.size()) {
      ids.clear();
      for (std::size_t k = i; k != std::min(count, i + 1000); ++k) ids.push_back(id_of(first + k));
      run(ids);
    }
  };
  raw_sqlite raw{path};
  const std::int64_t far = far_away.time_since_epoch().count();
  const std::int64_t now = durable::clock::now().time_since_epoch().count();
  batches(0, o.pending, [&](const auto& ids) { raw.put(ids, far, payload); });
  auto before = steady::now();
  batches(1'000'000'000, o.operations, [&](const auto& ids) { raw.put(ids, far, payload); });
  out.add("raw schedule", o.pending, static_cast<double>(o.operations) / seconds(steady::now() - before));
  before = steady::now();
  batches(1'000'000'000, o.operations, [&](const auto& ids) {
    raw.cancel(ids, now);
    raw.purge(0);
  });
  out.add("raw cancel", o.pending, static_cast<double>(o.operations) / seconds(steady::now() - before));
  batches(2'000'000'000, o.operations, [&](const auto& ids) { raw.put(ids, now, payload); });
  before = steady::now();
  batches(2'000'000'000, o.operations, [&](const auto& ids) {
    raw.start_and_finish(ids, now);
    raw.purge(0);
  });
  out.add("raw start+finish", o.pending, static_cast<double>(o.operations) / seconds(steady::now() - before));
  remove_file(path);
}

void run_lateness(const options& o, table& out, bench_node& node) {
  std::vector<nanoseconds> late;
  std::size_t finished = 0;
  node.on_start = [&](durable::execution run) {
    late.push_back(durable::clock::now() - run.due());
    run.done([&](durable::finish_result) noexcept { ++finished; });
  };
  constexpr std::size_t each = 25;  // per 10 ms
  const std::size_t rounds = static_cast<std::size_t>(o.lateness_time / 10ms);
  std::size_t round = 0;
  std::uint64_t next = 3'000'000'000;
  callback_timer tick{
      node.loop.timers(), [&](timer& self) noexcept {
        for (std::size_t i = 0; i != each; ++i) {
          const auto due = durable::clock::now() + 2s + 400us * i;
          (void)node.scheduler.schedule({id_of(next++), due, payload, {}}, [](durable::schedule_result) noexcept {});
        }
        if (++round != rounds)
          (void)self.arm_at(self.deadline() == clock::time_point::max() ? node.loop.timers().now() + 10ms
                                                                        : self.deadline() + 10ms);
      }};
  (void)tick.arm(1ms);
  node.run_until([&] { return finished == rounds * each; });
  std::sort(late.begin(), late.end());
  out.add("lateness", o.pending, late[late.size() / 2], late[late.size() * 99 / 100], late.back());
  node.on_start = nullptr;
}

void run_one_tick(const options& o, table& out, bench_node& node, std::size_t count) {
  const auto due = durable::clock::now() + std::chrono::milliseconds{1000 + count / 20};
  node.schedule(4'000'000'000, count, due);
  std::size_t finished = 0;
  nanoseconds longest{};
  auto last = steady::now();
  node.on_start = [&](durable::execution run) {
    run.done([&](durable::finish_result) noexcept {
      const auto now = steady::now();
      if (finished++ != 0) longest = std::max<nanoseconds>(longest, now - last);
      last = now;
    });
  };
  node.run_until([&] { return finished == count; });
  out.add("one tick", o.pending, 0ns, 0ns, longest);
  node.on_start = nullptr;
}

int run(const options& o) {
  table out;
  const std::string path = o.folder + "/durable_bench.db";
  remove_file(path);
  const auto fsyncs = measure_fsync(o.folder + "/durable_bench.fsync", 200);
  if (fsyncs.empty()) {
    std::fprintf(stderr, "durable_bench: %s cannot be written\n", o.folder.c_str());
    return 1;
  }
  out.add("fsync", 0, fsyncs[fsyncs.size() / 2], fsyncs[fsyncs.size() * 99 / 100], fsyncs.back());
  run_raw(o, out);
  {
    bench_node node{path};
    node.open();
    node.schedule(0, o.pending, far_away);
    auto before = steady::now();
    node.schedule(1'000'000'000, o.operations, far_away);
    out.add("schedule", o.pending, static_cast<double>(o.operations) / seconds(steady::now() - before));
    before = steady::now();
    node.cancel(1'000'000'000, o.operations);
    out.add("cancel", o.pending, static_cast<double>(o.operations) / seconds(steady::now() - before));

    std::size_t finished = 0;
    node.on_start = [&](durable::execution run) { run.done([&](durable::finish_result) noexcept { ++finished; }); };
    node.scheduler.pause();
    node.schedule(2'000'000'000, o.operations, durable::clock::now());
    before = steady::now();
    node.scheduler.resume();
    node.run_until([&] { return finished == o.operations; });
    out.add("start+finish", o.pending, static_cast<double>(o.operations) / seconds(steady::now() - before));
    node.on_start = nullptr;

    run_lateness(o, out, node);
    run_one_tick(o, out, node, o.operations);
    const auto handlers = node.loop.timers().stats().handler_time;
    out.add("callbacks", o.pending, handlers.percentile(0.5), handlers.percentile(0.99), handlers.max());
    node.scheduler.pause();
    node.schedule(5'000'000'000, 1000, durable::clock::now());
  }
  {
    bench_node node{path};
    bool has_started = false;
    node.on_start = [&](durable::execution run) {
      has_started = true;
      run.done();
    };
    const auto before = steady::now();
    node.open();
    node.run_until([&] { return has_started; });
    const nanoseconds took = steady::now() - before;
    out.add("recovery", o.pending, took, took, took);
  }
  remove_file(path);
  return o.json.write(out.json()) ? 0 : 1;
}

}  // namespace

}  // namespace tickwheel::bench

int main(int argc, char** argv) {
  tickwheel::bench::options o;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a row is seen as soon as it is measured
  CLI::App app{"Measures durable timers on one machine", "durable_bench"};
  app.add_option("--pending", o.pending, "tasks that wait meanwhile");
  app.add_option("--operations", o.operations, "operations of each measurement")->check(CLI::PositiveNumber);
  add_duration(app, "--lateness-time", o.lateness_time, std::chrono::seconds{1}, std::chrono::milliseconds{100},
               "how long lateness is measured");
  app.add_option("--folder", o.folder, "where the files are written, which are removed at the end");
  o.json.add_option(app);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  return tickwheel::bench::run(o);
}
