// Other threads request a pass from a driver.
#include "../../support/allocation_probe.hpp"
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"

#include <dlfcn.h>

using tickwheel::driver;
using tickwheel::timer_service;

namespace {

int answer_of_async_init = 0;  // the answer of the next uv_async_init; 0: its own

}  // namespace

// Replaces libuv's own, because descriptors cannot be made scarce at exactly this point.
extern "C" __attribute__((visibility("default"))) int uv_async_init(uv_loop_t* loop, uv_async_t* async,
                                                                    uv_async_cb call) {
  if (answer_of_async_init != 0) return answer_of_async_init;
  static const auto real = reinterpret_cast<decltype(&uv_async_init)>(dlsym(RTLD_NEXT, "uv_async_init"));
  return real(loop, async, call);
}

namespace {

void request(driver& d) { d.request_pass(); }  // manual_driver hides it from its users

using request_pass = manual_test;

TEST_F(request_pass, next_turn_of_manual_driver_is_a_pass) {
  EXPECT_FALSE(service.turn());
  request(service.time);
  request(service.time);
  EXPECT_TRUE(service.turn());
  EXPECT_FALSE(service.turn());
  EXPECT_EQ(timers.stats().passes, 1U);
  EXPECT_EQ(timers.stats().wakeups, 1U);
}

TEST_F(request_pass, advance_by_nothing_answers_it) {
  request(service.time);
  service.advance(0ns);
  EXPECT_EQ(timers.stats().passes, 1U);
}

TEST_F(request_pass, close_forgets_it) {
  request(service.time);
  timers.close();
  ASSERT_EQ(timers.open(service.time), 0);
  EXPECT_FALSE(service.turn());
}

TEST_F(request_pass, does_not_hasten_timers) {
  p.arm(1ms);
  request(service.time);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(p.fired, 0);
  service.advance(2ms);
  EXPECT_EQ(p.fired, 1);
}

TEST_F(request_pass, does_not_hasten_timers_of_the_running_tick) {
  p.arm(service.tick());
  service.time.block(service.tick() / 2);
  request(service.time);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(p.fired, 0);
}

TEST_F(request_pass, open_answers_error_of_uv_async_init) {
  live_loop loop;
  timer_service own;
  const auto before = allocations::outstanding();
  answer_of_async_init = UV_EMFILE;
  EXPECT_EQ(own.open(loop), UV_EMFILE);
  const int by_timerfd = own.open(loop, {.wakeup = tickwheel::wake_by::timerfd});
  EXPECT_TRUE(by_timerfd == UV_EMFILE || by_timerfd == UV_ENOTSUP) << by_timerfd;
  answer_of_async_init = 0;
  EXPECT_FALSE(own.is_open());
  EXPECT_EQ(allocations::outstanding(), before);
  EXPECT_EQ(uv_loop_alive(loop.get()), 0);
  ASSERT_EQ(own.open(loop), 0);
  EXPECT_TRUE(fires(own, [&] { loop.run(); }));
}

}  // namespace
