// The times of the API as text: moments by RFC 3339, durations by ISO 8601 or as "30m".
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace timer_server {

using moment = std::chrono::sys_time<std::chrono::nanoseconds>;

/// The earliest and the latest moment that can be read, and the longest duration.
inline constexpr moment earliest_moment = moment{};
inline constexpr moment latest_moment = std::chrono::sys_days{std::chrono::year{2200} / 1 / 1};
inline constexpr std::chrono::nanoseconds longest_duration = std::chrono::days{36'500};

/// Reads a date and time with an offset from UTC, such as "2030-01-31T09:30:00Z" or "2030-01-31T10:30:00.25+01:00". Digits below a
/// nanosecond round up, so that nothing is early. Returns null, or a message that says why `text` is no moment; then `into` stays.
const char* read_moment(std::string_view text, moment& into) noexcept;

/// Reads a duration: "PT30M", "P1DT12H", "PT0.5S" or "P2W"; or one number with a unit, "500ms", "30s", "30m", "12h" or "7d". A day has
/// 24 hours. Years and months are refused, because their lengths differ. Digits below a nanosecond round up. Returns as above.
const char* read_duration(std::string_view text, std::chrono::nanoseconds& into) noexcept;

/// Writes a moment in UTC, with as many digits below a second as it needs. The moment is after `earliest_moment`.
std::string write_moment(moment);

/// Writes a duration that is not negative by ISO 8601, such as "PT30M". Zero is "PT0S".
std::string write_duration(std::chrono::nanoseconds);

}  // namespace timer_server
