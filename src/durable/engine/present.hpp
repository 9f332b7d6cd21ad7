// The time of a service that may have been closed: answers of the store may come after that.
#pragma once

#include <tickwheel/uv/timer_service.hpp>

namespace tickwheel::durable::detail {

/// Reads the clock. Of a closed service it is the last time.
inline tickwheel::clock::time_point present(const timer_service& timers) noexcept {
  return timers.is_open() ? timers.read_clock() : timers.now();
}

}  // namespace tickwheel::durable::detail
