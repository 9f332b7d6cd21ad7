// A histogram in a fixed array: how exact it is, and at its ends.
#include <tickwheel/core/log_histogram.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace tickwheel::test {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

TEST(log_histogram_test, an_empty_one_answers_zero) {
  const log_histogram h;
  EXPECT_EQ(h.count(), 0U);
  EXPECT_EQ(h.max(), 0U);
  for (const double fraction : {0.0, 0.5, 1.0}) EXPECT_EQ(h.percentile(fraction), 0U);
}

TEST(log_histogram_test, counts_what_was_recorded) {
  log_histogram h;
  for (std::uint64_t v = 0; v < 1000; ++v) h.record(v * v);
  EXPECT_EQ(h.count(), 1000U);
}

TEST(log_histogram_test, the_maximum_is_exact) {
  log_histogram h;
  for (const std::uint64_t v : {5ULL, 123'456'789ULL, 17ULL}) h.record(v);
  EXPECT_EQ(h.max(), 123'456'789U);
}

TEST(log_histogram_test, values_below_16_are_exact) {
  log_histogram h;
  for (std::uint64_t v = 0; v < 16; ++v) h.record(v);
  for (std::uint64_t v = 0; v < 16; ++v) EXPECT_EQ(h.percentile(static_cast<double>(v + 1) / 16), v);
}

// a second, larger value keeps the maximum from answering for the bucket
TEST(log_histogram_test, a_percentile_is_an_upper_bound_and_at_most_an_eighth_above_the_value) {
  std::mt19937_64 random{1};
  for (unsigned bits = 0; bits < 64; ++bits)
    for (int i = 0; i < 64; ++i) {
      const std::uint64_t value = (std::uint64_t{1} << bits) + (random() & ((std::uint64_t{1} << bits) - 1));
      log_histogram h;
      h.record(value);
      h.record(largest);
      const std::uint64_t bound = h.percentile(0.5);
      ASSERT_GE(bound, value);
      ASSERT_LE(bound - value, value / 8) << value;
    }
}

TEST(log_histogram_test, neighbouring_buckets_leave_no_gap) {
  for (unsigned bits = 4; bits < 64; ++bits)
    for (std::uint64_t eighth = 8; eighth < 16; ++eighth) {
      const std::uint64_t first = eighth << (bits - 3);  // the first value of a bucket
      log_histogram h;
      h.record(first - 1);
      h.record(first);
      h.record(largest);
      EXPECT_EQ(h.percentile(1.0 / 3), first - 1);
      EXPECT_GE(h.percentile(2.0 / 3), first);
    }
}

TEST(log_histogram_test, no_percentile_exceeds_the_maximum) {
  log_histogram h;
  h.record(1'000'000);
  for (const double fraction : {0.0, 0.5, 0.99, 1.0, 2.0}) EXPECT_EQ(h.percentile(fraction), 1'000'000U);
}

TEST(log_histogram_test, the_lowest_percentile_is_that_of_the_smallest_value) {
  log_histogram h;
  h.record(3);
  h.record(900);
  EXPECT_EQ(h.percentile(0.0), 3U);
  EXPECT_EQ(h.percentile(-1.0), 3U);
}

TEST(log_histogram_test, percentiles_follow_the_ranks) {
  log_histogram h;
  for (int i = 0; i < 90; ++i) h.record(1);
  for (int i = 0; i < 9; ++i) h.record(5);
  h.record(12);
  EXPECT_EQ(h.percentile(0.5), 1U);
  EXPECT_EQ(h.percentile(0.9), 1U);
  EXPECT_EQ(h.percentile(0.95), 5U);
  EXPECT_EQ(h.percentile(0.99), 5U);
  EXPECT_EQ(h.percentile(0.995), 12U);
  EXPECT_EQ(h.percentile(1.0), 12U);
}

TEST(log_histogram_test, percentiles_do_not_fall) {
  std::mt19937_64 random{2};
  log_histogram h;
  for (int i = 0; i < 10'000; ++i) h.record(random() >> (random() % 64));
  std::uint64_t last = 0;
  for (double fraction = 0; fraction <= 1; fraction += 0.001) {
    ASSERT_GE(h.percentile(fraction), last);
    last = h.percentile(fraction);
  }
}

TEST(log_histogram_test, the_largest_value_has_a_bucket) {
  log_histogram h;
  h.record(largest);
  h.record(largest - 1);
  EXPECT_EQ(h.max(), largest);
  EXPECT_EQ(h.percentile(0.5), largest);
  EXPECT_EQ(h.percentile(1.0), largest);
}

}  // namespace
}  // namespace tickwheel::test
