// 20 lines: cannot be copied without exceptions: pass one that is not const
#include <tickwheel/tickwheel.hpp>

#include <memory>
#include <utility>

int post(tickwheel::remote_handle loop) {
  const auto call = [owned = std::make_unique<int>(1)]() noexcept {};
  return loop.post(std::move(call));
}
