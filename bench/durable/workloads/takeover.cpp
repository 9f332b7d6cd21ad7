#include "../support/team.hpp"
#include "cluster.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

namespace tickwheel::bench {

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr nanoseconds patience = 60s;

std::int64_t wall() { return nanoseconds{durable::clock::now().time_since_epoch()}.count(); }

// Waits until each of two nodes has from 40 to 60 % of the partitions.
void wait_for_shares(team& nodes, bench_node& node) {
  const std::size_t all = postgres_server::options().partitions;
  const std::int64_t give_up_at = team::now() + patience.count();
  nodes.wait_until(node, [&] {
    auto& owned = nodes.shared().sampled;
    owned[nodes.rank()] = node.scheduler.stats().partitions;
    if (team::now() > give_up_at) fail("two nodes do not share the partitions");
    return std::all_of(owned.begin(), owned.begin() + 2,
                       [=](const auto& n) { return n * 10 >= all * 4 && n * 10 <= all * 6; });
  });
}

nanoseconds take_over(const postgres_server& server, nanoseconds lease) {
  constexpr std::int64_t interval = nanoseconds{2ms}.count();
  constexpr nanoseconds before = 3s, after = 3s;
  constexpr std::size_t most_held = 64;
  team nodes{2};
  durable::scheduler_options options;
  options.lease = lease;
  bench_node node{server.make_store(), options};
  node.open();
  nodes.meet(node);
  wait_for_shares(nodes, node);
  nodes.meet(node);
  team_memory& shared = nodes.shared();
  if (nodes.is_first()) shared.moment = wall() + nanoseconds{before}.count();
  nodes.meet(node);
  std::int64_t killed_at = shared.moment;

  if (!nodes.is_first()) {
    // some of its tasks run when it dies
    std::vector<durable::execution> held;
    node.on_start = [&](durable::execution run) {
      if (wall() > killed_at - nanoseconds{1s}.count() && held.size() != most_held)
        held.push_back(std::move(run));
      else
        run.done();
    };
    node.wait_until([&] { return wall() >= killed_at; });
    shared.moment = wall();
    ::kill(::getpid(), SIGKILL);
  }

  nanoseconds longest{};
  node.on_start = [&](durable::execution run) {
    const std::int64_t now = wall();
    if (now >= killed_at) {
      const std::int64_t due = nanoseconds{run.due().time_since_epoch()}.count();
      longest = std::max(longest, nanoseconds{now - std::max(due, shared.moment.load())});
    }
    run.done();
  };
  const auto count = static_cast<std::size_t>((before + lease + after).count() / interval);
  const std::uint64_t numbers = new_numbers(count);
  std::size_t answered = 0;
  for (std::size_t i = 0; i != count; ++i) {
    const auto due = durable::clock::time_point{std::chrono::duration_cast<durable::clock::duration>(
        nanoseconds{killed_at} - before + nanoseconds{interval * static_cast<std::int64_t>(i)})};
    if (node.scheduler.schedule({id_of(numbers + i), due, payload, {}},
                                [&](durable::schedule_result) noexcept { ++answered; }) != 0)
      fail("takeover: a task is not accepted");
  }
  node.run_until([&] { return answered == count; });
  node.wait_until([&] { return wall() >= killed_at + (lease + after).count(); });
  const sql_connection database{server.conninfo()};
  const std::int64_t give_up_at = team::now() + patience.count();
  while (database.integer("select count(*) from tickwheel.tasks where gone is null and state < 2 and at <= "
                          "tickwheel.now_ns()") != 0) {
    if (team::now() > give_up_at) fail("takeover: tasks of the dead node do not start");
    node.run_for(50ms);
  }
  return longest;
}

}  // namespace

void measure_shares(const postgres_server& server, figure_table& out) {
  team nodes{2};
  bench_node node{server.make_store()};
  if (nodes.is_first()) node.open();
  nodes.meet(node);
  nodes.meet(node);
  if (!nodes.is_first()) {
    node.open();
    nodes.shared().moment = team::now();
  }
  wait_for_shares(nodes, node);
  const nanoseconds took{team::now() - nodes.shared().moment};
  nodes.meet(node);
  if (!nodes.is_first()) return;
  out.add_value("shares of two nodes", seconds(took), "s", seconds(node.options.lease / 2));
}

void measure_takeover(const postgres_server& server, std::chrono::seconds lease, std::size_t times, figure_table& out) {
  const nanoseconds poll = durable::scheduler_options{}.poll;
  nanoseconds longest{};
  for (std::size_t i = 0; i != times; ++i) longest = std::max(longest, take_over(server, lease));
  out.add_value("takeover, lease " + std::to_string(lease.count()) + " s", seconds(longest), "s",
                seconds(lease + 2 * poll + 500ms));
}

}  // namespace tickwheel::bench
