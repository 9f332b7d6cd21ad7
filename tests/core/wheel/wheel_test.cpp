// The behaviour of every wheel, of any shape and at any time.
#include "../support/wheel_cases.hpp"

namespace tickwheel::test {
namespace {

class wheel : public wheel_fixture {
 protected:
  // Calls `test` with a fresh wheel and each of many pairs of delays.
  template <class F>
  void for_each_two_delays(F&& test) const {
    for (std::size_t j = 0; j < delays.size(); j += 2)
      for (std::size_t i = 0; i < delays.size(); i += 5) {
        SCOPED_TRACE(testing::Message() << delays[j] << " then " << delays[i]);
        checked_wheel fresh{geometry, origin};
        test(fresh, origin + delays[j], origin + delays[i]);
      }
  }

  advance_result advance_to(tick now) {
    const advance_result result = timers.advance(now);
    EXPECT_TRUE(result.done);
    EXPECT_EQ(timers.now(), now);
    return result;
  }

  void advance_until_none_is_armed() {
    while (timers.armed() != 0) {
      ASSERT_GT(timers.next_expiry(), timers.now());
      advance_to(timers.next_expiry());
    }
  }

  void expect_state(bool armed, tick deadline) const {
    EXPECT_EQ(timer.armed(), armed);
    EXPECT_EQ(timer.deadline(), deadline);
  }

  // as far as it goes without leaving time for a timer after it
  const tick horizon = last_tick - origin;
  probe timer{timers};
};

TEST_P(wheel, timer_fires_at_its_deadline_and_not_before) {
  for_each_delay([&](auto& fresh, tick delay) {
    probe one{fresh};
    fresh.arm(one, origin + delay);
    EXPECT_TRUE(valid(fresh));
    expect_fires_at(fresh, one, origin + delay);
  });
}

TEST_P(wheel, timer_fires_once) {
  timers.arm(timer, origin + 3);
  for (tick t = 1; t < std::min<tick>(3 * geometry.slots, horizon); ++t) timers.advance_unchecked(origin + t);
  EXPECT_EQ(timer.fired_at(), ticks{origin + 3});
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel, ticking_through_fires_each_timer_at_its_own_tick) {
  const std::size_t count = std::min<std::size_t>(3 * geometry.slots, 1000);
  probes all{timers, count};
  all.arm(origin + 1, count);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(timers.advance_unchecked(origin + 1 + i).ran, 1U);
    ASSERT_EQ(all[i].fired_at(), ticks{origin + 1 + i});
  }
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel, stepping_by_next_expiry_fires_each_timer_on_time) {
  probes all{timers, delays.size()};
  all.arm(origin, delays);
  advance_until_none_is_armed();
  for (std::size_t i = 0; i < delays.size(); ++i) EXPECT_EQ(all[i].fired_at(), ticks{origin + delays[i]});
}

TEST_P(wheel, jump_fires_exactly_the_due_timers) {
  for (std::size_t j = (delays.size() - 1) % 3; j < delays.size(); j += 3) {  // the last one is among them
    SCOPED_TRACE(delays[j]);
    checked_wheel fresh{geometry, origin};
    probes all{fresh, delays.size()};
    all.arm(origin, delays);
    EXPECT_EQ(fresh.advance(origin + delays[j]), ran(j + 1));
    for (std::size_t i = 0; i < delays.size(); ++i) EXPECT_EQ(all[i].fired(), i <= j ? 1U : 0U) << delays[i];
  }
}

TEST_P(wheel, timers_of_the_same_tick_all_fire) {
  probes all{timers, 512};
  all.arm(origin + geometry.slots);
  EXPECT_EQ(advance_to(origin + geometry.slots - 1).ran, 0U);
  EXPECT_EQ(advance_to(origin + geometry.slots).ran, 512U);
}

TEST_P(wheel, last_arm_wins) {
  for_each_two_delays([&](auto& fresh, tick first, tick second) {
    probe one{fresh};
    fresh.arm(one, first);
    fresh.arm(one, second);
    EXPECT_EQ(one.deadline(), second);
    fresh.advance(second - 1);
    EXPECT_EQ(one.fired(), 0U);
    fresh.advance(std::max(first, second));
    EXPECT_EQ(one.fired(), 1U);
    EXPECT_EQ(fresh.counts().armed, 1U);
  });
}

TEST_P(wheel, timer_moved_each_tick_fires_only_after_the_last_move) {
  const tick delay = std::min<tick>(geometry.slots + 3, horizon / 4);
  const tick stop = origin + 3 * delay;
  for (tick t = origin; t <= stop; ++t) {
    timers.advance_unchecked(t);
    timers.arm(timer, t + delay);
    ASSERT_EQ(timer.fired(), 0U);
  }
  EXPECT_TRUE(valid(timers));
  expect_fires_at(timers, timer, stop + delay);
}

TEST_P(wheel, cancelled_timer_does_not_fire) {
  for_each_delay([&](auto& fresh, tick delay) {
    probes two{fresh, 2};  // with nothing armed, time would skip
    two.arm(origin + delay);
    fresh.cancel(two[0]);
    EXPECT_TRUE(valid(fresh));
    fresh.advance(origin + delay);
    EXPECT_EQ(two[0].fired(), 0U);
    EXPECT_EQ(two[1].fired(), 1U);
  });
}

TEST_P(wheel, cancel_returns_whether_the_timer_was_armed) {
  EXPECT_FALSE(timers.cancel(timer));
  timers.arm(timer, origin + 5);
  EXPECT_TRUE(timers.cancel(timer));
  EXPECT_FALSE(timers.cancel(timer));
  timers.arm(timer, origin + 5);
  advance_to(origin + 5);
  EXPECT_EQ(timer.fired(), 1U);
  EXPECT_FALSE(timers.cancel(timer));
}

TEST_P(wheel, timer_armed_again_after_cancel_fires_on_time) {
  for_each_two_delays([&](auto& fresh, tick first, tick second) {
    probe one{fresh};
    fresh.arm(one, first);
    fresh.cancel(one);
    fresh.arm(one, second);
    expect_fires_at(fresh, one, second);
  });
}

TEST_P(wheel, timer_armed_again_long_after_its_slot_was_passed_fires) {
  const tick now = origin + delays.back() / 2;
  for_each_delay(
      [&](auto& fresh, tick delay) {
        probe one{fresh};
        fresh.arm(one, origin + delay);
        fresh.cancel(one);
        fresh.advance(now, 0);  // no work is allowed, so that the dead link stays
        fresh.arm(one, now + delay);
        EXPECT_TRUE(valid(fresh));
        expect_fires_at(fresh, one, now + delay);
      },
      delays.back() / 2 - 1);
}

TEST_P(wheel, only_timer_left_of_many_cancelled_fires) {
  const tick delay = std::min<tick>(2 * geometry.slots + 1, horizon);
  probes all{timers, 200};
  all.arm(origin + delay);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != 77) timers.cancel(all[i]);
  EXPECT_EQ(timers.armed(), 1U);
  EXPECT_EQ(advance_to(origin + delay).ran, 1U);
  EXPECT_EQ(all[77].fired(), 1U);
}

TEST_P(wheel, past_deadline_is_due_at_the_next_tick) {
  probes all{timers, 3};
  const ticks wanted{origin, 0, origin == 0 ? 0 : origin - 1};
  for (std::size_t i = 0; i < 3; ++i) {
    timers.arm(all[i], wanted[i]);
    EXPECT_EQ(all[i].deadline(), origin + 1);
  }
  EXPECT_EQ(advance_to(origin).ran, 0U);
  EXPECT_EQ(advance_to(origin + 1).ran, 3U);
}

TEST_P(wheel, time_does_not_go_back) {
  advance_to(origin + 10);
  timers.arm(timer, origin + 11);
  for (const tick earlier : {tick{0}, origin, origin + 9}) {
    EXPECT_EQ(timers.advance(earlier).ran, 0U);
    EXPECT_EQ(timers.now(), origin + 10);
  }
  EXPECT_EQ(advance_to(origin + 11).ran, 1U);
}

TEST_P(wheel, armed_and_deadline_show_the_state_of_a_timer) {
  expect_state(false, never);
  timers.arm(timer, origin + 7);
  expect_state(true, origin + 7);
  timers.cancel(timer);
  expect_state(false, never);
  timers.arm(timer, origin + 7);
  advance_to(origin + 7);
  expect_state(false, never);
}

TEST_P(wheel, counts_add_up) {
  probes all{timers, 30};
  all.arm(origin + 1, 30);
  for (probe& p : all) timers.arm(p, p.deadline() + 1);  // a move counts as nothing
  all.cancel(20);
  advance_to(origin + 11);
  EXPECT_EQ(timers.counts().armed, 30U);
  EXPECT_EQ(timers.counts().cancelled, 10U);
  EXPECT_EQ(timers.counts().fired, 10U);
  EXPECT_EQ(timers.armed(), 10U);
  timers.arm(all[0], origin + 20);
  EXPECT_EQ(timers.counts().armed, 31U);
  EXPECT_EQ(timers.armed(), 11U);
}

TEST_P(wheel, lateness_counts_ticks_after_the_deadline) {
  probes all{timers, 3};
  all.arm(origin + 2);
  advance_to(origin + 2);
  timers.arm(all[0], origin + 4);
  advance_to(origin + 13);
  EXPECT_EQ(timers.lateness().count(), 4U);
  EXPECT_EQ(timers.lateness().max(), 9U);
  EXPECT_EQ(timers.lateness().percentile(0.75), 0U);
}

TEST_P(wheel, hook_is_called_before_each_callback) {
  struct seen {
    std::vector<wheel_entry*> entries;
    bool armed = false;
    std::size_t ran_before = 0;
    tick deadline = never;
  } hook;
  const auto record = [](void* context, wheel_entry& e, tick deadline) noexcept {
    auto& s = *static_cast<seen*>(context);
    s.deadline = deadline;
    s.entries.push_back(&e);
    s.armed = s.armed || e.armed();
    s.ran_before += static_cast<probe&>(e).fired();
  };
  timers.on_fire(record, &hook);
  timers.arm(timer, origin + 1);
  advance_to(origin + 1);
  EXPECT_EQ(hook.entries, std::vector<wheel_entry*>{&timer});
  EXPECT_FALSE(hook.armed);
  EXPECT_EQ(hook.ran_before, 0U);
  EXPECT_EQ(hook.deadline, origin + 1);

  timers.on_fire(nullptr, nullptr);
  timers.arm(timer, origin + 2);
  advance_to(origin + 2);
  EXPECT_EQ(hook.entries.size(), 1U);
}

TEST_P(wheel, is_empty_while_no_timer_is_linked) {
  EXPECT_TRUE(timers.empty());
  timers.arm(timer, origin + 9);
  EXPECT_FALSE(timers.empty());
  advance_to(origin + 9);
  EXPECT_TRUE(timers.empty());
}

TEST_P(wheel, delays_that_are_powers_of_two_are_exact) {
  std::deque<probe> all;
  for (unsigned bit = 0; bit <= 50 && (tick{1} << bit) <= horizon; ++bit)
    timers.arm(all.emplace_back(timers), origin + (tick{1} << bit));
  advance_until_none_is_armed();
  for (std::size_t bit = 0; bit < all.size(); ++bit) EXPECT_EQ(all[bit].fired_at(), ticks{origin + (tick{1} << bit)});
}

TEST_P(wheel, far_deadlines_are_exact) {
  for (const tick delay : {(tick{1} << 40) + 1, (tick{1} << 50) - 1, tick{1} << 50, (tick{1} << 62) + 12345}) {
    if (delay > horizon) continue;
    SCOPED_TRACE(delay);
    checked_wheel fresh{geometry, origin};
    probe one{fresh};
    fresh.arm(one, origin + delay);
    fresh.advance(origin + delay / 3);
    expect_fires_at(fresh, one, origin + delay);
  }
}

TEST_P(wheel, timer_armed_amid_a_turn_fires_on_time) {
  for (const tick elapsed : {delays[delays.size() / 4], delays[delays.size() / 2]})
    for (std::size_t i = 0; i < delays.size() && elapsed + delays[i] < delays.back(); i += 2) {
      SCOPED_TRACE(testing::Message() << elapsed << " + " << delays[i]);
      const tick deadline = origin + elapsed + delays[i];
      checked_wheel fresh{geometry, origin};
      probes two{fresh, 2};
      fresh.arm(two[0], origin + delays.back());  // with nothing armed, time would skip
      fresh.advance(origin + elapsed);
      fresh.arm(two[1], deadline);
      EXPECT_TRUE(valid(fresh));
      expect_fires_at(fresh, two[1], deadline);
    }
}

TEST_P(wheel, idle_time_does_not_delay_the_next_timer) {
  const tick two_hours = tick{7200} << 13;
  for (const tick idle : {std::min(two_hours, horizon / 2), horizon / 2}) {
    const tick now = origin + idle;
    checked_wheel fresh{geometry, origin};
    probe one{fresh};
    EXPECT_EQ(fresh.advance(now), ran(0U));
    EXPECT_EQ(fresh.now(), now);
    fresh.arm(one, now + 2);
    EXPECT_EQ(fresh.next_expiry(), now + 2);
    expect_fires_at(fresh, one, now + 2);
  }
}

INSTANTIATE_TEST_SUITE_P(all, wheel, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace tickwheel::test
