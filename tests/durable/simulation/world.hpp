// A run of a scenario: nodes and a store on clocks of their own, and the network between them. The same scenario gives the same
// run.
//
// The world writes the journal of the run, and the judge of the crash harness reads it. The world itself judges what no
// journal of requests shows: which node may be buried and which must be, which may begin a task, and who owns the partitions
// in the end.
#pragma once

#include "scenario.hpp"

#include <cstddef>
#include <string>

namespace simulation {

struct result {
  /// What is broken, with the lines of the journal; empty: nothing. Begins with the promise, such as "D5".
  std::string broken;
  std::string journal;
  nanos simulated = 0;
  std::size_t starts = 0;
  std::size_t tasks = 0;
  std::size_t burials = 0;
  std::size_t late_starts = 0;  ///< handlers that were entered after their session was buried
};

result run(const scenario&);

}  // namespace simulation
