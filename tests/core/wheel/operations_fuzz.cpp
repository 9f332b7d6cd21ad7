// The libFuzzer target: the inputs of the fuzzer are carried out as operations on a wheel. `./dev fuzz` builds and runs
// it. Inputs that it finds are kept in tests/core/corpus, which wheel_operations_test runs.
#include "../support/operations.hpp"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto result = tickwheel::test::run_operations({data, size}, true);
  if (result.mismatch) {
    std::fprintf(stderr, "%s\n", result.mismatch->c_str());
    std::abort();
  }
  return 0;
}
