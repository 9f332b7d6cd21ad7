// The seeds of a run of the model test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace durable_model {

struct seed_range {
  std::uint64_t first = 1, last = 1;
  std::uint64_t operations = 0;  // of each
};

/// Returns the seeds of TICKWHEEL_TEST_SEEDS; else those of a long run if TICKWHEEL_TEST_LONG is set; else `quick`.
inline seed_range seeds_of_this_run(seed_range quick, seed_range when_long) {
  // nothing sets the environment while tests run
  seed_range chosen = std::getenv("TICKWHEEL_TEST_LONG") != nullptr ? when_long : quick;
  if (const char* seeds = std::getenv("TICKWHEEL_TEST_SEEDS")) {
    unsigned long long from = 0;
    unsigned long long to = 0;
    EXPECT_EQ(std::sscanf(seeds, "%llu..%llu", &from, &to), 2)
        << "TICKWHEEL_TEST_SEEDS is " << seeds << ", expected A..B";
    chosen.first = from;
    chosen.last = to;
  }
  if (const char* operations = std::getenv("TICKWHEEL_TEST_OPERATIONS"))
    chosen.operations = std::strtoull(operations, nullptr, 10);
  return chosen;
}

}  // namespace durable_model
