// The peers that users know: programs in JavaScript, run by node.
#pragma once

#include "../subjects/postgres_server.hpp"
#include "../support/bench_options.hpp"
#include "../support/figure_table.hpp"

namespace tickwheel::bench {

/// Runs each peer with each of its settings, one after the other, and adds its rows. Adds a note for each that cannot run.
void measure_peers(const bench_options&, const postgres_server&, figure_table&);

}  // namespace tickwheel::bench
