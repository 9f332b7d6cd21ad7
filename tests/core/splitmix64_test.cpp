// The random numbers for jitter: the same sequence on every machine.
#include <tickwheel/core/detail/splitmix64.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>

using namespace std::chrono_literals;

namespace {

using tickwheel::detail::share_of;
using tickwheel::detail::splitmix64;

TEST(splitmix64, gives_the_published_sequence) {
  splitmix64 random{1234567};
  for (const std::uint64_t expected :
       {6457827717110365317U, 3203168211198807973U, 9817491932198370423U, 4593380528125082431U, 16408922859458223821U})
    EXPECT_EQ(random.next(), expected);
}

TEST(splitmix64, draws_each_number_of_a_range_and_none_beyond) {
  splitmix64 random{1};
  std::array<int, 7> drawn{};
  for (int i = 0; i < 7000; ++i) {
    const auto d = random.up_to(std::uint64_t{6});
    ASSERT_LE(d, 6U);
    ++drawn[static_cast<std::size_t>(d)];
  }
  for (const int times : drawn) EXPECT_GT(times, 800);
}

TEST(splitmix64, draws_from_the_whole_range_and_from_one) {
  splitmix64 a{5};
  splitmix64 b{5};
  EXPECT_EQ(a.up_to(std::numeric_limits<std::uint64_t>::max()), b.next());
  EXPECT_EQ(a.up_to(std::uint64_t{0}), 0U);
  EXPECT_EQ(a.up_to(0ns), 0ns);
}

TEST(splitmix64, share_of_rounds_down_and_is_at_most_the_whole) {
  EXPECT_EQ(share_of(10ns, 0.25), 2ns);
  EXPECT_EQ(share_of(10ns, 0), 0ns);
  EXPECT_EQ(share_of(10ns, 1), 10ns);
  for (const auto whole : {std::chrono::nanoseconds::max(), std::chrono::nanoseconds::max() - 1ns,
                           std::chrono::nanoseconds{(std::int64_t{1} << 53) + 1}})
    EXPECT_EQ(share_of(whole, 1), whole);
  EXPECT_LT(share_of(std::chrono::nanoseconds::max(), 0.5), std::chrono::nanoseconds::max() / 2 + 2ns);
}

TEST(splitmix64, seed_of_differs_between_objects) {
  const int a = 0;
  const int b = 0;
  EXPECT_NE(tickwheel::detail::seed_of(&a), tickwheel::detail::seed_of(&b));
}

}  // namespace
