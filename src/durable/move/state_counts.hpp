// How many tasks there are in each state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace tickwheel::durable::move {

inline constexpr std::array state_names{"pending", "running", "dead", "finished", "cancelled"};

/// Counts by `task_state`.
using state_counts = std::array<std::int64_t, state_names.size()>;

inline std::int64_t sum_of(const state_counts& of) noexcept {
  return std::accumulate(of.begin(), of.end(), std::int64_t{0});
}

}  // namespace tickwheel::durable::move
