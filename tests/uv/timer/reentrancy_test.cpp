// Handlers act on other timers and on the service. Each leaves the service in order. What they may do to their own timer:
// tests/net/conformance, for each class.
#include "../support/probe.hpp"

using tickwheel::service_options;
using tickwheel::timer_service;

namespace {

using handler = manual_test;

constexpr int ready = 9;  // timers due in the same tick; odd, so that there is a middle one

/// Runs `ready` timers due in one tick; the first of them to fire does `act` to the victim, unless it is the victim.
/// Calls `act` with each of them as the victim once, so with the head, the middle and the last of what is to run.
template <class Act>
void for_each_victim(const service_options& options, Act act) {
  for (std::size_t victim = 0; victim < ready; ++victim) {
    SCOPED_TRACE(victim);
    manual_service service{options};
    std::deque<probe> set;
    bool acted = false;
    for (std::size_t i = 0; i < ready; ++i) {
      set.emplace_back(service.timers, [&, i] {
        if (acted || i == victim) return;
        if (set[victim].fired != 0) return;
        acted = true;
        act(set[victim]);
        EXPECT_TRUE(is_valid(service.timers));
      });
      ASSERT_EQ(set.back().timeout.arm(10ms), 0);
    }
    service.advance(11ms);
    int fired = 0;
    for (const probe& p : set) fired += p.fired;
    EXPECT_EQ(fired, acted ? ready - 1 : ready);
    if (acted) {
      EXPECT_EQ(set[victim].fired, 0);
    }
  }
}

TEST_F(handler, cancels_another_due_timer) {
  for_each_victim({}, [](probe& victim) { EXPECT_TRUE(victim.timeout.cancel()); });
}

TEST_F(handler, cancels_another_due_timer_in_passes_of_one) {
  for_each_victim({.work_per_pass = 1}, [](probe& victim) { EXPECT_TRUE(victim.timeout.cancel()); });
}

TEST_F(handler, moves_another_due_timer) {
  for_each_victim({}, [](probe& victim) { victim.arm(1s); });
}

TEST_F(handler, cancels_and_rearms_another_due_timer) {
  for_each_victim({}, [](probe& victim) {
    EXPECT_TRUE(victim.timeout.cancel());
    victim.arm(5ms);
  });
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

TEST_F(handler, destroys_another_due_timer) {
  for (std::size_t victim = 0; victim < ready; ++victim) {
    reopen({});
    std::vector<std::unique_ptr<probe>> set;
    for (std::size_t i = 0; i < ready; ++i) {
      set.push_back(std::make_unique<probe>(timers, [&, i] {
        if (i != victim) set[victim].reset();
      }));
      set.back()->arm(10ms);
    }
    service.advance(11ms);
    EXPECT_GE(timers.stats().fired, static_cast<std::size_t>(ready) - 1);
  }
}

TEST_F(handler, destroys_all_due_timers) {
  std::vector<std::unique_ptr<probe>> set;
  for (int i = 0; i < ready; ++i) {
    set.push_back(std::make_unique<probe>(timers, [&] { set.clear(); }));
    set.back()->arm(10ms);
  }
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
  tickwheel::manual_driver time;
  auto owned = std::make_unique<timer_service>();
  ASSERT_EQ(owned->open(time), 0);
  struct bomb {
    explicit bomb(std::unique_ptr<timer_service>& service) : owned{service}, timeout{*service, *this} {}
    void on_timeout() noexcept {
      ++fired;
      owned.reset();
    }
    std::unique_ptr<timer_service>& owned;
    int fired = 0;
    tickwheel::member_timer<&bomb::on_timeout> timeout;
  };
  std::deque<bomb> set;
  for (int i = 0; i < ready; ++i) expect_arm(set.emplace_back(owned).timeout, 10ms);
  time.advance(1s);
  EXPECT_EQ(owned, nullptr);
  int fired = 0;
  for (bomb& b : set) {
    fired += b.fired;
    EXPECT_FALSE(b.timeout.armed());
    EXPECT_FALSE(b.timeout.cancel());
  }
  EXPECT_EQ(fired, 1);
  EXPECT_FALSE(time.alive());
  EXPECT_EQ(time.next_wakeup(), tickwheel::clock::time_point::max());
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
  std::deque<probe> many;
  p.then = [&] {
    for (int i = 0; i < 512; ++i) many.emplace_back(timers).arm(1us * i);
  };
  p.arm(1ms);
  service.advance(10ms);
  EXPECT_EQ(std::count_if(many.begin(), many.end(), [](const probe& each) { return each.fired == 1; }), 512);
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
  for (int i = 0; i < ready; ++i) {
    set.push_back(std::make_unique<probe>(timers));
    set.back()->arm(10ms);
  }
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
  std::deque<probe> set;
  hungry.arm(0s);
  for (int i = 0; i < ready; ++i) set.emplace_back(timers).arm(1ms);
  for (int i = 0; i < 200; ++i) service.advance(service.tick());
  for (const probe& each : set) EXPECT_EQ(each.fired, 1);
}

}  // namespace
