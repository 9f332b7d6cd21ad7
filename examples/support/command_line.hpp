// Options of the example programs: CLI11, durations such as "2s", and errors that are one line on stderr.
#pragma once

#include "plain_duration.hpp"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

/// The exit code of a program that was asked for something impossible.
inline constexpr int exit_bad_usage = 2;

/// Reads "250ms", "2s", "5m", "1h" or "7d". A number without a unit counts in `unit_of_plain`. Returns no value for other text, or for
/// more than a year, which is rather a typing error than a timeout.
inline std::optional<std::chrono::milliseconds> parse_duration(std::string_view text,
                                                               std::chrono::milliseconds unit_of_plain) {
  using namespace std::chrono_literals;
  std::chrono::milliseconds duration{};
  if (read_plain_duration(text, 365 * 24h, unit_of_plain, duration) != plain_duration_mistake::none)
    return std::nullopt;
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

/// Parses the command line. Returns the exit code if the program must not go on. An error is one line: CLI11 would print the pages of
/// --help below it, and nobody would see it.
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
