// A program for gdb and bpftrace to look at.
//
//   inspected          on manual time: calls `look` when its timers and services are in all the states that gdb shows, then has a
//                      late timer and a stall
//   inspected c        has a timer of the C interface that is armed, fires and is armed again by its repeat
//   inspected loop     runs a live loop until its input ends: a timer each millisecond, and now and then a handler that blocks
#include <tickwheel/tickwheel.h>
#include <tickwheel/core/wheel.hpp>
#include <tickwheel/testing.hpp>
#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

using namespace std::chrono_literals;

namespace inspected {

struct session {
  explicit session(tickwheel::timer_service& service) : timers{service} {}

  // neither ends with a call that arms: it would be jumped to, and seen as called by our caller
  void on_request() noexcept {
    if (request.arm(1ms) != 0) std::abort();
  }
  void on_blocked() noexcept {
    if (blocks.arm(100ms) != 0) std::abort();
    const auto end = timers.read_clock() + 15ms;
    while (timers.read_clock() < end) {
    }
  }
  void on_silence() noexcept {}

  tickwheel::timer_service& timers;
  tickwheel::member_timer<&session::on_request> request{timers, *this};
  tickwheel::member_timer<&session::on_blocked> blocks{timers, *this};
  tickwheel::idle_timeout<&session::on_silence> idle{timers, *this};
};

}  // namespace inspected

// The objects that gdb is asked to show. They are not in functions, so that no optimisation removes them.
tickwheel::timer_service never_opened;
tickwheel::timer_service closed;
tickwheel::manual_service manual;
inspected::session peer{manual.timers};
inspected::session of_never_opened{never_opened};
inspected::session of_closed{closed};
tickwheel::wheel bare{{2, 16}, 5};
tickwheel::wheel_entry entry{[](tickwheel::wheel_entry&) noexcept {}};
tickwheel::timer plain{manual.timers, [](tickwheel::wheel_entry&) noexcept {}};

extern "C" void look() { std::puts("look"); }

// its second call ends the loop
extern "C" void on_c_timeout(tw_timer_t* t) {
  if (tw_timer_get_repeat(t) == 0) return;
  tw_timer_set_repeat(t, 0);
}

namespace {

int show() {
  tickwheel::manual_driver time;
  if (closed.open(time) != 0) return 1;
  closed.close();
  if (peer.request.arm(5s) != 0 || peer.idle.start(1min) != 0) return 1;
  plain.unref();
  bare.arm(entry, 9);
  look();

  // blocks for 20 ms, and the other one waits for it
  tickwheel::callback_timer blocks{manual.timers, []() noexcept { manual.time.block(20ms); }};
  tickwheel::callback_timer waits{manual.timers, []() noexcept {}};
  if (blocks.arm(1ms) != 0 || waits.arm(2ms) != 0) return 1;
  manual.advance(1s);

  bare.cancel(entry);
  manual.timers.close();
  return 0;
}

int run_c() {
  uv_loop_t loop;
  tw_service_t service;
  tw_timer_t t;
  if (uv_loop_init(&loop) != 0 || tw_service_init(&loop, &service) != 0 || tw_timer_init(&service, &t) != 0 ||
      tw_timer_start(&t, on_c_timeout, 1, 1) != 0)
    return 1;
  uv_run(&loop, UV_RUN_DEFAULT);
  tw_timer_close(&t, nullptr);
  tw_service_close(&service, nullptr);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? 0 : 1;
}

int run_loop() {
  tickwheel::event_loop loop;
  if (loop.open() != 0) return 1;
  inspected::session busy{loop.timers()};
  if (busy.request.arm(1ms) != 0 || busy.blocks.arm(1ms) != 0) return 1;
  uv_pipe_t input;
  uv_pipe_init(&loop.uv(), &input, 0);
  if (uv_pipe_open(&input, 0) != 0) return 1;
  input.data = &loop;
  uv_read_start(
      reinterpret_cast<uv_stream_t*>(&input),
      [](uv_handle_t*, std::size_t, uv_buf_t* buffer) {
        static char unread;
        *buffer = uv_buf_init(&unread, 1);
      },
      [](uv_stream_t* stream, ssize_t, const uv_buf_t*) {
        uv_close(reinterpret_cast<uv_handle_t*>(stream), nullptr);
        static_cast<tickwheel::event_loop*>(stream->data)->stop();
      });
  loop.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) return show();
  return std::string_view{argv[1]} == "c" ? run_c() : run_loop();
}
