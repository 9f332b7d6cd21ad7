// 15 lines: a timer neither copies nor moves
#include <tickwheel/tickwheel.hpp>

#include <vector>

struct session {
  void on_idle() noexcept;
};

void keep(tickwheel::timer_service& timers, session& s) {
  std::vector<tickwheel::idle_timeout<&session::on_idle>> all;
  all.emplace_back(timers, s);
}
