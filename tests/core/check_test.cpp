// A broken precondition stops the process, with a line that says which.
#include <tickwheel/core/detail/check.hpp>

#include <gtest/gtest.h>

#ifndef _WIN32
#include <csignal>
#endif

namespace tickwheel::test {
namespace {

TEST(check, nothing_happens_while_it_holds) { detail::require(true, "never said"); }

#ifndef _WIN32
TEST(check_death_test, failure_aborts_and_says_what_was_violated) {
  EXPECT_EXIT(detail::fail("a wheel is round"), testing::KilledBySignal(SIGABRT), "tickwheel: a wheel is round\n");
}
#endif

}  // namespace
}  // namespace tickwheel::test
