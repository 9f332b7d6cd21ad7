// The wall clock of the child, which the parent sets. It replaces clock_gettime of the whole program.
#pragma once

#include <cstdint>

namespace crash {

/// Returns what the wall clock shows, in nanoseconds since 1970.
std::int64_t wall_now() noexcept;

/// Lets the wall clock run `ahead` nanoseconds ahead of the true one. Returns the largest time that it has shown before.
std::int64_t set_wall_clock(std::int64_t ahead) noexcept;

}  // namespace crash
