// A count, and the number that it is watched for, against two plain numbers.
#include <tickwheel/core/detail/watched_count.hpp>

#include "../support/prelude.hpp"

namespace tickwheel::detail {
namespace {

TEST(watched_count, is_reached_with_the_count_that_was_named) {
  watched_count count;
  EXPECT_FALSE(count.reached());
  count.watch(2);
  EXPECT_EQ(count.left(), 2U);
  ++count;
  EXPECT_FALSE(count.reached());
  ++count;
  EXPECT_TRUE(count.reached());
  ++count;
  EXPECT_TRUE(count.reached()) << "also if it has grown further";
  EXPECT_EQ(count.value(), 3U);
}

TEST(watched_count, may_be_watched_at_once) {
  watched_count count;
  count.watch(0);
  EXPECT_TRUE(count.reached());
  count.watch_within(5);
  EXPECT_TRUE(count.reached()) << "an earlier number stays watched";
}

TEST(watched_count, any_number_may_be_named) {
  watched_count count;
  for (const std::uint64_t more : {std::uint64_t{1} << 62, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    count.watch(more);
    ++count;
    EXPECT_FALSE(count.reached()) << more;
    EXPECT_GE(count.left(), (std::uint64_t{1} << 62) - 1);
  }
  EXPECT_EQ(count.value(), 3U);
}

TEST(watched_count, agrees_with_a_number_and_a_bound_beside_it) {
  std::mt19937 random{1};
  watched_count count;
  std::uint64_t number = 0, bound = ~std::uint64_t{0};
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t more = random() % 8;
    switch (random() % 8) {
      case 0:
        count.watch(more);
        bound = number + more;
        break;
      case 1:
        count.watch_within(more);
        bound = std::min(bound, number + more);
        break;
      case 2:
        if (number == 0) break;
        --count;
        --number;
        break;
      default:
        ++count;
        ++number;
    }
    ASSERT_EQ(count.value(), number);
    ASSERT_EQ(count.reached(), number >= bound);
    if (bound != ~std::uint64_t{0} && number < bound) {
      ASSERT_EQ(count.left(), bound - number);
    }
  }
}

}  // namespace
}  // namespace tickwheel::detail
