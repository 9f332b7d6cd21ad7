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
  std::chrono::milliseconds patience = std::chrono::minutes{1};  // after the last due time
  std::size_t outages = 0;
  std::string points;
};

}  // namespace timer_load
