// Prints how late the timers of libuv and of tickwheel expire: for each its library and milliseconds, which are negative if it is
// early. A handler works for up to 3 ms, as the handlers of servers do, and then arms its timer again. The loop always has other
// work.
#include "../support/command_line.hpp"

#include <tickwheel/tickwheel.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>

using namespace std::chrono;

struct experiment {
  const char* library;
  std::minstd_rand random{1};
  int left = 500;
  steady_clock::time_point due = steady_clock::now();

  template <class Arm>
  void expired(Arm&& arm) noexcept {
    std::printf("%s %.3f\n", library, duration<double, std::milli>{steady_clock::now() - due}.count());
    if (--left == 0) return;
    for (const auto end = steady_clock::now() + microseconds{random() % 3000}; steady_clock::now() < end;) continue;
    const milliseconds delay{1 + random() % 10};
    due = steady_clock::now() + delay;
    arm(delay);
  }
};

void on_uv_timer(uv_timer_t* timer) noexcept {
  static_cast<experiment*>(timer->data)->expired([timer](milliseconds delay) noexcept {
    uv_timer_start(timer, on_uv_timer, static_cast<std::uint64_t>(delay.count()), 0);
  });
}

int main(int argc, char** argv) {
  CLI::App app{"Prints how late timers of libuv and of tickwheel expire. It takes no other options.", "early"};
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  tickwheel::event_loop loop;
  if (loop.open() != 0) return 1;
  uv_idle_t other_work;
  uv_idle_init(&loop.uv(), &other_work);
  uv_idle_start(&other_work, [](uv_idle_t*) {});
  uv_unref(reinterpret_cast<uv_handle_t*>(&other_work));

  experiment libuv{"libuv"};
  uv_timer_t theirs;
  uv_timer_init(&loop.uv(), &theirs);
  theirs.data = &libuv;
  on_uv_timer(&theirs);
  loop.run();
  uv_close(reinterpret_cast<uv_handle_t*>(&theirs), nullptr);

  experiment tickwheel{"tickwheel"};
  tickwheel::callback_timer ours{loop.timers(), [&](tickwheel::timer& self) noexcept {
                                   tickwheel.expired([&](milliseconds delay) noexcept { (void)self.arm(delay); });
                                 }};
  if (ours.arm(milliseconds{0}) != 0) return 1;
  loop.run();
  uv_close(reinterpret_cast<uv_handle_t*>(&other_work), nullptr);
  loop.close();  // while its handles are there
}
