// How much a test does that could go on for ever: little by default, more when TICKWHEEL_TEST_LONG is set, as
// `./dev test --long` does. A sanitizer makes such a test take several times as long, so by default it then does a quarter.
#pragma once

#include "prelude.hpp"
#include "sanitizers.hpp"

inline bool is_long_run() {
  // nothing sets the environment while tests run
  return std::getenv("TICKWHEEL_TEST_LONG") != nullptr;
}

inline std::size_t by_run_length(std::size_t by_default, std::size_t when_long) {
  if (is_long_run()) return when_long;
  const bool is_slow = under_address_sanitizer || under_thread_sanitizer;
  return is_slow ? std::max<std::size_t>(by_default / 4, 1) : by_default;
}
