// 20 lines: must take no arguments
#include <tickwheel/tickwheel.hpp>

int post(tickwheel::remote_handle loop) {
  return loop.post([](int) noexcept {});
}
