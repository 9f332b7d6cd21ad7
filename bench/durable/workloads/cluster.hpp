// The workloads that only a store of several nodes has: they share partitions, renew their sessions, and take over.
#pragma once

#include "../subjects/postgres_server.hpp"
#include "../support/figure_table.hpp"

#include <chrono>
#include <cstddef>

namespace tickwheel::bench {

/// A second node joins: the time until each has from 40 to 60 % of the partitions.
void measure_shares(const postgres_server&, figure_table&);

/// The rows that a node with `running` executions writes, per quarter of its lease.
void measure_renewals(const postgres_server&, std::size_t running, figure_table&);

/// A node of two is killed while tasks become due: the longest time from then, or from the due time, to a start. The worst of
/// `times` runs.
void measure_takeover(const postgres_server&, std::chrono::seconds lease, std::size_t times, figure_table&);

/// `load` of a page of all partitions, while `count` tasks are due at one moment.
void measure_load_page(const postgres_server&, std::size_t count, figure_table&);

}  // namespace tickwheel::bench
