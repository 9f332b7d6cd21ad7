#include <tickwheel/uv/detail/handler_log.hpp>

#include "binding_watch.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace tickwheel::detail {

void handler_log::settle() noexcept {
  if (unsettled_count_ == 0) return;
  const clock::time_point now = clock_.read();
  clock_.end(now);
  record_unsettled();
  clock_.go_on(now);
}

// Requires: the stretch has ended, so that its counts are times.
void handler_log::record_unsettled() noexcept {
  clock::time_point at{};  // where a count went back, no time has passed
  for (const moment& m : std::span{unsettled_}.first(std::exchange(unsettled_count_, 0))) {
    at = std::max(at, clock_.time_of(m.at));
    end_handler(at);
    // only the report of the last one is asked for
    if (m.begins) lateness_.begin_handler(m.which, due_, rounding_, at);
  }
}

void handler_log::tell_slow(const binding_watch& binding) noexcept {
  const std::size_t count = std::exchange(untold_count_, 0);
  in_stretch_ = true;  // a hook must not run the loop, as a handler must not
  for (std::size_t i = 0; i < count && hook_ != nullptr; ++i) {
    const slow_handler slow = untold_[i];
    hook_(context_, slow);
    if (binding.ended()) return;
  }
  in_stretch_ = false;
}

}  // namespace tickwheel::detail
