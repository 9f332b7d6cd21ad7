// 25 lines: takes arguments
#include <tickwheel/tickwheel.hpp>

struct session {
  void on_timeout(int) noexcept;
  tickwheel::idle_timeout<&session::on_timeout> timeout;
};
