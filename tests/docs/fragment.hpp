// What a code block of the documentation that is no program finds: durations as literals, and within a function a service
// on a clock turned by hand.
#pragma once

#include <tickwheel/tickwheel.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace tickwheel_docs {

using namespace std::chrono_literals;

struct fragment : testing::Test {
  fragment() { EXPECT_EQ(timers.open(time), 0); }

  tickwheel::manual_driver time;
  tickwheel::timer_service timers;
};

}  // namespace tickwheel_docs

using namespace std::chrono_literals;
