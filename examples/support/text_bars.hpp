// Durations as bars of text, for a terminal: where most of them are, and how far the rest reaches.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

/// Returns a line for each range from a power of two to the next, from the shortest duration to the longest: its upper end, a bar and
/// the number of durations in it. The first range begins at 0 and ends at 1/4 ms. A range that has any has a bar of at least one character.
///
///     <   0.25 ms  ########################################     731
///     <   0.50 ms  #                                             19
inline std::string bars_of(const std::vector<std::chrono::nanoseconds>& durations) {
  constexpr std::size_t longest = 40;  // characters
  constexpr std::chrono::nanoseconds finest{250'000};
  std::map<unsigned, std::size_t> counts;  // by the power of two
  for (const std::chrono::nanoseconds duration : durations) {
    unsigned range = 0;
    for (auto end = finest; duration >= end; end *= 2) ++range;
    ++counts[range];
  }
  std::size_t most = 0;
  for (const auto& [range, count] : counts) most = std::max(most, count);
  std::string lines;
  for (unsigned range = counts.empty() ? 1 : counts.begin()->first; !counts.empty() && range <= counts.rbegin()->first;
       ++range) {
    const std::size_t count = counts.contains(range) ? counts[range] : 0;
    const std::string bar((count * longest + most - 1) / most, '#');
    char line[longest + 64];
    std::snprintf(line, sizeof line, "    < %7.2f ms  %-*s %7zu\n", 0.25 * static_cast<double>(1ULL << range),
                  static_cast<int>(longest), bar.c_str(), count);
    lines += line;
  }
  return lines;
}
