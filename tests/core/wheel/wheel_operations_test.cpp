// Operations against the model in operations.cpp, on any geometry, from any origin, with callbacks that do anything. Some are random. Others
// are a corpus that a fuzzer gathered, each input of which reaches code that the others do not. The seeds are fixed, so that a failure
// repeats; TICKWHEEL_TEST_LONG=1 runs a hundred million operations.
#include "../../support/long_runs.hpp"
#include "../../support/prelude.hpp"
#include "../support/operations.hpp"

#include <filesystem>
#include <fstream>

namespace tickwheel::test {
namespace {

std::vector<std::uint8_t> random_input(std::mt19937_64& random) {
  std::vector<std::uint8_t> input(static_cast<std::size_t>(64 + random() % 8000));
  for (std::uint8_t& byte : input) byte = static_cast<std::uint8_t>(random());
  return input;
}

void run_random_inputs(std::uint64_t seed, std::uint64_t operations, bool validate_each) {
  std::mt19937_64 random{seed};
  for (std::uint64_t done = 0; done < operations;) {
    const auto result = run_operations(random_input(random), validate_each);
    ASSERT_FALSE(result.mismatch) << *result.mismatch;
    done += result.operations;
  }
}

TEST(operations, of_the_corpus_agree_with_the_model) {
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator{CORPUS}) {
    std::ifstream in{file.path(), std::ios::binary};
    const std::vector<std::uint8_t> input{std::istreambuf_iterator<char>{in}, {}};
    const auto result = run_operations(input, true);
    EXPECT_FALSE(result.mismatch) << file.path() << ": " << *result.mismatch;
    ++files;
  }
  EXPECT_GT(files, 0U);
}

TEST(operations, keep_every_invariant) { run_random_inputs(1, by_run_length(200'000, 2'000'000), true); }

TEST(operations, agree_with_the_model) { run_random_inputs(2, by_run_length(2'000'000, 100'000'000), false); }

}  // namespace
}  // namespace tickwheel::test
