#include <tickwheel/net/idle_limit.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

TEST(load_factor, is_zero_until_it_is_set) { EXPECT_EQ(tickwheel::load_factor{}.get(), 0.0); }

TEST(load_factor, is_what_it_was_set_to_last) {
  tickwheel::load_factor load;
  for (const double each : {1.0, 0.25, 0.0, 0.75}) {
    EXPECT_EQ(load.set(each), 0);
    EXPECT_EQ(load.get(), each);
  }
}

TEST(load_factor, outside_0_to_1_is_refused_and_named_and_changes_nothing) {
  using limits = std::numeric_limits<double>;
  tickwheel::load_factor load;
  ASSERT_EQ(load.set(0.5), 0);
  for (const double each : {-limits::denorm_min(), -1.0, 1 + limits::epsilon(), 2.0, limits::infinity(),
                            -limits::infinity(), std::nan("")}) {
    EXPECT_EQ(load.set(each), UV_EINVAL) << each;
    EXPECT_STREQ(tickwheel::load_factor::problem(each), "load_factor: load is not within 0..1");
    EXPECT_EQ(load.get(), 0.5);
  }
  EXPECT_EQ(tickwheel::load_factor::problem(0), nullptr);
  EXPECT_EQ(tickwheel::load_factor::problem(1), nullptr);
}

}  // namespace
