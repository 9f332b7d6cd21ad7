#include "work.hpp"

#include <algorithm>

namespace tickwheel::durable::postgres {

using namespace std::chrono_literals;

namespace {

constexpr std::chrono::nanoseconds first_pause = 5ms;
constexpr std::chrono::nanoseconds longest_pause = 100ms;

}  // namespace

void work::fail(const failure& why, steady_time now, std::chrono::nanoseconds patience) {
  is_sent_ = false;
  now_ = now;
  patience_ = patience;
  switch (why.what_helps()) {
    case remedy::repeat:
      on_repeat();
      if (narrow()) return;
      if (is_tired()) on_tired();
      if (!has_ended()) pause();
      return;
    case remedy::split:
      on_repeat();
      return on_refused();
    case remedy::isolate:
      on_repeat();
      return on_damaged();
    default:
      on_repeat();
      return on_given_up();
  }
}

void work::pause() noexcept {
  last_pause_ = std::clamp(last_pause_ * 2, first_pause, longest_pause);
  pause(last_pause_);
}

bool work::is_tired() noexcept {
  if (!failing_since_) failing_since_ = now_;
  return now_ - *failing_since_ >= patience_;
}

}  // namespace tickwheel::durable::postgres
