// The wall clock of the child, which the parent sets. It replaces clock_gettime of the whole program.
#pragma once

#include <cstdint>

namespace crash {

/// Returns what the wall clock shows, in nanoseconds since 1970.
std::int64_t wall_now() noexcept;

/// The times that other threads may have seen while the wall clock was set.
struct clock_step {
  std::int64_t latest_before = 0;   ///< no clock has shown a later time before the step
  std::int64_t earliest_after = 0;  ///< no clock has shown an earlier time after it
};

/// Lets the wall clock run `ahead` nanoseconds ahead of the true one.
clock_step set_wall_clock(std::int64_t ahead) noexcept;

}  // namespace crash
