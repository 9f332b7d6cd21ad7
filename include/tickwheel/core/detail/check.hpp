// Checked preconditions: cheap ones are always on, and name what was violated before the process stops.
//
// A timer that is misused (armed from a foreign thread, destroyed while armed) has already broken a promise to some
// peer; going on would only move the failure away from its cause. So a violated precondition prints one line and
// aborts.
#pragma once

#include <tickwheel/core/export.h>

namespace tickwheel::detail {

/// Prints "tickwheel: <violated>" to stderr and aborts.
[[noreturn]] TICKWHEEL_API void fail(const char* violated) noexcept;

/// Stops the process with `violated` unless `holds`.
inline void require(bool holds, const char* violated) noexcept {
  if (!holds) [[unlikely]]
    fail(violated);
}

}  // namespace tickwheel::detail
