#include "lateness.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr nanoseconds ahead = 2s;
constexpr nanoseconds tick = 10ms;

durable::clock::time_point at(std::int64_t wall) {
  return durable::clock::time_point{std::chrono::duration_cast<durable::clock::duration>(nanoseconds{wall})};
}

}  // namespace

std::vector<nanoseconds> lateness_of(team& nodes, bench_node& node, std::size_t per_second, nanoseconds time,
                                     nanoseconds settling) {
  const auto count = static_cast<std::size_t>(static_cast<double>(per_second) * seconds(time));
  const std::uint64_t numbers = new_numbers(count);
  team_memory& shared = nodes.shared();
  std::vector<nanoseconds> late;
  durable::clock::time_point measured_from;
  node.on_start = [&](durable::execution run) {
    const auto due = run.due();
    if (due >= measured_from) late.push_back(durable::clock::now() - due);
    run.done([&](durable::finish_result) noexcept { ++shared.counted; });
  };
  nodes.meet(node);
  if (nodes.is_first()) {
    shared.counted = 0;
    shared.moment = std::chrono::nanoseconds{(durable::clock::now() + ahead + tick).time_since_epoch()}.count();
  }
  nodes.meet(node);
  measured_from = at(shared.moment) + std::chrono::duration_cast<durable::clock::duration>(settling);

  // Each process schedules every n-th task.
  std::size_t next = nodes.rank();
  const auto due_of = [&](std::size_t i) {
    return at(shared.moment +
              static_cast<std::int64_t>(1e9 * static_cast<double>(i) / static_cast<double>(per_second)));
  };
  callback_timer schedule_some{
      node.loop.timers(), [&](timer& self) noexcept {
        for (; next < count && due_of(next) - durable::clock::now() <= ahead; next += nodes.size()) {
          const auto answered = [](durable::schedule_result r) noexcept {
            if (r != durable::schedule_result::scheduled) fail("lateness: a task is not scheduled");
          };
          // a full queue: the rest are late, and count as that
          if (node.scheduler.schedule({id_of(numbers + next), due_of(next), payload, {}}, answered) != 0) break;
        }
        if (next < count) (void)self.arm(tick);
      }};
  (void)schedule_some.arm(1ms);
  nodes.wait_until(node, [&] { return shared.counted == count; });
  nodes.meet(node);
  node.on_start = nullptr;
  return nodes.gather(node, late);
}

void measure_snapshot(const bench_options& o, team& nodes, bench_node& node, const store_subject& subject,
                      figure_table& out) {
  constexpr std::size_t rate = 2500;
  std::vector<nanoseconds> without = lateness_of(nodes, node, rate, o.lateness_time);
  const std::shared_ptr<void> snapshot = nodes.is_first() ? subject.hold_snapshot() : nullptr;
  std::vector<nanoseconds> with = lateness_of(nodes, node, rate, o.snapshot_time + o.lateness_time, o.snapshot_time);
  if (!nodes.is_first()) return;
  out.add_times("lateness without snapshot", without);
  out.add_times("lateness with snapshot", with);
  std::sort(without.begin(), without.end());
  std::sort(with.begin(), with.end());
  const auto p99 = [](const std::vector<nanoseconds>& of) { return seconds(of[of.size() * 99 / 100]); };
  out.add_value("snapshot, p99", p99(with) / p99(without), "times", 2);
}

void measure_one_tick(const bench_options& o, team& nodes, bench_node& node, figure_table& out) {
  const std::size_t count = o.operations;
  const std::uint64_t numbers = new_numbers(count);
  team_memory& shared = nodes.shared();
  nodes.meet(node);
  if (nodes.is_first()) {
    shared.counted = 0;
    const auto due = durable::clock::now() + std::chrono::milliseconds{1000 + count / 20};
    shared.moment = std::chrono::nanoseconds{due.time_since_epoch()}.count();
  }
  nodes.meet(node);
  nanoseconds longest{};
  const std::int64_t left = shared.moment - nanoseconds{durable::clock::now().time_since_epoch()}.count();
  std::int64_t last = team::now() + left;  // when the tasks are due
  node.on_start = [&](durable::execution run) {
    run.done([&](durable::finish_result) noexcept {
      const std::int64_t now = team::now();
      longest = std::max(longest, nanoseconds{now - last});
      last = now;
      ++shared.counted;
    });
  };
  node.schedule(numbers + nodes.first_of(count), nodes.share_of(count), at(shared.moment));
  nodes.wait_until(node, [&] { return shared.counted == count; });
  const auto all = nodes.gather(node, {longest});
  node.on_start = nullptr;
  if (nodes.is_first()) out.add_times("one tick", 0ns, 0ns, *std::max_element(all.begin(), all.end()));
}

}  // namespace tickwheel::bench
