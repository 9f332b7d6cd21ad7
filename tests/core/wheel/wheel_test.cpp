// What every wheel does, whatever its shape and whatever the time.
#include "../support/probe.hpp"
#include "../support/wheel_cases.hpp"

#include <gmock/gmock.h>

namespace tickwheel::test {
namespace {

using testing::ElementsAre;

class wheel_test : public testing::TestWithParam<wheel_case> {
 protected:
  const wheel_geometry geometry = GetParam().geometry;
  const tick origin = GetParam().origin;
  wheel timers{geometry, origin};

  // as far as it goes without leaving time for a timer after it
  tick horizon() const { return last_tick - origin; }

  advance_result advance_to(tick now) {
    const advance_result result = timers.advance(now);
    EXPECT_TRUE(result.done);
    EXPECT_EQ(timers.now(), now);
    EXPECT_TRUE(valid(timers));
    return result;
  }
};

TEST_P(wheel_test, a_timer_is_silent_before_its_deadline_and_fires_at_it) {
  for (const tick delay : delays_of_interest(geometry)) {
    SCOPED_TRACE(delay);
    wheel fresh{geometry, origin};
    probe timer{fresh};
    fresh.arm(timer, origin + delay);
    EXPECT_TRUE(valid(fresh));
    fresh.advance(origin + delay - 1);
    EXPECT_TRUE(valid(fresh));
    EXPECT_EQ(timer.fired(), 0U);
    fresh.advance(origin + delay);
    EXPECT_TRUE(valid(fresh));
    EXPECT_THAT(timer.fired_at(), ElementsAre(origin + delay));
  }
}

TEST_P(wheel_test, a_timer_fires_once) {
  probe timer{timers};
  timers.arm(timer, origin + 3);
  for (tick t = 1; t < std::min<tick>(3 * geometry.slots, horizon()); ++t) timers.advance(origin + t);
  EXPECT_THAT(timer.fired_at(), ElementsAre(origin + 3));
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel_test, ticking_through_fires_each_timer_at_its_own_tick) {
  const std::size_t count = std::min<std::size_t>(3 * geometry.slots, 1000);
  probes all{timers, count};
  for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], origin + 1 + i);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(timers.advance(origin + 1 + i).ran, 1U);
    ASSERT_THAT(all[i].fired_at(), ElementsAre(origin + 1 + i));
  }
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel_test, stepping_by_next_expiry_fires_each_timer_at_its_deadline) {
  const auto delays = delays_of_interest(geometry);
  probes all{timers, delays.size()};
  for (std::size_t i = 0; i < delays.size(); ++i) timers.arm(all[i], origin + delays[i]);
  while (timers.armed() != 0) {
    ASSERT_GT(timers.next_expiry(), timers.now());
    advance_to(timers.next_expiry());
  }
  for (std::size_t i = 0; i < delays.size(); ++i) EXPECT_THAT(all[i].fired_at(), ElementsAre(origin + delays[i]));
}

TEST_P(wheel_test, one_jump_fires_everything_due) {
  const auto delays = delays_of_interest(geometry);
  probes all{timers, delays.size()};
  for (std::size_t i = 0; i < delays.size(); ++i) timers.arm(all[i], origin + delays[i]);
  EXPECT_EQ(advance_to(origin + delays.back()).ran, delays.size());
  for (probe& p : all) EXPECT_EQ(p.fired(), 1U);
}

TEST_P(wheel_test, a_jump_fires_what_is_due_and_nothing_else) {
  const auto delays = delays_of_interest(geometry);
  for (std::size_t j = 0; j < delays.size(); j += 3) {
    const tick jump = delays[j];
    SCOPED_TRACE(jump);
    wheel fresh{geometry, origin};
    probes all{fresh, delays.size()};
    for (std::size_t i = 0; i < delays.size(); ++i) fresh.arm(all[i], origin + delays[i]);
    fresh.advance(origin + jump);
    EXPECT_TRUE(valid(fresh));
    for (std::size_t i = 0; i < delays.size(); ++i) EXPECT_EQ(all[i].fired(), delays[i] <= jump ? 1U : 0U) << delays[i];
  }
}

TEST_P(wheel_test, timers_of_the_same_tick_all_fire) {
  probes all{timers, 512};
  for (probe& p : all) timers.arm(p, origin + geometry.slots);
  EXPECT_EQ(advance_to(origin + geometry.slots - 1).ran, 0U);
  EXPECT_EQ(advance_to(origin + geometry.slots).ran, 512U);
}

TEST_P(wheel_test, the_last_arm_wins) {
  const auto delays = delays_of_interest(geometry);
  for (std::size_t j = 0; j < delays.size(); j += 2)
    for (std::size_t i = 0; i < delays.size(); i += 5) {
      const tick first = delays[j];
      SCOPED_TRACE(testing::Message() << first << " then " << delays[i]);
      wheel fresh{geometry, origin};
      probe timer{fresh};
      fresh.arm(timer, origin + first);
      fresh.arm(timer, origin + delays[i]);
      EXPECT_EQ(timer.deadline(), origin + delays[i]);
      fresh.advance(origin + delays[i] - 1);
      EXPECT_EQ(timer.fired(), 0U);
      fresh.advance(origin + std::max(first, delays[i]));
      EXPECT_EQ(timer.fired(), 1U);
      EXPECT_EQ(fresh.counts().armed, 1U);
    }
}

TEST_P(wheel_test, a_timer_moved_by_one_tick_each_tick_never_fires_and_then_does) {
  const tick delay = std::min<tick>(geometry.slots + 3, horizon() / 4);
  probe timer{timers};
  const tick stop = origin + 3 * delay;
  for (tick t = origin; t <= stop; ++t) {
    timers.advance(t);
    timers.arm(timer, t + delay);
    ASSERT_EQ(timer.fired(), 0U);
  }
  EXPECT_TRUE(valid(timers));
  advance_to(stop + delay - 1);
  EXPECT_EQ(timer.fired(), 0U);
  advance_to(stop + delay);
  EXPECT_EQ(timer.fired(), 1U);
}

TEST_P(wheel_test, a_cancelled_entry_does_not_fire) {
  for (const tick delay : delays_of_interest(geometry)) {
    SCOPED_TRACE(delay);
    wheel fresh{geometry, origin};
    probe timer{fresh};
    probe other{fresh};  // with nothing armed, time would skip
    fresh.arm(timer, origin + delay);
    fresh.arm(other, origin + delay);
    fresh.cancel(timer);
    EXPECT_TRUE(valid(fresh));
    fresh.advance(origin + delay);
    EXPECT_TRUE(valid(fresh));
    EXPECT_EQ(timer.fired(), 0U);
    EXPECT_EQ(other.fired(), 1U);
  }
}

TEST_P(wheel_test, cancel_says_whether_the_entry_was_armed) {
  probe timer{timers};
  EXPECT_FALSE(timers.cancel(timer));
  timers.arm(timer, origin + 5);
  EXPECT_TRUE(timers.cancel(timer));
  EXPECT_FALSE(timers.cancel(timer));
  timers.arm(timer, origin + 5);
  advance_to(origin + 5);
  EXPECT_EQ(timer.fired(), 1U);
  EXPECT_FALSE(timers.cancel(timer));
}

TEST_P(wheel_test, a_cancelled_entry_that_is_armed_again_fires_at_its_new_deadline) {
  const auto delays = delays_of_interest(geometry);
  for (std::size_t j = 0; j < delays.size(); j += 2)
    for (std::size_t i = 0; i < delays.size(); i += 5) {
      const tick first = delays[j];
      SCOPED_TRACE(testing::Message() << first << " then " << delays[i]);
      wheel fresh{geometry, origin};
      probe timer{fresh};
      fresh.arm(timer, origin + first);
      fresh.cancel(timer);
      fresh.arm(timer, origin + delays[i]);
      fresh.advance(origin + delays[i] - 1);
      EXPECT_EQ(timer.fired(), 0U);
      fresh.advance(origin + delays[i]);
      EXPECT_THAT(timer.fired_at(), ElementsAre(origin + delays[i]));
      EXPECT_TRUE(valid(fresh));
    }
}

TEST_P(wheel_test, an_entry_cancelled_and_armed_again_long_after_its_slot_went_by_fires) {
  const auto delays = delays_of_interest(geometry);
  const tick away = delays.back() / 2;
  for (const tick first : delays) {
    if (first >= away) break;
    SCOPED_TRACE(first);
    wheel fresh{geometry, origin};
    probe timer{fresh};
    fresh.arm(timer, origin + first);
    fresh.cancel(timer);
    fresh.advance(origin + away, 0);  // no work is allowed, so that the dead link stays
    fresh.arm(timer, origin + away + first);
    EXPECT_TRUE(valid(fresh));
    fresh.advance(origin + away + first - 1);
    EXPECT_EQ(timer.fired(), 0U);
    fresh.advance(origin + away + first);
    EXPECT_THAT(timer.fired_at(), ElementsAre(origin + away + first));
    EXPECT_TRUE(valid(fresh));
  }
}

TEST_P(wheel_test, the_one_that_is_left_of_many_cancelled_fires) {
  const tick delay = std::min<tick>(2 * geometry.slots + 1, horizon());
  probes all{timers, 200};
  for (probe& p : all) timers.arm(p, origin + delay);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != 77) timers.cancel(all[i]);
  EXPECT_EQ(timers.armed(), 1U);
  EXPECT_EQ(advance_to(origin + delay).ran, 1U);
  EXPECT_EQ(all[77].fired(), 1U);
}

TEST_P(wheel_test, a_deadline_that_is_past_is_due_at_the_next_tick) {
  if (origin > 0) {
    probe timer{timers};
    timers.arm(timer, origin - 1);
    EXPECT_EQ(timer.deadline(), origin + 1);
  }
  probe now{timers};
  probe zero{timers};
  timers.arm(now, origin);
  timers.arm(zero, 0);
  EXPECT_EQ(now.deadline(), origin + 1);
  EXPECT_EQ(zero.deadline(), origin + 1);
  EXPECT_EQ(advance_to(origin).ran, 0U);
  EXPECT_EQ(advance_to(origin + 1).ran, 2U);
}

TEST_P(wheel_test, time_does_not_go_back) {
  advance_to(origin + 10);
  probe timer{timers};
  timers.arm(timer, origin + 11);
  for (const tick earlier : {tick{0}, origin, origin + 9}) {
    EXPECT_EQ(timers.advance(earlier).ran, 0U);
    EXPECT_EQ(timers.now(), origin + 10);
    EXPECT_TRUE(valid(timers));
  }
  EXPECT_EQ(advance_to(origin + 11).ran, 1U);
}

TEST_P(wheel_test, armed_and_deadline_tell_the_state_of_an_entry) {
  probe timer{timers};
  EXPECT_FALSE(timer.armed());
  EXPECT_EQ(timer.deadline(), never);
  timers.arm(timer, origin + 7);
  EXPECT_TRUE(timer.armed());
  EXPECT_EQ(timer.deadline(), origin + 7);
  timers.cancel(timer);
  EXPECT_FALSE(timer.armed());
  EXPECT_EQ(timer.deadline(), never);
  timers.arm(timer, origin + 7);
  advance_to(origin + 7);
  EXPECT_FALSE(timer.armed());
  EXPECT_EQ(timer.deadline(), never);
}

TEST_P(wheel_test, what_was_armed_has_fired_was_cancelled_or_is_pending) {
  probes all{timers, 30};
  for (std::size_t i = 0; i < 30; ++i) timers.arm(all[i], origin + 1 + i);
  for (probe& p : all) timers.arm(p, p.deadline() + 1);  // a move counts as nothing
  for (std::size_t i = 20; i < 30; ++i) timers.cancel(all[i]);
  advance_to(origin + 11);
  EXPECT_EQ(timers.counts().armed, 30U);
  EXPECT_EQ(timers.counts().cancelled, 10U);
  EXPECT_EQ(timers.counts().fired, 10U);
  EXPECT_EQ(timers.armed(), 10U);
  timers.arm(all[0], origin + 20);
  EXPECT_EQ(timers.counts().armed, 31U);
  EXPECT_EQ(timers.armed(), 11U);
}

TEST_P(wheel_test, lateness_tells_how_many_ticks_after_its_deadline_each_entry_ran) {
  probes all{timers, 3};
  for (std::size_t i = 0; i < 3; ++i) timers.arm(all[i], origin + 2);
  advance_to(origin + 2);
  timers.arm(all[0], origin + 4);
  advance_to(origin + 13);
  EXPECT_EQ(timers.lateness().count(), 4U);
  EXPECT_EQ(timers.lateness().max(), 9U);
  EXPECT_EQ(timers.lateness().percentile(0.75), 0U);
}

TEST_P(wheel_test, the_hook_is_told_of_each_entry_before_its_callback) {
  struct seen {
    std::vector<wheel_entry*> entries;
    bool unarmed = true;
    std::size_t ran_before = 0;
    tick deadline = never;
  } hook;
  probe timer{timers};
  timers.on_fire(
      [](void* context, wheel_entry& e, tick deadline) noexcept {
        auto& s = *static_cast<seen*>(context);
        s.deadline = deadline;
        s.entries.push_back(&e);
        s.unarmed = s.unarmed && !e.armed();
        s.ran_before += static_cast<probe&>(e).fired();
      },
      &hook);
  timers.arm(timer, origin + 1);
  advance_to(origin + 1);
  EXPECT_THAT(hook.entries, ElementsAre(&timer));
  EXPECT_TRUE(hook.unarmed);
  EXPECT_EQ(hook.ran_before, 0U);
  EXPECT_EQ(hook.deadline, origin + 1);

  timers.on_fire(nullptr, nullptr);
  timers.arm(timer, origin + 2);
  advance_to(origin + 2);
  EXPECT_EQ(hook.entries.size(), 1U);
}

TEST_P(wheel_test, a_wheel_is_empty_when_nothing_is_linked) {
  EXPECT_TRUE(timers.empty());
  probe timer{timers};
  timers.arm(timer, origin + 9);
  EXPECT_FALSE(timers.empty());
  advance_to(origin + 9);
  EXPECT_TRUE(timers.empty());
}

TEST_P(wheel_test, powers_of_two_as_delays_fire_on_the_tick) {
  std::deque<probe> all;
  for (unsigned bit = 0; bit <= 50 && (tick{1} << bit) <= horizon(); ++bit) {
    all.emplace_back(timers);
    timers.arm(all.back(), origin + (tick{1} << bit));
  }
  while (timers.armed() != 0) advance_to(timers.next_expiry());
  for (std::size_t bit = 0; bit < all.size(); ++bit)
    EXPECT_THAT(all[bit].fired_at(), ElementsAre(origin + (tick{1} << bit)));
}

TEST_P(wheel_test, far_deadlines_are_exact) {
  for (const tick delay : {(tick{1} << 40) + 1, (tick{1} << 50) - 1, tick{1} << 50, (tick{1} << 62) + 12345}) {
    if (delay > horizon()) continue;
    SCOPED_TRACE(delay);
    wheel fresh{geometry, origin};
    probe timer{fresh};
    fresh.arm(timer, origin + delay);
    fresh.advance(origin + delay / 3);
    EXPECT_TRUE(valid(fresh));
    fresh.advance(origin + delay - 1);
    EXPECT_EQ(timer.fired(), 0U);
    EXPECT_TRUE(valid(fresh));
    fresh.advance(origin + delay);
    EXPECT_EQ(timer.fired(), 1U);
  }
}

TEST_P(wheel_test, a_timer_armed_in_mid_turn_fires_on_the_tick) {
  const auto delays = delays_of_interest(geometry);
  for (const tick now : {delays[delays.size() / 4], delays[delays.size() / 2]})
    for (std::size_t i = 0; i < delays.size(); i += 2) {
      const tick delay = delays[i];
      if (now + delay >= delays.back()) break;
      SCOPED_TRACE(testing::Message() << now << " + " << delay);
      wheel fresh{geometry, origin};
      probe keeps{fresh};  // with nothing armed, time would skip
      probe timer{fresh};
      fresh.arm(keeps, origin + delays.back());
      fresh.advance(origin + now);
      fresh.arm(timer, origin + now + delay);
      EXPECT_TRUE(valid(fresh));
      fresh.advance(origin + now + delay - 1);
      EXPECT_EQ(timer.fired(), 0U);
      fresh.advance(origin + now + delay);
      EXPECT_THAT(timer.fired_at(), ElementsAre(origin + now + delay));
      EXPECT_TRUE(valid(fresh));
    }
}

TEST_P(wheel_test, two_hours_idle_do_not_delay_a_timer_armed_then) {
  const tick idle = std::min<tick>(tick{7200} << 13, horizon() / 2);
  advance_to(origin + idle);
  probe timer{timers};
  timers.arm(timer, origin + idle + 2);
  EXPECT_EQ(timers.next_expiry(), origin + idle + 2);
  EXPECT_EQ(advance_to(origin + idle + 1).ran, 0U);
  EXPECT_EQ(advance_to(origin + idle + 2).ran, 1U);
}

INSTANTIATE_TEST_SUITE_P(all, wheel_test, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace tickwheel::test
