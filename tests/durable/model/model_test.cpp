// Random operations on schedulers and a memory_database, compared with a model of each task.
//
// A seed repeats. TICKWHEEL_TEST_SEEDS=A..B runs those, and TICKWHEEL_TEST_OPERATIONS=N so many operations of each. A long run
// does ten million operations.
#include "seeds.hpp"
#include "world/comparison.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace {

using namespace durable_model;

TEST(durable_model, agrees_with_schedulers_on_memory) {
  const seed_range seeds = seeds_of_this_run({1, 10, 5'000}, {1, 2'000, 5'000});
  std::uint64_t operations = 0;
  std::uint64_t starts = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const comparison c = run_seed(seed, seeds.operations);
    ASSERT_FALSE(c.mismatch) << *c.mismatch;
    operations += c.operations;
    starts += c.starts;
  }
  std::printf("%llu operations, %llu starts\n", static_cast<unsigned long long>(operations),
              static_cast<unsigned long long>(starts));
  EXPECT_GT(starts, 0U);
}

TEST(durable_model, same_seed_gives_same_run) {
  const comparison first = run_seed(1, 2'000, memory_backend, true);
  const comparison second = run_seed(1, 2'000, memory_backend, true);
  EXPECT_EQ(first.trace, second.trace);
  EXPECT_GT(first.trace.size(), 50'000U);
  EXPECT_NE(first.trace, run_seed(2, 2'000, memory_backend, true).trace);
}

}  // namespace
