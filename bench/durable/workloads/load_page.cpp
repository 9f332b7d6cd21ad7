#include "../subjects/pipeline.hpp"
#include "cluster.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::bench {

namespace {

struct place {
  std::int64_t at = 0;
  std::string id;
};

pg::parameters page_behind(const std::vector<place>& low, std::size_t rows) {
  pg::parameters::array parts{pg::element_type::smallint, low.size()}, times{pg::element_type::bigint, low.size()};
  pg::parameters::array ids{pg::element_type::text, low.size()};
  for (std::size_t i = 0; i != low.size(); ++i) {
    parts.add_smallint(static_cast<std::int16_t>(i));
    times.add(low[i].at);
    ids.add(low[i].id);
  }
  constexpr std::int64_t window = 2'000'000'000;
  pg::parameters values;
  values.add(std::move(parts)).add(std::move(times)).add(std::move(ids));
  values.add(window).add(static_cast<std::int64_t>(rows));
  return values;
}

}  // namespace

void measure_load_page(const postgres_server& server, std::size_t count, figure_table& out) {
  constexpr std::size_t pages = 500;
  constexpr std::size_t rows_of_a_page = 1000;  // as the scheduler asks for
  durable::postgres_options options = postgres_server::options();
  options.schema = "load_page";
  const sql_connection database{server.conninfo()};
  database.run(pg::make_script(options, false, 0));
  database.run(
      "set search_path = load_page; insert into tasks(id, part, at, due, period, rev, payload) select md5(i::text), "
      "partition_of(md5(i::text)), t, t, 0, nextval('revisions'), repeat('p', 100)::bytea from generate_series(1, " +
      std::to_string(count) + ") i, (select now_ns() as t) n");

  pipeline clock{server.conninfo(), options, pg::link_role::clock};
  std::vector<place> low(options.partitions);
  std::vector<std::chrono::nanoseconds> times;
  for (std::size_t page = 0; page != pages; ++page) {
    const auto values = page_behind(low, std::max<std::size_t>(rows_of_a_page / low.size(), 16));
    const auto before = std::chrono::steady_clock::now();
    clock.send(pg::statement::load, values);
    const pg::result answered = clock.take();
    const pg::rows found{answered};
    if (found.size() == 0) break;
    times.push_back(std::chrono::steady_clock::now() - before);
    for (int r = 0; r != found.size(); ++r)
      low[static_cast<std::size_t>(found.integer(r, 0) - 1)] = {found.integer(r, 3), std::string{found.bytes(r, 1)}};
  }
  out.add_times("load page", std::move(times));
  database.run("drop schema load_page cascade");
}

}  // namespace tickwheel::bench
