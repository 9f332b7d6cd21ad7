// Times of the simulation are nanoseconds since its begin; those of the store's clock are since 1970.
#pragma once

#include <tickwheel/durable/task.hpp>

#include <chrono>
#include <cstdint>
#include <limits>

namespace simulation {

using nanos = std::int64_t;

inline constexpr nanos us = 1'000;
inline constexpr nanos ms = 1'000 * us;
inline constexpr nanos second = 1'000 * ms;
inline constexpr nanos never = std::numeric_limits<nanos>::max();

inline nanos count(tickwheel::durable::clock::time_point t) {
  return std::chrono::nanoseconds{t.time_since_epoch()}.count();
}
inline tickwheel::durable::clock::time_point wall_time(nanos n) {
  return tickwheel::durable::clock::time_point{
      std::chrono::duration_cast<tickwheel::durable::clock::duration>(std::chrono::nanoseconds{n})};
}

}  // namespace simulation
