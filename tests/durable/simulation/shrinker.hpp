// Takes events out of a failing scenario as long as it breaks the same promise (delta debugging).
#pragma once

#include "scenario.hpp"
#include "world.hpp"

#include <cstddef>

namespace simulation {

struct shrunk {
  scenario what;
  result how;
  std::size_t runs = 0;
};

/// Requires: `failed` is the result of `run(s)`, and something is broken. Ends when no event can be taken out alone, or after
/// 3,000 runs.
shrunk shrink(const scenario& s, const result& failed);

}  // namespace simulation
