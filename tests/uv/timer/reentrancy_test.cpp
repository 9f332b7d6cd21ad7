// What handlers may do to timers, their own included, and to the service. Each leaves the service in order.
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

using namespace std::chrono_literals;
using tickwheel::service_options;
using tickwheel::timer_service;

namespace {

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

TEST(handler, may_cancel_any_other_of_the_ready_set_which_then_does_not_run) {
  for_each_victim({}, [](probe& victim) { EXPECT_TRUE(victim.timeout.cancel()); });
}

TEST(handler, may_cancel_any_other_of_the_ready_set_although_a_pass_does_one_at_a_time) {
  for_each_victim({.work_per_pass = 1}, [](probe& victim) { EXPECT_TRUE(victim.timeout.cancel()); });
}

TEST(handler, may_move_any_other_of_the_ready_set_later_which_then_does_not_run_yet) {
  for_each_victim({}, [](probe& victim) { EXPECT_EQ(victim.timeout.arm(1s), 0); });
}

TEST(handler, may_cancel_and_arm_again_one_of_the_ready_set_which_then_waits_for_its_new_time) {
  for_each_victim({}, [](probe& victim) {
    EXPECT_TRUE(victim.timeout.cancel());
    EXPECT_EQ(victim.timeout.arm(5ms), 0);
  });
}

TEST(handler, may_cancel_a_timer_that_is_not_yet_due) {
  manual_service service;
  probe later{service.timers};
  probe first{service.timers, [&] { EXPECT_TRUE(later.timeout.cancel()); }};
  ASSERT_EQ(later.timeout.arm(20ms), 0);
  ASSERT_EQ(first.timeout.arm(10ms), 0);
  service.advance(1s);
  EXPECT_EQ(first.fired, 1);
  EXPECT_EQ(later.fired, 0);
}

TEST(handler, cancels_nothing_when_it_cancels_its_own_timer) {
  manual_service service;
  bool cancelled = true;
  probe p{service.timers};
  p.then = [&] { cancelled = p.timeout.cancel(); };
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  service.advance(10ms);
  EXPECT_FALSE(cancelled);
}

TEST(handler, finds_its_own_timer_unarmed) {
  manual_service service;
  bool armed = true;
  probe p{service.timers};
  p.then = [&] { armed = p.timeout.armed(); };
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  service.advance(10ms);
  EXPECT_FALSE(armed);
}

TEST(handler, may_arm_its_own_timer_again) {
  manual_service service;
  probe p{service.timers};
  p.then = [&] { EXPECT_EQ(p.timeout.arm(10ms), 0); };
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  service.advance(100ms + 10 * service.tick());
  EXPECT_EQ(p.fired, 10);
}

TEST(handler, that_arms_its_own_timer_with_zero_runs_again_in_the_next_pass_and_not_in_this_one) {
  manual_service service;
  probe p{service.timers};
  std::size_t last_pass = 0;
  p.then = [&] {
    EXPECT_NE(service.timers.stats().passes, last_pass);
    last_pass = service.timers.stats().passes;
    EXPECT_EQ(p.timeout.arm(0s), 0);
  };
  ASSERT_EQ(p.timeout.arm(0s), 0);
  for (int i = 0; i < 10; ++i) service.advance(0s);
  EXPECT_EQ(p.fired, 10);
}

TEST(handler, that_arms_another_timer_with_a_negative_delay_does_not_run_it_in_this_pass) {
  manual_service service;
  std::size_t pass_of_other = 0;
  std::size_t pass_of_first = 0;
  probe other{service.timers, [&] { pass_of_other = service.timers.stats().passes; }};
  probe first{service.timers, [&] {
                pass_of_first = service.timers.stats().passes;
                EXPECT_EQ(other.timeout.arm(-1h), 0);
              }};
  ASSERT_EQ(first.timeout.arm(1ms), 0);
  service.advance(10ms);
  EXPECT_EQ(pass_of_other, pass_of_first + 1);
}

TEST(handler, that_blocks_and_then_arms_a_timer_with_zero_does_not_run_it_in_this_pass) {
  manual_service service;
  std::size_t pass_of_other = 0;
  std::size_t pass_of_first = 0;
  probe other{service.timers, [&] { pass_of_other = service.timers.stats().passes; }};
  probe first{service.timers, [&] {
                pass_of_first = service.timers.stats().passes;
                EXPECT_EQ(other.timeout.arm(0s), 0);
                service.time.block(100us);
              }};
  ASSERT_EQ(first.timeout.arm(1ms), 0);
  service.advance(10ms);
  EXPECT_EQ(pass_of_other, pass_of_first + 1);
}

TEST(handler, may_destroy_its_own_timer) {
  manual_service service;
  auto p = std::make_unique<probe>(service.timers);
  p->then = [&] { p.reset(); };
  ASSERT_EQ(p->timeout.arm(1ms), 0);
  service.advance(10ms);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(service.timers.stats().fired, 1U);
}

TEST(handler, may_arm_its_own_timer_and_then_destroy_it) {
  manual_service service;
  auto p = std::make_unique<probe>(service.timers);
  p->then = [&] {
    EXPECT_EQ(p->timeout.arm(0s), 0);
    p.reset();
  };
  ASSERT_EQ(p->timeout.arm(1ms), 0);
  service.advance(10ms);
  EXPECT_EQ(service.timers.stats().fired, 1U);
}

TEST(handler, may_destroy_any_other_of_the_ready_set) {
  for (std::size_t victim = 0; victim < ready; ++victim) {
    manual_service service;
    std::vector<std::unique_ptr<probe>> set;
    for (std::size_t i = 0; i < ready; ++i) {
      set.push_back(std::make_unique<probe>(service.timers, [&, i] {
        if (i != victim) set[victim].reset();
      }));
      ASSERT_EQ(set.back()->timeout.arm(10ms), 0);
    }
    service.advance(11ms);
    EXPECT_GE(service.timers.stats().fired, static_cast<std::size_t>(ready) - 1);
  }
}

TEST(handler, may_destroy_all_of_the_ready_set) {
  manual_service service;
  std::vector<std::unique_ptr<probe>> set;
  for (int i = 0; i < ready; ++i) {
    set.push_back(std::make_unique<probe>(service.timers, [&] { set.clear(); }));
    ASSERT_EQ(set.back()->timeout.arm(10ms), 0);
  }
  service.advance(11ms);
  EXPECT_EQ(service.timers.stats().fired, 1U);
  EXPECT_EQ(service.timers.stats().cancelled, static_cast<std::size_t>(ready) - 1);
}

TEST(handler, may_close_the_service_and_what_was_ready_does_not_run) {
  manual_service service;
  std::deque<probe> set;
  for (int i = 0; i < ready; ++i) {
    set.emplace_back(service.timers, [&] { service.timers.close(); });
    ASSERT_EQ(set.back().timeout.arm(10ms), 0);
  }
  service.advance(1s);
  EXPECT_FALSE(service.timers.is_open());
  EXPECT_EQ(service.timers.stats().fired, 1U);
  for (probe& p : set) {
    EXPECT_FALSE(p.timeout.armed());
    EXPECT_EQ(p.timeout.arm(1ms), UV_ECANCELED);
  }
}

TEST(handler, that_closes_the_service_cannot_arm_its_timer_any_more) {
  manual_service service;
  probe p{service.timers};
  int answer = 0;
  p.then = [&] {
    service.timers.close();
    answer = p.timeout.arm(1ms);
  };
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  service.time.advance(1s);
  EXPECT_EQ(answer, UV_ECANCELED);
  EXPECT_FALSE(p.timeout.armed());
}

TEST(handler, may_destroy_the_service_and_what_was_ready_does_not_run) {
  tickwheel::manual_driver time;
  auto timers = std::make_unique<timer_service>();
  ASSERT_EQ(timers->open(time), 0);
  struct bomb {
    explicit bomb(std::unique_ptr<timer_service>& service) : timers{service}, timeout{*service, *this} {}
    void on_timeout() noexcept {
      ++fired;
      timers.reset();
    }
    std::unique_ptr<timer_service>& timers;
    int fired = 0;
    tickwheel::member_timer<&bomb::on_timeout> timeout;
  };
  std::deque<bomb> set;
  for (int i = 0; i < ready; ++i) ASSERT_EQ(set.emplace_back(timers).timeout.arm(10ms), 0);
  time.advance(1s);
  EXPECT_EQ(timers, nullptr);
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

TEST(handler, may_close_the_service_and_open_it_again) {
  manual_service service;
  probe p{service.timers};
  probe other{service.timers};
  p.then = [&] {
    service.timers.close();
    ASSERT_EQ(service.timers.open(service.time), 0);
    EXPECT_EQ(p.timeout.arm(10ms), 0);
    p.then = {};
  };
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  ASSERT_EQ(other.timeout.arm(10ms), 0);
  service.advance(1s);
  EXPECT_EQ(p.fired, 2);
  EXPECT_LE(other.fired, 1);
  EXPECT_EQ(service.timers.stats().fired, 1U);  // counted anew
}

TEST(handler, may_arm_many_timers) {
  manual_service service;
  std::deque<probe> many;
  probe p{service.timers, [&] {
            for (int i = 0; i < 512; ++i) ASSERT_EQ(many.emplace_back(service.timers).timeout.arm(1us * i), 0);
          }};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  service.advance(10ms);
  EXPECT_EQ(std::count_if(many.begin(), many.end(), [](const probe& each) { return each.fired == 1; }), 512);
}

TEST(handler, sees_the_time_its_pass_judges_by_and_it_is_not_before_the_deadline) {
  manual_service service;
  tickwheel::clock::time_point deadline;
  probe p{service.timers, [&] { EXPECT_GE(service.timers.judged_at(), deadline); }};
  ASSERT_EQ(p.timeout.arm(3ms), 0);
  deadline = p.timeout.deadline();
  service.advance(10ms);
  EXPECT_EQ(p.fired, 1);
}

TEST(carried_timer, that_is_cancelled_between_two_passes_does_not_run) {
  manual_service service{{.work_per_pass = 1}};
  std::deque<probe> set;
  for (int i = 0; i < ready; ++i) ASSERT_EQ(set.emplace_back(service.timers).timeout.arm(10ms), 0);
  service.time.block(11ms);
  while (service.timers.stats().fired == 0) ASSERT_TRUE(service.turn());
  ASSERT_TRUE(service.time.carrying());
  for (probe& p : set) p.timeout.cancel();
  service.advance(1s);
  EXPECT_EQ(service.timers.stats().fired, 1U);
  EXPECT_FALSE(service.time.carrying());
}

TEST(carried_timer, that_is_destroyed_between_two_passes_leaves_the_rest_to_run) {
  manual_service service{{.work_per_pass = 1}};
  std::vector<std::unique_ptr<probe>> set;
  for (int i = 0; i < ready; ++i) {
    set.push_back(std::make_unique<probe>(service.timers));
    ASSERT_EQ(set.back()->timeout.arm(10ms), 0);
  }
  service.time.block(11ms);
  while (service.timers.stats().fired == 0) ASSERT_TRUE(service.turn());
  const auto victim = std::find_if(set.begin(), set.end(), [](const auto& p) { return p->timeout.armed(); });
  set.erase(victim);
  service.advance(1s);
  EXPECT_EQ(service.timers.stats().fired, static_cast<std::size_t>(ready) - 1);
  EXPECT_EQ(service.timers.stats().cancelled, 1U);
}

TEST(carried_timer, waits_in_order_when_new_ones_are_armed_with_zero_meanwhile) {
  manual_service service{{.work_per_pass = 1}};
  probe hungry{service.timers};
  hungry.then = [&] { hungry.arm(0s); };
  std::deque<probe> set;
  ASSERT_EQ(hungry.timeout.arm(0s), 0);
  for (int i = 0; i < ready; ++i) ASSERT_EQ(set.emplace_back(service.timers).timeout.arm(1ms), 0);
  for (int i = 0; i < 200; ++i) service.advance(service.tick());
  for (const probe& p : set) EXPECT_EQ(p.fired, 1);
}

}  // namespace
