// A timer reaches its own service, whichever service its thread has used before.
#include "../support/probe.hpp"

namespace {

/// Two services of one thread.
class last_service : public testing::Test {
 protected:
  struct side {
    tickwheel::manual_service service;
    probe p{service.timers};
  };
  side a, b;
};

TEST_F(last_service, timers_of_two_services_take_turns) {
  for (int i = 0; i < 100; ++i) {
    for (side* s : {&a, &b}) {
      ASSERT_EQ(s->p.timeout.arm_at(s->service.timers.now() + 1ms), 0);
      EXPECT_EQ(a.service.timers.stats().pending, s == &a ? 1U : 0U);
      EXPECT_EQ(b.service.timers.stats().pending, s == &b ? 1U : 0U);
      EXPECT_TRUE(s->p.timeout.cancel());
      EXPECT_EQ(a.service.timers.stats().pending + b.service.timers.stats().pending, 0U);
    }
  }
  a.p.arm(1ms);
  b.p.arm(1ms);
  a.service.advance(2ms);
  EXPECT_EQ(a.p.fired, 1);
  EXPECT_EQ(b.p.fired, 0);
  b.service.advance(2ms);
  EXPECT_EQ(b.p.fired, 1);
}

TEST_F(last_service, is_not_that_of_a_closed_one) {
  a.p.arm(1ms);
  b.service.timers.close();
  EXPECT_EQ(b.p.timeout.arm_at(b.service.timers.now() + 1ms), UV_ECANCELED);
  EXPECT_FALSE(b.p.timeout.cancel());
  a.service.advance(2ms);
  EXPECT_EQ(a.p.fired, 1);
}

TEST_F(last_service, timers_without_a_reference_come_between) {
  probe quiet{a.service.timers};
  quiet.timeout.unref();
  for (int i = 0; i < 10; ++i) {
    for (probe* p : {&a.p, &quiet, &b.p}) ASSERT_EQ(p->timeout.arm_at(tickwheel::clock::time_point{2h}), 0);
    EXPECT_EQ(a.service.timers.stats().pending, 2U);
    EXPECT_EQ(b.service.timers.stats().pending, 1U);
    for (probe* p : {&quiet, &b.p, &a.p}) EXPECT_TRUE(p->timeout.cancel());
  }
}

TEST_F(last_service, at_one_address_is_the_one_made_there_last) {
  std::optional<tickwheel::manual_service> service;
  for (int i = 0; i < 3; ++i) {
    service.emplace();
    probe p{service->timers};
    for (int k = 0; k <= i; ++k) {
      ASSERT_EQ(p.timeout.arm_at(service->timers.now() + 1ms), 0);
      service->advance(2ms);
    }
    EXPECT_EQ(p.fired, i + 1);
    EXPECT_EQ(service->timers.stats().armed, static_cast<unsigned>(i + 1));
  }
}

TEST_F(last_service, another_thread_has_its_own) {
  tickwheel::manual_service here;
  probe p{here.timers, 1ms};
  int fired_there = 0;
  std::thread{[&] {
    tickwheel::manual_service there;
    probe q{there.timers};
    ASSERT_EQ(q.timeout.arm_at(there.timers.now() + 1ms), 0);
    there.advance(2ms);
    fired_there = q.fired;
  }}.join();
  EXPECT_EQ(fired_there, 1);
  here.advance(2ms);
  EXPECT_EQ(p.fired, 1);
}

}  // namespace
