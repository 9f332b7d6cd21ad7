// Times as the database has them: nanoseconds since 1970.
#pragma once

#include <tickwheel/durable/task.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace tickwheel::durable::postgres {

/// The time of a dead task, which does not start.
inline constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

inline std::int64_t to_database(clock::time_point t) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}
inline clock::time_point from_database(std::int64_t t) noexcept {
  return t == never ? clock::time_point::max()
                    : clock::time_point{std::chrono::duration_cast<clock::duration>(std::chrono::nanoseconds{t})};
}

/// Returns a duration that the server can add to its clock: not negative, and at most a hundred years.
inline std::int64_t span_of(std::chrono::nanoseconds t) noexcept {
  constexpr std::chrono::nanoseconds longest = std::chrono::hours{24 * 365 * 100};
  return std::clamp(t, std::chrono::nanoseconds::zero(), longest).count();
}

}  // namespace tickwheel::durable::postgres
