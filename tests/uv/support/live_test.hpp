// A test on a live loop: a service, and a timer that notes that it fired.
#pragma once

#include "live_loop.hpp"
#include "probe.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

/// The service is closed until the test opens it. Its invariants hold in the end.
class live_test : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(is_valid(timers));
    EXPECT_TRUE(adds_up(timers));
  }
  void open(const tickwheel::service_options& options = {}) { ASSERT_EQ(timers.open(loop, with_wakeup(options)), 0); }
  bool alive() { return uv_loop_alive(loop.get()) != 0; }

  live_loop loop;
  tickwheel::timer_service timers;
  probe p{timers};
};
