// tickwheel and uvw on one loop. The check builds it if TICKWHEEL_UVW names the directory of uvw.hpp. Not all headers of uvw 3.0
// compile as C++20.
#include <uvw/loop.h>
#include <uvw/timer.h>
#include <tickwheel/tickwheel.hpp>

#include <chrono>
#include <cstdio>

int main() {
  using namespace std::chrono_literals;
  const auto loop = uvw::loop::create();
  tickwheel::timer_service timers;
  if (timers.open(*loop->raw()) != 0) return 1;

  int ours = 0, theirs = 0;
  tickwheel::callback_timer timeout{timers, [&]() noexcept {
                                      ++ours;
                                      timers.close();
                                    }};
  const auto timer = loop->resource<uvw::timer_handle>();
  timer->on<uvw::timer_event>([&](const auto&, auto& handle) {
    ++theirs;
    handle.close();
  });
  timer->start(uvw::timer_handle::time{5}, uvw::timer_handle::time{0});
  if (timeout.arm(10ms) != 0) return 1;
  loop->run();
  std::printf("tickwheel %d, uvw %d\n", ours, theirs);
  return ours == 1 && theirs == 1 && loop->close() == 0 ? 0 : 1;
}
