// The workloads schedule, cancel and start+finish, beside the same writes without a scheduler.
#pragma once

#include "../subjects/raw_store.hpp"
#include "../support/bench_options.hpp"
#include "../support/figure_table.hpp"
#include "../support/team.hpp"

namespace tickwheel::bench {

/// Measures each workload in rounds: first the ceiling, and then the scheduler. `raw` is null in all processes but the first.
void measure_rates(const bench_options&, team&, bench_node&, raw_store* raw, figure_table&);

}  // namespace tickwheel::bench
