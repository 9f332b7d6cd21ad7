#include "rates.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tickwheel::bench {

namespace {

using std::chrono::nanoseconds;

struct workload {
  const char* name;
  std::function<void(raw_store&)> prepare_raw;
  std::function<void(raw_store&)> raw;
  std::function<void()> prepare;  // by all processes
  std::function<void()> ours;
  std::vector<double> raw_rates;
  std::vector<double> rates;
};

}  // namespace

void measure_rates(const bench_options& o, team& nodes, bench_node& node, raw_store* raw, figure_table& out) {
  const std::size_t each = std::max<std::size_t>(o.operations / o.rounds, nodes.size());
  const std::size_t share = nodes.share_of(each);
  std::uint64_t raw_waiting = 0, waiting = 0, raw_due = 0, due = 0;
  const auto nothing = [] {};
  const auto nothing_raw = [](raw_store&) {};
  std::array<workload, 3> workloads{{{"schedule",
                                      nothing_raw,
                                      [&](raw_store& r) { r.schedule(raw_waiting, each, far_away); },
                                      nothing,
                                      [&] { node.schedule(waiting + nodes.first_of(each), share, far_away); },
                                      {},
                                      {}},
                                     {"cancel",
                                      nothing_raw,
                                      [&](raw_store& r) { r.cancel(raw_waiting, each); },
                                      nothing,
                                      [&] { node.cancel(waiting + nodes.first_of(each), share); },
                                      {},
                                      {}},
                                     {"start+finish",
                                      [&](raw_store& r) { r.schedule_due(raw_due, each); },
                                      [](raw_store& r) { r.start_and_finish(); },
                                      [&] {
                                        nodes.shared().counted = 0;
                                        node.schedule(due + nodes.first_of(each), share, durable::clock::now());
                                      },
                                      [&] {
                                        node.on_start = [&](durable::execution run) {
                                          run.done([&](durable::finish_result) noexcept { ++nodes.shared().counted; });
                                        };
                                        node.scheduler.resume();
                                        nodes.wait_until(node, [&] { return nodes.shared().counted == each; });
                                        node.scheduler.pause();
                                        node.on_start = nullptr;
                                      },
                                      {},
                                      {}}}};

  node.scheduler.pause();
  for (std::size_t round = 0; round != o.rounds; ++round) {
    raw_waiting = new_numbers(each);
    waiting = new_numbers(each);
    raw_due = new_numbers(each);
    due = new_numbers(each);
    for (workload& w : workloads) {
      nodes.meet(node);
      if (raw != nullptr) {
        w.prepare_raw(*raw);
        const auto before = std::chrono::steady_clock::now();
        w.raw(*raw);
        w.raw_rates.push_back(static_cast<double>(each) / seconds(std::chrono::steady_clock::now() - before));
      }
      nodes.meet(node);
      w.prepare();
      const nanoseconds took = nodes.run(node, w.ours);
      w.rates.push_back(static_cast<double>(each) / seconds(took));
    }
  }
  node.scheduler.resume();
  if (!nodes.is_first()) return;
  for (const workload& w : workloads) {
    out.add_rate(std::string{"raw "} + w.name, w.raw_rates);
    out.add_rate(w.name, w.rates);
    out.add_ratio(w.name, w.rates, w.raw_rates);
  }
}

}  // namespace tickwheel::bench
