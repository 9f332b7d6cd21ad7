// Options of the example programs: CLI11, durations such as "2s", and errors that are one line on stderr.
#pragma once

#include "plain_duration.hpp"

#include <CLI/CLI.hpp>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

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

/// A check that an option is a number from `least` to `most`. CLI::Range lets nan through.
inline CLI::Validator number_range(double least, double most) {
  std::ostringstream range;
  range << least << " to " << most;
  const auto check = [least, most, range = range.str()](const std::string& text) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    const bool is_right = error == std::errc{} && rest == end && number >= least && number <= most;
    return is_right ? std::string{} : "'" + text + "' is not a number from " + range;
  };
  return {check, "FLOAT in [" + range.str() + "]"};
}

/// A check that an option is a whole number of 64 bits. CLI11 wraps a negative one, and cuts one that is too large.
inline CLI::Validator whole_number() {
  const auto check = [](const std::string& text) {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    const bool is_right = error == std::errc{} && rest == end;
    return is_right ? std::string{} : "'" + text + "' is not a whole number from 0 to 18446744073709551615";
  };
  return {check, "UINT"};
}

/// A check that an option names something: an empty text must not count as an option that was left out.
inline CLI::Validator not_empty() {
  const auto check = [](const std::string& text) {
    return text.empty() ? std::string{"it is empty; leave the option out, or name a file"} : std::string{};
  };
  return {check, ""};
}

/// Parses the command line. Returns the exit code if the program must not go on. An error is one line: CLI11 would print the pages of
/// --help below it, and nobody would see it.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    const bool is_answer = error.get_exit_code() == 0;  // --help or --version
    if (is_answer && (app.exit(error), std::cout.flush())) return 0;
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), is_answer ? "cannot write to stdout" : error.what());
    return exit_bad_usage;
  }
}
