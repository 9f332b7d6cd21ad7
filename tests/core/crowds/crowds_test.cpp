// Crowds of random timers against a model, with the library's pace and with others (meson.build).
//
// A seed repeats. TICKWHEEL_TEST_SEEDS=A..B runs those, a million operations each: `./dev test --long --seeds A..B`. A long
// run without it takes the first hundred.
#include "../../support/prelude.hpp"
#include "crowd_machine.hpp"

#include <cstdio>

namespace tickwheel::test {
namespace {

TEST(operations, on_crowds_agree_with_the_model) {
  std::uint64_t first = 1;
  std::uint64_t last = 100;
  std::uint64_t each = 25'000;
  if (const char* seeds = std::getenv("TICKWHEEL_TEST_SEEDS")) {
    unsigned long long from = 0;
    unsigned long long to = 0;
    ASSERT_EQ(std::sscanf(seeds, "%llu..%llu", &from, &to), 2)
        << "TICKWHEEL_TEST_SEEDS is " << seeds << ", expected A..B";
    first = from;
    last = to;
    each = 1'000'000;
  } else if (std::getenv("TICKWHEEL_TEST_LONG") != nullptr) {
    last = 100;
    each = 1'000'000;
  }
  std::uint64_t operations = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const comparison result = run_crowd(seed, each);
    ASSERT_FALSE(result.mismatch) << "seed " << seed << ": " << *result.mismatch;
    operations += result.operations;
  }
  std::printf("%llu operations\n", static_cast<unsigned long long>(operations));
}

}  // namespace
}  // namespace tickwheel::test
