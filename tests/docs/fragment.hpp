// The declarations for a code block of the documentation that is no program: durations as literals, and `assert` as a check of the test. A
// block within a function also has a service on manual time.
#pragma once

#include <tickwheel/tickwheel.hpp>

#include <gtest/gtest.h>

#include <cassert>
#include <chrono>
#include <cstdlib>

namespace tickwheel_docs {

using namespace std::chrono_literals;

struct fragment : testing::Test {
  fragment() { EXPECT_EQ(timers.open(time), 0); }

  tickwheel::manual_driver time;
  tickwheel::timer_service timers;
};

}  // namespace tickwheel_docs

using namespace std::chrono_literals;

// in any build, and reported as a test's
#undef assert
#define assert(...) EXPECT_TRUE((__VA_ARGS__))
