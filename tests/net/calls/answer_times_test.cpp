// The last answers and their quantiles, compared with all answers in a list.
#include <tickwheel/core/detail/splitmix64.hpp>
#include <tickwheel/net/detail/answer_times.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../support/prelude.hpp"

namespace {

using std::chrono::nanoseconds;
using tickwheel::detail::answer_times;

struct answer_times_test : testing::Test {
  void SetUp() override { ASSERT_TRUE(times.open()); }

  void add(nanoseconds took) {
    times.add(took);
    all.push_back(took);
    ASSERT_TRUE(times.validate());
  }
  void expect_quantiles() const {
    std::vector<nanoseconds> last(all.end() - static_cast<std::ptrdiff_t>(times.size()), all.end());
    std::sort(last.begin(), last.end());
    for (const double share : {0.0, 1e-9, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
      const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(last.size())));
      ASSERT_EQ(times.quantile(share), last[std::max<std::size_t>(rank, 1) - 1]) << share << " of " << times.size();
    }
  }

  answer_times times;
  std::vector<nanoseconds> all;
};

TEST_F(answer_times_test, one_time_is_each_quantile) {
  add(7ns);
  for (const double share : {0.0, 0.5, 1.0}) EXPECT_EQ(times.quantile(share), 7ns);
}

TEST_F(answer_times_test, quantile_is_shortest_that_share_does_not_exceed) {
  for (const int ms : {40, 10, 30, 20}) add(1ms * ms);
  EXPECT_EQ(times.quantile(0), 10ms);
  EXPECT_EQ(times.quantile(0.25), 10ms);
  EXPECT_EQ(times.quantile(0.26), 20ms);
  EXPECT_EQ(times.quantile(0.75), 30ms);
  EXPECT_EQ(times.quantile(1), 40ms);
}

TEST_F(answer_times_test, only_last_1024_count) {
  add(1h);
  for (int i = 0; i < 1023; ++i) add(1ms);
  EXPECT_EQ(times.size(), 1024U);
  EXPECT_EQ(times.quantile(1), 1h);
  add(1ms);
  EXPECT_EQ(times.size(), 1024U);
  EXPECT_EQ(times.quantile(1), 1ms);
}

TEST_F(answer_times_test, agrees_with_sorting_for_each_order) {
  tickwheel::detail::splitmix64 random{3};
  const auto any = [&](std::uint64_t most) { return nanoseconds{static_cast<std::int64_t>(random.up_to(most))}; };
  for (int i = 0; i < 1100; ++i) add(nanoseconds{i});  // each longer
  expect_quantiles();
  for (int i = 0; i < 1100; ++i) add(nanoseconds{1100 - i});  // each shorter
  expect_quantiles();
  for (int i = 0; i < 2100; ++i) add(any(3));  // many alike
  expect_quantiles();
  for (int i = 0; i < 5000; ++i) {
    add(random.up_to(20) == 0 ? any(1'000'000) : any(1000));
    if (i % 7 == 0) expect_quantiles();  // the sorting takes long
  }
  add(nanoseconds::max());
  add(nanoseconds::zero());
  expect_quantiles();
}

TEST_F(answer_times_test, open_forgets_all) {
  for (int i = 0; i < 2000; ++i) add(1h);
  ASSERT_TRUE(times.open());
  EXPECT_EQ(times.size(), 0U);
  all.clear();
  add(1ms);
  EXPECT_EQ(times.quantile(1), 1ms);
}

TEST_F(answer_times_test, open_without_memory_fails) {
  answer_times none;
  EXPECT_FALSE(allocations::without_memory([&] { return none.open(); }));
  EXPECT_FALSE(none.is_open());
}

}  // namespace
