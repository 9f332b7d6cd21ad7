#include "../support/bench_node.hpp"
#include "cluster.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tickwheel::bench {

void measure_renewals(const postgres_server& server, std::size_t running, figure_table& out) {
  using std::chrono::nanoseconds;
  constexpr int quarters = 8;
  durable::scheduler_options options;
  options.max_running = running;
  bench_node node{server.make_store(), options};
  node.open();
  std::vector<durable::execution> held;
  node.on_start = [&](durable::execution run) { held.push_back(std::move(run)); };
  node.schedule(new_numbers(running), running, durable::clock::now());
  node.run_until([&] { return held.size() == running; });

  const sql_connection database{server.conninfo()};
  const std::string first = database.run("select txid_current()");
  const std::int64_t beats = database.integer("select sum(beat) from tickwheel.nodes");
  node.run_for(quarters * node.options.lease / 4);
  std::int64_t rows = database.integer("select sum(beat) from tickwheel.nodes") - beats;
  for (const char* const table : {"tasks", "parts", "links"})
    rows += database.integer(std::string{"select count(*) from tickwheel."} + table +
                             " where xmin::text::bigint >= " + first);
  out.add_value("renewals, " + std::to_string(running) + " running", static_cast<double>(rows) / quarters,
                "rows per quarter of a lease", 1);
  held.clear();  // answers them
  node.run_until([&] { return node.scheduler.stats().running == 0; });
}

}  // namespace tickwheel::bench
