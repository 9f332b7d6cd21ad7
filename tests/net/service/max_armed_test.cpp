// What arms itself again keeps its place among the armed timers, also when other threads' timers, which are not refused
// once they were accepted, have made more of them than `max_armed` meanwhile.
#include <tickwheel/tickwheel.hpp>

#include "../../uv/support/probe.hpp"

#include <gtest/gtest.h>

#include <chrono>

using namespace std::chrono_literals;

namespace {

class owner {
 public:
  explicit owner(tickwheel::timer_service& timers) : idle{timers, *this}, drain{timers, *this} {}

  void on_time() noexcept { ++called; }

  int called = 0;
  tickwheel::idle_timeout<&owner::on_time> idle;
  tickwheel::drain<&owner::on_time> drain;
};

// Of one local timer at most, and as many of other threads.
struct full_service : manual_service {
  full_service() : manual_service{{.max_armed = 1}} {}

  void fill() {
    ASSERT_EQ(timers.remote().post(1h, []() noexcept {}), 0);
    turn();
    ASSERT_EQ(timers.stats().pending, 2U);
  }
};

struct at_max_armed : testing::Test {
  full_service service;
  owner o{service.timers};
};

TEST_F(at_max_armed, touched_idle_timeout_waits_for_rest) {
  ASSERT_EQ(o.idle.start(1s), 0);
  service.fill();
  service.advance(500ms);
  o.idle.touch();
  service.advance(999ms);
  EXPECT_EQ(o.called, 0);
  EXPECT_TRUE(o.idle.armed());
  service.advance(1s);
  EXPECT_EQ(o.called, 1);
}

TEST_F(at_max_armed, unreferenced_idle_timeout_stays_armed) {
  o.idle.unref();
  ASSERT_EQ(o.idle.start(1s), 0);
  service.fill();
  service.advance(500ms);
  o.idle.touch();
  service.advance(600ms);
  service.check();
  EXPECT_TRUE(o.idle.armed());
}

class member {
 public:
  explicit member(tickwheel::drain_group& group) : draining{group, *this} {}
  void on_drain(tickwheel::drain_call) noexcept { ++told; }
  int told = 0;
  tickwheel::drain_member<&member::on_drain> draining;
};

TEST_F(at_max_armed, drain_tells_all_and_ends) {
  member a{o.drain}, b{o.drain};
  b.draining.begin_request();
  ASSERT_EQ(o.drain.start({.hard_stop = 1s, .spread = 0s}), 0);
  service.fill();
  service.advance(500ms);
  EXPECT_EQ(a.told, 1);
  service.advance(2s);
  EXPECT_EQ(b.told, 1);
  a.draining.leave();
  b.draining.leave();
  service.advance(1ms);
  EXPECT_EQ(o.called, 1);
}

}  // namespace
