#include <tickwheel/uv/detail/handler_log.hpp>

#include "binding_watch.hpp"

#include <utility>

namespace tickwheel::detail {

void handler_log::tell_slow(const binding_watch& binding) noexcept {
  const std::size_t count = std::exchange(untold_count_, 0);
  for (std::size_t i = 0; i < count && hook_ != nullptr; ++i) {
    const slow_handler slow = untold_[i];
    hook_(context_, slow);
    if (binding.ended()) return;
  }
}

}  // namespace tickwheel::detail
