#include <tickwheel/core/detail/check.hpp>

#include <cstdio>
#include <cstdlib>

namespace tickwheel::detail {

void fail(const char* violated) noexcept {
  std::fprintf(stderr, "tickwheel: %s\n", violated);
  std::abort();
}

}  // namespace tickwheel::detail
