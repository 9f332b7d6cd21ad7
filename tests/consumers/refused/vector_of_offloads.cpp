// 15 lines: a timer neither copies nor moves
#include <tickwheel/tickwheel.hpp>

#include <vector>

struct session {
  void on_result(int, int*) noexcept;
};

void keep(tickwheel::timer_service& timers, tickwheel::offload_pool& pool, session& s) {
  std::vector<tickwheel::offload<&session::on_result>> all;
  all.emplace_back(timers, pool, s);
}
