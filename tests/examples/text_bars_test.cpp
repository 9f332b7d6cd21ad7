#include "support/text_bars.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace {

using namespace std::chrono_literals;

std::string bar(const char* end, std::size_t length, const char* count) {
  return "    < " + std::string{end} + " ms  " + std::string(length, '#') + std::string(40 - length, ' ') + " " +
         count + "\n";
}

TEST(text_bars, nothing_has_no_lines) { EXPECT_EQ(bars_of({}), ""); }

TEST(text_bars, end_of_a_range_is_in_the_next) {
  EXPECT_EQ(bars_of({0ns}), bar("   0.25", 40, "      1"));
  EXPECT_EQ(bars_of({249'999ns}), bar("   0.25", 40, "      1"));
  EXPECT_EQ(bars_of({250us}), bar("   0.50", 40, "      1"));
}

TEST(text_bars, most_frequent_range_is_longest_and_none_is_left_out) {
  std::vector<std::chrono::nanoseconds> durations(100, 600us);
  durations.push_back(3ms);
  durations.push_back(3ms);
  EXPECT_EQ(bars_of(durations),
            bar("   1.00", 40, "    100") + bar("   2.00", 0, "      0") + bar("   4.00", 1, "      2"));
}

TEST(text_bars, hour_has_a_range) { EXPECT_EQ(bars_of({1h}), bar("4194304.00", 40, "      1")); }

}  // namespace
