// Counts the starts in the journal of a cluster that were repeated, and measures how fast they were.
#pragma once

#include "../../crash/judge/journal.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace chaos {

struct repeats {
  /// Starts that followed one without an answer, by the last trouble of its process before: killed, stopped ... or none.
  std::map<std::string, std::size_t> by_cause;
  /// Starts that a killed process had left running, and that another one began.
  std::size_t takeovers = 0;
  /// From the end of the process to the next start, at most. Counts from the start of the oldest node that lives then, if that is later.
  std::chrono::nanoseconds longest_takeover{};
  std::string slowest;   ///< its task
  bool is_slow = false;  ///< the machine kept a process from running, or its disk was slow
};

repeats find_repeats(const crash::journal&);

}  // namespace chaos
