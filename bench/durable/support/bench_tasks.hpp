// The tasks of the benchmarks: their ids, their payload, and their numbers.
#pragma once

#include <tickwheel/durable/task.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace tickwheel::bench {

/// Returns 32 bytes in no order, like the id of an order.
inline std::string id_of(std::uint64_t number) {
  std::uint64_t mixed = (number + 1) * 0x9E3779B97F4A7C15U;
  mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9U;
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(mixed),
                static_cast<unsigned long long>(number));
  return text;
}

inline const std::string payload(100, 'p');

/// The due time of tasks that wait meanwhile.
inline const auto far_away = durable::clock::now() + std::chrono::hours{24};

/// Returns numbers that no task has yet: the first of `count`.
inline std::uint64_t new_numbers(std::uint64_t count) {
  static std::uint64_t next = 0;
  const std::uint64_t first = next;
  next += count;
  return first;
}

}  // namespace tickwheel::bench
