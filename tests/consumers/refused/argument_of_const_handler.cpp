// 25 lines: takes arguments
#include <tickwheel/tickwheel.hpp>

struct session {
  void on_timeout(int) const noexcept;
  tickwheel::member_timer<&session::on_timeout> timeout;
};
