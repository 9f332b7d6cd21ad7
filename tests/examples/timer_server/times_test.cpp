// Moments and durations of the timer server's API, both ways.
#include "timer_server/text/times.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::sys_days;
using namespace timer_server;

namespace {

constexpr moment at(int year, unsigned month, unsigned day, nanoseconds time = {}) {
  return sys_days{std::chrono::year{year} / static_cast<int>(month) / static_cast<int>(day)} + time;
}

/// The moment that `text` is; `earliest_moment` if it is none.
moment moment_of(std::string_view text) {
  moment read = earliest_moment;
  const char* const problem = read_moment(text, read);
  EXPECT_EQ(problem, nullptr) << text << ": " << problem;
  return read;
}

std::string problem_of_moment(std::string_view text) {
  moment read = latest_moment;
  const char* const problem = read_moment(text, read);
  EXPECT_EQ(read == latest_moment, problem != nullptr) << text;
  return problem == nullptr ? "" : problem;
}

nanoseconds duration_of(std::string_view text) {
  nanoseconds read{-1};
  const char* const problem = read_duration(text, read);
  EXPECT_EQ(problem, nullptr) << text << ": " << problem;
  return read;
}

std::string problem_of_duration(std::string_view text) {
  nanoseconds read{-1};
  const char* const problem = read_duration(text, read);
  EXPECT_EQ(read == nanoseconds{-1}, problem != nullptr) << text;
  return problem == nullptr ? "" : problem;
}

TEST(moment, takes_utc_and_offsets) {
  EXPECT_EQ(moment_of("2030-01-31T09:30:00Z"), at(2030, 1, 31, 9h + 30min));
  EXPECT_EQ(moment_of("2030-01-31t09:30:00z"), at(2030, 1, 31, 9h + 30min));
  EXPECT_EQ(moment_of("2030-01-31T10:30:00+01:00"), at(2030, 1, 31, 9h + 30min));
  EXPECT_EQ(moment_of("2030-01-01T00:15:00+05:45"), at(2029, 12, 31, 18h + 30min));
  EXPECT_EQ(moment_of("2029-12-31T23:00:00-02:30"), at(2030, 1, 1, 1h + 30min));
  EXPECT_EQ(moment_of("2030-01-31T09:30:00-00:00"), at(2030, 1, 31, 9h + 30min));
  EXPECT_EQ(moment_of("2028-02-29T00:00:00Z"), at(2028, 2, 29));
}

TEST(moment, fraction_rounds_up_below_a_nanosecond) {
  EXPECT_EQ(moment_of("2030-01-31T00:00:00.5Z"), at(2030, 1, 31, 500ms));
  EXPECT_EQ(moment_of("2030-01-31T00:00:00.123456789Z"), at(2030, 1, 31, 123456789ns));
  EXPECT_EQ(moment_of("2030-01-31T00:00:00.1234567890000Z"), at(2030, 1, 31, 123456789ns));
  EXPECT_EQ(moment_of("2030-01-31T00:00:00.1234567890001Z"), at(2030, 1, 31, 123456790ns));
  EXPECT_EQ(moment_of("2030-01-31T00:00:00.9999999999+00:00"), at(2030, 1, 31, 1s));
}

TEST(moment, limits_are_1970_and_2200) {
  EXPECT_EQ(moment_of("1970-01-01T00:00:00.000000001Z"), earliest_moment + 1ns);
  EXPECT_EQ(moment_of("1970-01-01T00:00:00-00:01"), earliest_moment + 1min);
  EXPECT_EQ(moment_of("2199-12-31T23:59:59.999999999Z"), latest_moment - 1ns);
  for (const auto* const text :
       {"1970-01-01T00:00:00Z", "1970-01-01T00:30:00+01:00", "1969-12-31T23:59:59Z", "0000-01-01T00:00:00Z",
        "2200-01-01T00:00:00Z", "2199-12-31T23:59:59-00:01", "9999-12-31T23:59:59.999999999-23:59"})
    EXPECT_NE(problem_of_moment(text).find("after 1970"), std::string::npos) << text;
}

TEST(moment, problem_names_the_part) {
  for (const auto& [text, part] : {
           std::pair{"2030-13-01T00:00:00Z", "month"},
           {"2030-00-01T00:00:00Z", "month"},
           {"2030-02-29T00:00:00Z", "day"},
           {"2030-04-31T00:00:00Z", "day"},
           {"2030-04-00T00:00:00Z", "day"},
           {"2030-04-30T24:00:00Z", "hour"},
           {"2030-04-30T23:60:00Z", "minute"},
           {"2016-12-31T23:59:60Z", "leap second"},
           {"2030-04-30T23:59:61Z", "second"},
           {"2030-04-30T23:59:59", "no offset"},
           {"2030-04-30T23:59:59.5", "no offset"},
           {"2030-04-30T23:59:59+24:00", "offset"},
           {"2030-04-30T23:59:59+00:60", "offset"},
       })
    EXPECT_NE(problem_of_moment(text).find(part), std::string::npos) << text << ": " << problem_of_moment(text);
}

TEST(moment, refuses_other_text) {
  using namespace std::string_view_literals;
  for (const auto text : {""sv,
                          "Z"sv,
                          "now"sv,
                          "2030"sv,
                          "2030-01-31"sv,
                          "2030-1-31T09:30:00Z"sv,
                          "2030-01-31 09:30:00Z"sv,
                          "20300131T093000Z"sv,
                          "2030-01-31T09:30Z"sv,
                          "2030-01-31T09:30:00.Z"sv,
                          "2030-01-31T09:30:00,5Z"sv,
                          "2030-01-31T09:30:00+0100"sv,
                          "2030-01-31T09:30:00+01"sv,
                          "2030-01-31T09:30:00Z "sv,
                          " 2030-01-31T09:30:00Z"sv,
                          "2030-01-31T09:30:00ZZ"sv,
                          "+2030-01-31T09:30:00Z"sv,
                          "12030-01-31T09:30:00Z"sv,
                          "2030-01-31T09:30:00Z\0"sv,
                          "2030-01-31T09:30:\xff\xffZ"sv})
    EXPECT_NE(problem_of_moment(text), "") << text;
}

TEST(duration, takes_iso_8601) {
  EXPECT_EQ(duration_of("PT30M"), 30min);
  EXPECT_EQ(duration_of("P1DT12H"), 36h);
  EXPECT_EQ(duration_of("P1D"), 24h);
  EXPECT_EQ(duration_of("P2W"), 14 * 24h);
  EXPECT_EQ(duration_of("PT1H2M3S"), 1h + 2min + 3s);
  EXPECT_EQ(duration_of("PT0.5S"), 500ms);
  EXPECT_EQ(duration_of("PT0,25S"), 250ms);
  EXPECT_EQ(duration_of("PT0S"), 0s);
  EXPECT_EQ(duration_of("PT0.0000000001S"), 1ns);
  EXPECT_EQ(duration_of("P36500D"), longest_duration);
}

TEST(duration, takes_a_number_with_a_unit) {
  EXPECT_EQ(duration_of("500ms"), 500ms);
  EXPECT_EQ(duration_of("30s"), 30s);
  EXPECT_EQ(duration_of("30m"), 30min);
  EXPECT_EQ(duration_of("12h"), 12h);
  EXPECT_EQ(duration_of("7d"), 7 * 24h);
  EXPECT_EQ(duration_of("0s"), 0s);
}

TEST(duration, says_what_is_wrong) {
  for (const auto& [text, part] : {
           std::pair{"P1Y", "years"},
           {"P1M", "months"},
           {"P1Y2M", "years"},
           {"-PT30M", "negative"},
           {"-30m", "negative"},
           {"30", "unit"},
           {"PT1.5H", "fraction"},
           {"P0.5D", "fraction"},
           {"P36501D", "longer"},
           {"P36500DT0.000000001S", "longer"},
           {"P36500DT1S", "longer"},
           {"99999999999999999999s", "longer"},
           {"PT99999999999999999999S", "longer"},
           {"18446744073709551615h", "longer"},
       })
    EXPECT_NE(problem_of_duration(text).find(part), std::string::npos) << text << ": " << problem_of_duration(text);
}

TEST(duration, refuses_other_text) {
  for (const auto* const text :
       {"",      "P",     "PT",    "P1DT",   "T30M",  "PT30",    "PT30X", "PT30M30H", "PT30M30M", "P1D1D", "P1D2W",
        "PTS",   "PT.5S", "PT5.S", "PT1S1S", "PTT1S", "P1DTT1S", "pt30m", "PT 30M",   "PT30M ",   "30 m",  "30M",
        "30min", "1h30m", "m",     "+30m",   "0x10s", "PT+5S",   "PT-5S", "P--",      "PT1ST"})
    EXPECT_NE(problem_of_duration(text), "") << text;
}

TEST(moment, text_is_read_back) {
  EXPECT_EQ(write_moment(at(2030, 1, 31, 9h + 30min)), "2030-01-31T09:30:00Z");
  EXPECT_EQ(write_moment(at(2030, 1, 31, 250ms)), "2030-01-31T00:00:00.25Z");
  EXPECT_EQ(write_moment(at(2030, 1, 31, 1ns)), "2030-01-31T00:00:00.000000001Z");
  for (const moment when : {earliest_moment + 1ns, latest_moment - 1ns, at(2028, 2, 29, 23h + 59min + 59s)})
    EXPECT_EQ(moment_of(write_moment(when)), when);
}

TEST(duration, text_is_read_back) {
  EXPECT_EQ(write_duration(0s), "PT0S");
  EXPECT_EQ(write_duration(30min), "PT30M");
  EXPECT_EQ(write_duration(24h), "P1D");
  EXPECT_EQ(write_duration(36h + 500ms), "P1DT12H0.5S");
  EXPECT_EQ(write_duration(90s), "PT1M30S");
  for (const nanoseconds length :
       {nanoseconds{1ns}, nanoseconds{longest_duration}, nanoseconds{1ms}, nanoseconds{25h + 1ns}})
    EXPECT_EQ(duration_of(write_duration(length)), length);
}

}  // namespace
