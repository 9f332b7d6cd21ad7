// 15 lines: idle_limit
#include <tickwheel/tickwheel.hpp>

struct session {
  void on_idle() noexcept;
};

int start(tickwheel::idle_timeout<&session::on_idle>& idle) { return idle.start(5); }
