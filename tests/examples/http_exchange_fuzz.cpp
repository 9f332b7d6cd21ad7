// The libFuzzer target of the request path of http_server. `./dev fuzz http` builds and runs it; what it finds is kept
// in tests/examples/corpus, which http_exchange_test runs.
#include "http_pieces.hpp"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string wrong = what_is_wrong_with({reinterpret_cast<const char*>(data), size});
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    std::abort();
  }
  return 0;
}
