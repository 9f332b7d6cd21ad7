// What timer_load is asked to do.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace timer_load {

struct load_options {
  int port = 0;
  std::size_t timers = 50'000;
  std::size_t connections = 64;
  std::size_t rate = 0;  // timers scheduled per second; 0: as fast as they are confirmed
  // from a request to its due time
  std::chrono::milliseconds shortest = std::chrono::seconds{3}, longest = std::chrono::seconds{15};
  // of a hundred timers
  unsigned relative = 0;   // are scheduled with `in` instead of `due`
  unsigned cancelled = 0;  // are cancelled at some time until just after they are due
  unsigned replaced = 0;   // are replaced in this time by one that is due later
  std::chrono::milliseconds patience = std::chrono::minutes{1};  // after the last due time
  std::size_t outages = 0;
  std::string points;

  bool has_changes() const { return cancelled + replaced != 0; }
};

}  // namespace timer_load
