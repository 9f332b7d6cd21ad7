// The workloads that are about time: starts at a steady rate, and all tasks in one tick.
#pragma once

#include "../subjects/store_subject.hpp"
#include "../support/bench_options.hpp"
#include "../support/figure_table.hpp"
#include "../support/team.hpp"

#include <chrono>
#include <cstddef>
#include <vector>

namespace tickwheel::bench {

/// Starts `per_second` tasks for `time`, each scheduled two seconds ahead. Returns the times from due to the handler: of all
/// processes, and without the tasks due in the first `settling`.
std::vector<std::chrono::nanoseconds> lateness_of(team&, bench_node&, std::size_t per_second,
                                                  std::chrono::nanoseconds time,
                                                  std::chrono::nanoseconds settling = {});

/// Measures lateness at 2,500 starts per second before and while a snapshot is open. `o.snapshot_time`: how long it has been open
/// when the second measurement begins.
void measure_snapshot(const bench_options& o, team&, bench_node&, const store_subject&, figure_table&);

/// Measures the longest time without a confirmed finish, from the moment on at which all tasks are due.
void measure_one_tick(const bench_options&, team&, bench_node&, figure_table&);

}  // namespace tickwheel::bench
