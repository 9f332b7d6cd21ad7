// The workloads that ask what a scheduler costs its program: starts beside bulk requests, and memory.
#pragma once

#include "../subjects/store_subject.hpp"
#include "../support/bench_options.hpp"
#include "../support/figure_table.hpp"
#include "../support/team.hpp"

namespace tickwheel::bench {

/// Measures lateness at 500 starts per second: first without other work, then while `o.pending` tasks are scheduled as fast as they are accepted.
void measure_bulk(const bench_options& o, team&, bench_node&, figure_table&);

/// Measures the memory of this process: for each of `o.pending` loaded tasks, and while `o.operations` tasks with payloads of
/// 64 KiB run that were due at one moment.
void measure_memory(const bench_options& o, const store_subject&, figure_table&);

}  // namespace tickwheel::bench
