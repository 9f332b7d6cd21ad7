// Checked preconditions. Cheap checks are always on. They print the violated precondition and stop the process.
//
// A misused timer, for instance one that was armed from another thread, has already broken a promise to some peer.
// Going on would only move the failure away from its cause.
#pragma once

#include <tickwheel/core/export.h>

namespace tickwheel::detail {

/// Prints "tickwheel: <violated>" to stderr and aborts.
[[noreturn]] TICKWHEEL_API void fail(const char* violated) noexcept;

/// Stops the process with `violated` unless `holds` is true.
inline void require(bool holds, const char* violated) noexcept {
  if (!holds) [[unlikely]]
    fail(violated);
}

}  // namespace tickwheel::detail
