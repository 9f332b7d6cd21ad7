// 25 lines: takes an int, or an int and a Result*
#include <tickwheel/tickwheel.hpp>

struct session {
  void on_result() noexcept;
  tickwheel::offload<&session::on_result> call;
};
