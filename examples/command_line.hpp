// Options of the example programs: CLI11, durations such as "2s", and errors that are one line on stderr.
#pragma once

#include <CLI/CLI.hpp>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

/// What the programs end with when they were asked for something that cannot be done.
inline constexpr int exit_bad_usage = 2;

/// "250ms", "2s", "5m" or "1h"; a number alone counts in `unit_of_plain`. Nothing when it is not that, is negative, or
/// is more than a year, which is a slip of the finger rather than a timeout.
inline std::optional<std::chrono::milliseconds> parse_duration(std::string_view text,
                                                               std::chrono::milliseconds unit_of_plain) {
  using namespace std::chrono_literals;
  std::uint32_t count = 0;  // times an hour fits into 64 bits of milliseconds
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  std::chrono::milliseconds one{};
  if (unit.empty())
    one = unit_of_plain;
  else if (unit == "ms")
    one = 1ms;
  else if (unit == "s")
    one = 1s;
  else if (unit == "m")
    one = 1min;
  else if (unit == "h")
    one = 1h;
  else
    return std::nullopt;
  const auto duration = count * one;
  if (duration > 365 * 24h) return std::nullopt;
  return duration;
}

/// A duration option. `least` is the shortest that makes sense.
inline CLI::Option* add_duration(CLI::App& app, const std::string& name, std::chrono::milliseconds& value,
                                 std::chrono::milliseconds unit_of_plain, std::chrono::milliseconds least,
                                 const std::string& help) {
  const auto parse = [=, &value](const std::string& text) {
    const auto parsed = parse_duration(text, unit_of_plain);
    if (!parsed || *parsed < least)
      throw CLI::ValidationError(name, "'" + text + "' is not a duration from " + std::to_string(least.count()) +
                                           "ms to a year, such as 500ms, 2s or 1m");
    value = *parsed;
  };
  return app.add_option_function<std::string>(name, parse, help)->type_name("DURATION");
}

/// Parses the command line; what to exit with if the program is not to go on. An error is one line: the pages of
/// --help below it, as CLI11 would print them, bury what was wrong.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
    return exit_bad_usage;
  }
}
