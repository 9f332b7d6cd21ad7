// Handlers act on other timers and on the service. Each leaves the service in order. What they may do to their own timer:
// tests/net/conformance, for each class.
#include "../support/probe.hpp"

namespace {

using handler = manual_test;

constexpr int ready = 9;  // timers due in the same tick; odd, so that there is a middle one

/// Runs `ready` timers due in one tick, in one pass and in passes of one. The first of them to fire does `act` to the victim, unless
/// it is the victim. Each of them is the victim once, so the head, the middle and the last of what is to run.
template <class Act>
void for_each_victim(Act act) {
  for (const std::size_t work : {1U, 1024U}) {
    for (std::size_t victim = 0; victim < ready; ++victim) {
      SCOPED_TRACE(testing::Message{} << "victim " << victim << ", passes of " << work);
      manual_service service{{.work_per_pass = work}};
      std::vector<std::unique_ptr<probe>> set;
      bool acted = false;
      for (std::size_t i = 0; i < ready; ++i) {
        set.push_back(std::make_unique<probe>(service.timers, 10ms, [&, i] {
          if (acted || i == victim || set[victim]->fired != 0) return;
          acted = true;
          act(set[victim]);
          EXPECT_TRUE(is_valid(service.timers));
        }));
      }
      service.advance(11ms);
      int fired = 0;
      for (const auto& p : set) fired += p ? p->fired : 0;
      EXPECT_EQ(fired, acted ? ready - 1 : ready);
      if (acted && set[victim]) {
        EXPECT_EQ(set[victim]->fired, 0);
      }
    }
  }
}

using victim_of_handler = std::unique_ptr<probe>;

TEST_F(handler, cancels_another_due_timer) {
  for_each_victim([](victim_of_handler& victim) { EXPECT_TRUE(victim->timeout.cancel()); });
}

TEST_F(handler, moves_another_due_timer) {
  for_each_victim([](victim_of_handler& victim) { victim->arm(1s); });
}

TEST_F(handler, cancels_and_rearms_another_due_timer) {
  for_each_victim([](victim_of_handler& victim) {
    EXPECT_TRUE(victim->timeout.cancel());
    victim->arm(5ms);
  });
}

TEST_F(handler, destroys_another_due_timer) {
  for_each_victim([](victim_of_handler& victim) { victim.reset(); });
}

TEST_F(handler, negative_and_zero_delays_wait_for_next_pass) {
  for (const std::chrono::nanoseconds after : {-1h, 0h}) {
    std::size_t pass_of_other = 0, pass_of_first = 0;
    probe other{timers, [&] { pass_of_other = timers.stats().passes; }};
    probe first{timers, 1ms, [&] {
                  pass_of_first = timers.stats().passes;
                  other.arm(after);
                  if (after == 0ns) service.time.block(100us);
                }};
    service.advance(10ms);
    EXPECT_EQ(pass_of_other, pass_of_first + 1) << after.count();
  }
}

TEST_F(handler, rearms_and_destroys_its_own_timer) {
  auto own = std::make_unique<probe>(timers);
  own->then = [&] {
    own->arm(0s);
    own.reset();
  };
  own->arm(1ms);
  service.advance(10ms);
  EXPECT_EQ(timers.stats().fired, 1U);
}

TEST_F(handler, destroys_all_due_timers) {
  std::vector<std::unique_ptr<probe>> set;
  for (int i = 0; i < ready; ++i) set.push_back(std::make_unique<probe>(timers, 10ms, [&] { set.clear(); }));
  service.advance(11ms);
  EXPECT_EQ(timers.stats().fired, 1U);
  EXPECT_EQ(timers.stats().cancelled, static_cast<std::size_t>(ready) - 1);
}

TEST_F(handler, close_in_handler_stops_due_timers) {
  probes set{timers, ready, 10ms, [&] { timers.close(); }};
  service.advance(1s);
  EXPECT_FALSE(timers.is_open());
  EXPECT_EQ(timers.stats().fired, 1U);
  for (probe& each : set) {
    EXPECT_FALSE(each.timeout.armed());
    EXPECT_EQ(each.timeout.arm(1ms), UV_ECANCELED);
  }
}

TEST_F(handler, destroying_the_service_stops_due_timers) {
  mortal_service own;
  probes set{*own.timers, ready, 10ms, [&] { own.timers.reset(); }};
  own.time.advance(1s);
  EXPECT_EQ(own.timers, nullptr);
  EXPECT_EQ(set.fired(), 1);
  for (probe& each : set) {
    EXPECT_FALSE(each.timeout.armed());
    EXPECT_FALSE(each.timeout.cancel());
  }
  EXPECT_FALSE(own.time.alive());
  EXPECT_EQ(own.time.next_wakeup(), tickwheel::clock::time_point::max());
}

// A pass reads the clock after 1, 3, 7, 15, 31 and 63 handlers.
TEST_F(handler, any_in_a_pass_may_close_or_destroy_the_service) {
  for (const int last : {1, 2, 31, 32, 33, 63, 64, 65}) {
    for (const bool destroys : {false, true}) {
      SCOPED_TRACE(testing::Message{} << last << (destroys ? " destroys" : " closes"));
      mortal_service own;
      int ran = 0;
      probes set{*own.timers, 100, 10ms, [&] {
                   if (++ran != last) return;
                   if (!destroys) own.timers->close();
                   if (destroys) own.timers.reset();
                 }};
      own.time.advance(1s);
      EXPECT_EQ(ran, last);
      if (destroys) continue;
      EXPECT_EQ(own.timers->stats().handler_time.count(), static_cast<std::uint64_t>(last - 1));
      ASSERT_EQ(own.timers->open(own.time), 0);
      probe again{*own.timers, 1ms};
      own.time.advance(1s);
      EXPECT_EQ(again.fired, 1);
      EXPECT_EQ(own.timers->stats().handler_time.count(), 1U);
    }
  }
}

TEST_F(handler, closes_and_reopens_the_service) {
  probe other{timers};
  p.then = [&] {
    timers.close();
    ASSERT_EQ(timers.open(service.time), 0);
    p.arm(10ms);
    p.then = {};
  };
  p.arm(10ms);
  other.arm(10ms);
  service.advance(1s);
  EXPECT_EQ(p.fired, 2);
  EXPECT_LE(other.fired, 1);
  EXPECT_EQ(timers.stats().fired, 1U);  // counted anew
}

TEST_F(handler, arms_many_timers) {
  std::optional<probes> many;
  p.then = [&] { many.emplace(timers, 512, [](int i) { return 1us * i; }); };
  p.arm(1ms);
  service.advance(10ms);
  EXPECT_TRUE(many->each_fired_once());
}

TEST_F(handler, carried_timer_may_be_cancelled) {
  reopen({.work_per_pass = 1});
  probes set{timers, ready, 10ms};
  service.time.block(11ms);
  while (timers.stats().fired == 0) ASSERT_TRUE(service.turn());
  ASSERT_TRUE(service.time.carrying());
  set.cancel();
  service.advance(1s);
  EXPECT_EQ(timers.stats().fired, 1U);
  EXPECT_FALSE(service.time.carrying());
}

TEST_F(handler, carried_timer_may_be_destroyed) {
  reopen({.work_per_pass = 1});
  std::vector<std::unique_ptr<probe>> set;
  for (int i = 0; i < ready; ++i) set.push_back(std::make_unique<probe>(timers, 10ms));
  service.time.block(11ms);
  while (timers.stats().fired == 0) ASSERT_TRUE(service.turn());
  const auto victim = std::find_if(set.begin(), set.end(), [](const auto& each) { return each->timeout.armed(); });
  set.erase(victim);
  service.advance(1s);
  EXPECT_EQ(timers.stats().fired, static_cast<std::size_t>(ready) - 1);
  EXPECT_EQ(timers.stats().cancelled, 1U);
}

TEST_F(handler, carried_timers_are_not_starved_by_zero_delays) {
  reopen({.work_per_pass = 1});
  probe hungry{timers};
  hungry.then = [&] { hungry.arm(0s); };
  hungry.arm(0s);
  const probes set{timers, ready, 1ms};
  for (int i = 0; i < 200; ++i) service.advance(service.tick());
  EXPECT_TRUE(set.each_fired_once());
}

}  // namespace
