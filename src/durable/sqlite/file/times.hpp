// Times as the database has them: nanoseconds since 1970.
#pragma once

#include <tickwheel/durable/task.hpp>

#include <chrono>
#include <cstdint>
#include <limits>

namespace tickwheel::durable::sqlite {

using nanoseconds = std::int64_t;

/// The time of a task that does not start: it is dead or has ended.
inline constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();

inline nanoseconds to_database(clock::time_point t) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}
inline clock::time_point from_database(nanoseconds t) noexcept {
  return t == never ? clock::time_point::max()
                    : clock::time_point{std::chrono::duration_cast<clock::duration>(std::chrono::nanoseconds{t})};
}

/// Returns the sum of two numbers that are not negative, at most one less than `never`.
inline nanoseconds add(nanoseconds a, nanoseconds b) noexcept { return a >= never - b ? never - 1 : a + b; }

/// The first time that is not one of a task: 2200-01-01.
inline constexpr nanoseconds end_of_range =
    std::chrono::nanoseconds{std::chrono::sys_days{std::chrono::year{2200} / 1 / 1}.time_since_epoch()}.count();

/// Returns the first time of the period that is after `now` and after `due`. `never`: it is beyond the range of tasks.
inline nanoseconds next_period(nanoseconds due, nanoseconds period, nanoseconds now) noexcept {
  const nanoseconds current = now > due ? now - (now - due) % period : due;
  const nanoseconds next = add(current, period);
  return next < end_of_range ? next : never;
}

}  // namespace tickwheel::durable::sqlite
