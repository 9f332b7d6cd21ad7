// Answers the questions of sizing: what a large cluster asks of its store, how even the shares are, and how long a takeover
// takes.
//
// The nodes are schedulers as in the other simulations, and the store has the partitions, sessions and rows of a memory_database.
// Of the pending tasks it has only those that are due soon: a verb never reads another. The rest is a count. Due times are spread
// evenly.
#pragma once

#include "units.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace simulation {

struct sizing_options {
  unsigned nodes = 100;
  std::uint64_t tasks = 100'000'000;  ///< pending
  nanos horizon = 86'400 * second;    ///< in which they are due
};

/// Simulates leases of 1 s and 10 s with 64 and 1,024 partitions. Returns the tables in Markdown. Takes some minutes.
std::string size_cluster(const sizing_options&);

}  // namespace simulation
