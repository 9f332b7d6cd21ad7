#include "embedded.hpp"

#include "lateness.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// Returns a line of /proc/self/status, such as "VmRSS:", in bytes.
double memory_of(const std::string& line) {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;) {
    double kibibytes = 0;
    if (word == line && status >> kibibytes) return kibibytes * 1024;
  }
  fail("/proc/self/status has no " + line);
}

void forget_peak() { std::ofstream{"/proc/self/clear_refs"} << "5"; }

nanoseconds p99_of(std::vector<nanoseconds> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() * 99 / 100];
}

void measure_loaded(const bench_options& o, const store_subject& subject, figure_table& out) {
  durable::scheduler_options of;
  of.max_loaded = o.pending;
  of.window = 4h;
  bench_node node{subject.make_store(), of};
  node.open();
  // tasks due later than a window are not loaded: what they leave behind is not counted
  node.schedule(new_numbers(o.pending), o.pending, far_away);
  const double before = memory_of("VmRSS:");
  node.schedule(new_numbers(o.pending), o.pending, durable::clock::now() + 1h);
  node.run_until([&] { return node.scheduler.stats().loaded == o.pending; });
  out.add_value("memory of a loaded task", (memory_of("VmRSS:") - before) / static_cast<double>(o.pending), "bytes",
                400);
  node.scheduler.close();
}

void measure_running(const bench_options& o, const store_subject& subject, figure_table& out) {
  constexpr std::size_t bytes = 64 << 10;
  const std::size_t count = o.operations;
  const std::string large(bytes, 'p');
  bench_node node{subject.make_store()};
  const double limit = static_cast<double>(node.options.max_running * bytes + node.options.max_request_bytes +
                                           (64 << 20) + 400 * std::min(count, node.options.max_loaded));
  node.open();
  const double before = memory_of("VmRSS:");
  forget_peak();
  std::size_t finished = 0;
  node.on_start = [&](durable::execution run) { run.done([&](durable::finish_result) noexcept { ++finished; }); };
  node.scheduler.pause();
  const std::uint64_t first = new_numbers(count);
  const auto due = durable::clock::now();
  std::size_t asked = 0;
  std::size_t answered = 0;
  while (answered != count) {
    for (; asked != count; ++asked)
      if (node.scheduler.schedule({id_of(first + asked), due, large, {}},
                                  [&](durable::schedule_result) noexcept { ++answered; }))
        break;
    node.turn();
  }
  node.scheduler.resume();
  node.run_until([&] { return finished == count; });
  constexpr double mebibyte = 1 << 20;
  out.add_value("memory with large payloads", (memory_of("VmHWM:") - before) / mebibyte, "MiB", limit / mebibyte,
                count);
  node.scheduler.close();
}

}  // namespace

void measure_bulk(const bench_options& o, team& nodes, bench_node& node, figure_table& out) {
  constexpr std::size_t rate = 500;
  auto alone = lateness_of(nodes, node, rate, o.lateness_time);
  // Each answer asks for the next task, so 8,000 are in flight until all are scheduled, or until the starts are over.
  const std::uint64_t first = new_numbers(o.pending);
  std::size_t asked = 0;
  std::size_t in_flight = 0;
  bool is_over = false;
  const auto ask = [&](const auto& self) -> void {
    if (is_over || asked == o.pending) return;
    const auto next = [&, self](durable::schedule_result) noexcept {
      --in_flight;
      self(self);
    };
    if (node.scheduler.schedule({id_of(first + asked), far_away, payload, {}}, next) != 0) return;
    ++asked;
    ++in_flight;
  };
  for (int i = 0; i != 8000; ++i) ask(ask);
  const auto began = std::chrono::steady_clock::now();
  auto beside = lateness_of(nodes, node, rate, o.lateness_time);
  const double took = seconds(std::chrono::steady_clock::now() - began);
  const std::size_t scheduled = asked - in_flight;
  is_over = true;
  node.run_until([&] { return in_flight == 0; });
  if (!nodes.is_first()) return;
  out.add_times("lateness without bulk", alone);
  out.add_times("lateness beside bulk", beside);
  out.add_rate("bulk beside starts", {static_cast<double>(scheduled) / took});
  out.add_value("bulk, p99", seconds(p99_of(beside)) / seconds(p99_of(alone)), "times", 3);
}

void measure_memory(const bench_options& o, const store_subject& subject, figure_table& out) {
  measure_loaded(o, subject, out);
  measure_running(o, subject, out);
}

}  // namespace tickwheel::bench
