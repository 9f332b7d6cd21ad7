// A program that uses an installed tickwheel: something of each layer, inline, template and linked.
#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <sstream>

using namespace std::chrono_literals;

namespace {

struct session {
  explicit session(tickwheel::timer_service& timers) : idle{timers, *this}, request{timers, *this} {}
  void on_idle() noexcept { closed = true; }
  void on_request_timeout() noexcept { ++timeouts; }
  int timeouts = 0;
  bool closed = false;
  tickwheel::idle_timeout<&session::on_idle> idle;
  tickwheel::member_timer<&session::on_request_timeout> request;
};

// by hand
bool is_told_in_time() {
  tickwheel::manual_driver time;
  tickwheel::timer_service timers;
  if (timers.open(time) != 0) return false;
  session s{timers};
  if (s.idle.start(60s) != 0 || s.request.arm(30s) != 0) return false;
  time.advance(50s);
  s.idle.touch();
  time.advance(59s);
  if (s.closed || s.timeouts != 1) return false;
  time.advance(2s);
  std::ostringstream out;
  tickwheel::write_prometheus(out, timers.stats());
  out << timers.why();
  return s.closed && out.str().find("tickwheel_timers_pending") != std::string::npos && timers.validate();
}

// by a loop, and from elsewhere
bool runs_on_a_loop() {
  tickwheel::event_loop loop;
  if (loop.open() != 0) return false;
  int ran = 0;
  tickwheel::callback_timer once{loop.timers(), [&]() noexcept { ++ran; }};
  if (once.arm(1ms) != 0) return false;
  int* const counted = &ran;
  if (loop.timers().remote().post(0s, [counted]() noexcept { ++*counted; }) != 0) return false;
  loop.run();
  return ran == 2;
}

}  // namespace

int main() {
  if (std::strcmp(tickwheel::version(), TICKWHEEL_VERSION) != 0) return 1;
  if (!is_told_in_time()) return 2;
  if (!runs_on_a_loop()) return 3;
  std::printf("C++ with tickwheel %s: ok\n", tickwheel::version());
}
