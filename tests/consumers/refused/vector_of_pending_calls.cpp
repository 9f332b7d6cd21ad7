// 15 lines: a timer neither copies nor moves
#include <tickwheel/tickwheel.hpp>

#include <vector>

void keep(tickwheel::timer_service& timers) {
  std::vector<tickwheel::pending_call> all;
  all.emplace_back(timers);
}
