// How much a test does that could go on for ever: little by default, more when TICKWHEEL_TEST_LONG is set, as
// `./dev test --long` does.
#pragma once

#include "prelude.hpp"

inline std::size_t by_run_length(std::size_t by_default, std::size_t when_long) {
  // nothing sets the environment while tests run
  return std::getenv("TICKWHEEL_TEST_LONG") != nullptr ? when_long : by_default;
}
