// 25 lines: takes arguments
#include <tickwheel/tickwheel.hpp>

void start(tickwheel::timer_service& timers) {
  auto on_timeout = [](int) noexcept {};
  tickwheel::callback_timer<decltype(on_timeout)> timeout{timers, on_timeout};
}
