// 25 lines: takes arguments
#include <tickwheel/tickwheel.hpp>

struct session {
  void on_interval(int) noexcept;
  tickwheel::interval_timer<&session::on_interval> interval;
};
