// Durations as people write them: a number and its unit, such as "500ms" or "30m".
#pragma once

#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

enum class plain_duration_mistake : std::uint8_t {
  none,
  no_duration,  // something other than a number and a unit
  no_unit,
  too_long,
};

/// Reads "500ms", "30s", "30m", "12h" or "7d". A number without a unit counts in `unit_of_plain`, or is a mistake if that has no
/// value. After a mistake `into` stays.
inline plain_duration_mistake read_plain_duration(std::string_view text, std::chrono::milliseconds longest,
                                                  std::optional<std::chrono::milliseconds> unit_of_plain,
                                                  std::chrono::milliseconds& into) noexcept {
  using namespace std::chrono_literals;
  std::uint64_t count = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc::result_out_of_range) return plain_duration_mistake::too_long;
  if (error != std::errc{}) return plain_duration_mistake::no_duration;
  const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  std::chrono::milliseconds one{};
  if (unit.empty() && unit_of_plain)
    one = *unit_of_plain;
  else if (unit.empty())
    return plain_duration_mistake::no_unit;
  else if (unit == "ms")
    one = 1ms;
  else if (unit == "s")
    one = 1s;
  else if (unit == "m")
    one = 1min;
  else if (unit == "h")
    one = 1h;
  else if (unit == "d")
    one = 24h;
  else
    return plain_duration_mistake::no_duration;
  if (count > static_cast<std::uint64_t>(longest / one)) return plain_duration_mistake::too_long;
  into = static_cast<std::chrono::milliseconds::rep>(count) * one;
  return plain_duration_mistake::none;
}
