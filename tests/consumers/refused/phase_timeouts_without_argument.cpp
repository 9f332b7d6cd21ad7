// 25 lines: with one argument of this type
#include <tickwheel/tickwheel.hpp>

struct session {
  void on_timeout() noexcept;
  tickwheel::phase_timeouts<&session::on_timeout> timeouts;
};
