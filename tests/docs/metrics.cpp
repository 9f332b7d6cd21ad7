// Writes the metrics of a live loop that has something to do, once for each line that it reads: for metrics_test.py, and for the
// Prometheus of tools/monitoring. After each text follows a line "# EOF".
#include <tickwheel/uv/event_loop.hpp>
#include <tickwheel/uv/prometheus.hpp>
#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer.hpp>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>

using namespace std::chrono_literals;

namespace {

class work {
 public:
  explicit work(tickwheel::timer_service& timers) : each_{timers, *this} {}
  int start() noexcept { return each_.start(20ms); }

 private:
  void on_period() noexcept { std::this_thread::sleep_for(2ms); }
  tickwheel::interval_timer<&work::on_period> each_;
};

}  // namespace

int main() {
  tickwheel::event_loop loop;
  if (loop.open({.max_armed = 1000, .count_handlers = true}) != 0) return 1;
  work busy{loop.timers()};
  if (busy.start() != 0) return 1;
  const tickwheel::remote_handle from_reader = loop.timers().remote();
  std::thread reader{[&] {
    for (std::string line; std::getline(std::cin, line);)
      // later than the first period, so that a handler has run
      if (from_reader.post(50ms, [&loop]() noexcept {
            tickwheel::write_prometheus(std::cout, loop.timers().stats());
            std::cout << "# EOF" << std::endl;
          }) != 0)
        break;
    (void)from_reader.post(100ms, [&loop]() noexcept { loop.stop(); });
  }};
  loop.run();
  reader.join();
  return std::cout ? 0 : 1;
}
