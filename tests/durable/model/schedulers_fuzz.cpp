// The libFuzzer target: the interpreter of the model test carries out the bytes as operations on schedulers and a
// memory_database. `./dev fuzz durable` builds and runs it.
#include "world/comparison.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace durable_model;
  const comparison c = run(choices{std::span{data, size}}, 2'000, memory_backend);
  if (c.mismatch) {
    std::fprintf(stderr, "%s\n", c.mismatch->c_str());
    std::abort();
  }
  return 0;
}
