// A violated precondition stops the process, and the message names it.
#include <tickwheel/core/detail/check.hpp>

#include <gtest/gtest.h>

#ifndef _WIN32
#include <csignal>
#endif

namespace tickwheel::test {
namespace {

TEST(check, does_nothing_if_the_condition_holds) { detail::require(true, "never said"); }

#ifndef _WIN32
TEST(check, aborts_and_names_the_violated_condition) {
  EXPECT_EXIT(detail::fail("a wheel is round"), testing::KilledBySignal(SIGABRT), "tickwheel: a wheel is round\n");
}
#endif

}  // namespace
}  // namespace tickwheel::test
