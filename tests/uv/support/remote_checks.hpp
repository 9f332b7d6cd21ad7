// What must hold of a closed service whatever other threads did to it.
#pragma once

#include <tickwheel/uv/timer_service.hpp>

#include <gtest/gtest.h>

/// Everything that was accepted ran, was cancelled by who armed it, or by closing.
inline testing::AssertionResult remote_adds_up(const tickwheel::timer_service& closed) {
  const auto& s = closed.stats();
  if (s.remote_accepted == s.remote_ran + s.remote_withdrawn + s.remote_cancelled) return testing::AssertionSuccess();
  return testing::AssertionFailure() << s.remote_accepted << " accepted, but " << s.remote_ran << " ran, "
                                     << s.remote_withdrawn << " withdrawn and " << s.remote_cancelled << " cancelled";
}
