// 15 lines: a timer neither copies nor moves
#include <tickwheel/tickwheel.hpp>

#include <vector>

void on_expiry(tickwheel::wheel_entry&) noexcept;

void keep(tickwheel::timer_service& timers) {
  std::vector<tickwheel::timer> all;
  all.emplace_back(timers, &on_expiry);
}
