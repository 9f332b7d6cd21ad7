// A histogram in a fixed array: how exact it is, and at its ends.
#include <tickwheel/core/log_histogram.hpp>

#include "../support/prelude.hpp"

#include <initializer_list>

namespace tickwheel::test {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

log_histogram histogram_of(std::initializer_list<std::uint64_t> values) {
  log_histogram h;
  for (const std::uint64_t v : values) h.record(v);
  return h;
}

TEST(log_histogram, returns_zero_while_it_is_empty) {
  const log_histogram h;
  EXPECT_EQ(h.count(), 0U);
  EXPECT_EQ(h.max(), 0U);
  for (const double fraction : {0.0, 0.5, 1.0}) EXPECT_EQ(h.percentile(fraction), 0U);
}

TEST(log_histogram, counts_all_values) {
  log_histogram h;
  for (std::uint64_t v = 0; v < 1000; ++v) h.record(v * v);
  EXPECT_EQ(h.count(), 1000U);
}

TEST(log_histogram, has_an_exact_maximum) { EXPECT_EQ(histogram_of({5, 123'456'789, 17}).max(), 123'456'789U); }

TEST(log_histogram, is_exact_below_16) {
  log_histogram h;
  for (std::uint64_t v = 0; v < 16; ++v) h.record(v);
  for (std::uint64_t v = 0; v < 16; ++v) EXPECT_EQ(h.percentile(static_cast<double>(v + 1) / 16), v);
}

// a second, larger value keeps the maximum from answering for the bucket
TEST(log_histogram, percentile_is_at_most_an_eighth_too_high) {
  std::mt19937_64 random{1};
  for (unsigned bits = 0; bits < 64; ++bits)
    for (int i = 0; i < 64; ++i) {
      const std::uint64_t value = (std::uint64_t{1} << bits) + (random() & ((std::uint64_t{1} << bits) - 1));
      const std::uint64_t bound = histogram_of({value, largest}).percentile(0.5);
      ASSERT_GE(bound, value);
      ASSERT_LE(bound - value, value / 8) << value;
    }
}

TEST(log_histogram, buckets_leave_no_gap) {
  for (unsigned bits = 4; bits < 64; ++bits)
    for (std::uint64_t eighth = 8; eighth < 16; ++eighth) {
      const std::uint64_t first = eighth << (bits - 3);  // the first value of a bucket
      const log_histogram h = histogram_of({first - 1, first, largest});
      EXPECT_EQ(h.percentile(1.0 / 3), first - 1);
      EXPECT_GE(h.percentile(2.0 / 3), first);
    }
}

TEST(log_histogram, percentile_does_not_exceed_the_maximum) {
  const log_histogram h = histogram_of({1'000'000});
  for (const double fraction : {0.0, 0.5, 0.99, 1.0, 2.0}) EXPECT_EQ(h.percentile(fraction), 1'000'000U);
}

TEST(log_histogram, lowest_percentile_is_the_smallest_value) {
  for (const double fraction : {0.0, -1.0}) EXPECT_EQ(histogram_of({3, 900}).percentile(fraction), 3U);
}

// 64 values, so that each rank is a fraction without rounding, also where the processor computes with more than 64 bits.
TEST(log_histogram, percentiles_follow_the_ranks) {
  log_histogram h = histogram_of({5, 5, 5, 5, 5, 5, 5, 12});
  for (int i = 0; i < 56; ++i) h.record(1);
  const struct {
    double fraction;
    std::uint64_t value;
  } cases[]{{0.5, 1}, {56.0 / 64, 1}, {0.9, 5}, {63.0 / 64, 5}, {0.99, 12}, {1.0, 12}};
  for (const auto& [fraction, value] : cases) EXPECT_EQ(h.percentile(fraction), value) << fraction;
}

TEST(log_histogram, percentiles_do_not_decrease) {
  std::mt19937_64 random{2};
  log_histogram h;
  for (int i = 0; i < 10'000; ++i) h.record(random() >> (random() % 64));
  std::uint64_t last = 0;
  for (double fraction = 0; fraction <= 1; fraction += 0.001) {
    ASSERT_GE(h.percentile(fraction), last);
    last = h.percentile(fraction);
  }
}

TEST(log_histogram, has_a_bucket_for_the_largest_value) {
  const log_histogram h = histogram_of({largest, largest - 1});
  EXPECT_EQ(h.max(), largest);
  for (const double fraction : {0.5, 1.0}) EXPECT_EQ(h.percentile(fraction), largest);
}

}  // namespace
}  // namespace tickwheel::test
