// What callbacks may do: anything but advance the wheel they are called from.
#include "../support/probe.hpp"
#include "../support/wheel_cases.hpp"

#include <gmock/gmock.h>

#include <memory>

namespace tickwheel::test {
namespace {

using testing::ElementsAre;

class wheel_reentrancy_test : public testing::TestWithParam<wheel_case> {
 protected:
  static constexpr std::size_t siblings = 19;  // more than a slot has chains, and no multiple of them

  const wheel_geometry geometry = GetParam().geometry;
  const tick origin = GetParam().origin;
  const tick due = origin + geometry.slots + 1;
  std::unique_ptr<wheel> owned = std::make_unique<wheel>(geometry, origin);
  wheel& timers = *owned;

  std::size_t advance_to(tick now) {
    const std::size_t ran = timers.advance(now).ran;
    EXPECT_TRUE(valid(timers));
    return ran;
  }

  // the others that are due with it, whatever their order: what one that fires may do to one that has not
  static probe& one_not_yet_fired(probes& all, std::size_t from) {
    for (std::size_t i = from;; i = (i + 1) % all.size())
      if (all[i].fired() == 0) return all[i];
  }
};

TEST_P(wheel_reentrancy_test, the_first_to_fire_may_cancel_any_other_that_is_due) {
  for (std::size_t victim = 0; victim < siblings; ++victim) {
    SCOPED_TRACE(victim);
    wheel fresh{geometry, origin};
    probes all{fresh, siblings};
    probe* cancelled = nullptr;
    for (probe& p : all) {
      p.then([&](probe&) {
        if (cancelled != nullptr) return;
        cancelled = &one_not_yet_fired(all, victim);
        EXPECT_TRUE(fresh.cancel(*cancelled));
      });
      fresh.arm(p, due);
    }
    EXPECT_EQ(fresh.advance(due).ran, siblings - 1);
    EXPECT_TRUE(valid(fresh));
    fresh.advance(due + 3);
    for (probe& p : all) EXPECT_EQ(p.fired(), &p == cancelled ? 0U : 1U);
  }
}

TEST_P(wheel_reentrancy_test, the_first_to_fire_may_cancel_all_others) {
  probes all{timers, siblings};
  for (probe& p : all) {
    p.then([&](probe&) {
      for (probe& other : all) timers.cancel(other);
    });
    timers.arm(p, due);
  }
  EXPECT_EQ(advance_to(due), 1U);
  EXPECT_EQ(advance_to(due + 2 * geometry.slots), 0U);
  EXPECT_EQ(timers.armed(), 0U);
}

TEST_P(wheel_reentrancy_test, of_two_due_in_one_late_pass_one_can_cancel_the_other) {
  probe a{timers};
  probe b{timers};
  a.then([&](probe&) { timers.cancel(b); });
  b.then([&](probe&) { timers.cancel(a); });
  timers.arm(a, origin + 1);
  timers.arm(b, due - 1);
  EXPECT_EQ(advance_to(due), 1U);
  EXPECT_EQ(a.fired() + b.fired(), 1U);
}

TEST_P(wheel_reentrancy_test, one_that_is_not_due_yet_can_be_cancelled) {
  for (const tick delay : delays_of_interest(geometry)) {
    SCOPED_TRACE(delay);
    wheel fresh{geometry, origin};
    probe later{fresh};
    probe first{fresh, [&](probe&) { EXPECT_TRUE(fresh.cancel(later)); }};
    fresh.arm(first, origin + 1);
    fresh.arm(later, origin + 1 + delay);
    EXPECT_EQ(fresh.advance(origin + 1).ran, 1U);
    EXPECT_TRUE(valid(fresh));
    EXPECT_EQ(fresh.advance(origin + 1 + delay).ran, 0U);
    EXPECT_TRUE(valid(fresh));
  }
}

TEST_P(wheel_reentrancy_test, an_entry_is_unarmed_when_its_callback_runs) {
  probe timer{timers, [&](probe& self) {
                EXPECT_FALSE(self.armed());
                EXPECT_FALSE(timers.cancel(self));
                EXPECT_EQ(timers.armed(), 0U);
              }};
  timers.arm(timer, due);
  EXPECT_EQ(advance_to(due), 1U);
  EXPECT_EQ(timers.counts().cancelled, 0U);
}

TEST_P(wheel_reentrancy_test, a_timer_may_arm_itself_again) {
  for (const tick period : delays_of_interest(geometry)) {
    if (period > (last_tick - origin) / 4) break;
    SCOPED_TRACE(period);
    wheel fresh{geometry, origin};
    probe timer{fresh, [&](probe& self) { fresh.arm(self, fresh.now() + period); }};
    fresh.arm(timer, origin + period);
    run_until(fresh, origin + 3 * period);
    EXPECT_THAT(timer.fired_at(), ElementsAre(origin + period, origin + 2 * period, origin + 3 * period));
    EXPECT_TRUE(valid(fresh));
    EXPECT_EQ(fresh.armed(), 1U);
  }
}

TEST_P(wheel_reentrancy_test, a_late_pass_runs_a_timer_that_arms_itself_once) {
  probe timer{timers, [&](probe& self) { timers.arm(self, origin + 2); }};
  timers.arm(timer, origin + 1);
  EXPECT_EQ(advance_to(due), 1U);
  EXPECT_EQ(timer.deadline(), due + 1);
  EXPECT_EQ(advance_to(due + 1), 1U);
}

TEST_P(wheel_reentrancy_test, what_is_armed_with_zero_delay_never_runs_in_the_same_pass) {
  probe other{timers};
  probe timer{timers, [&](probe& self) {
                if (self.fired() > 1) return;
                timers.arm(self, timers.now());
                timers.arm(other, 0);
              }};
  timers.arm(timer, due);
  EXPECT_EQ(advance_to(due), 1U);
  EXPECT_EQ(other.fired(), 0U);
  EXPECT_EQ(timer.deadline(), due + 1);
  EXPECT_EQ(timers.next_expiry(), due + 1);
  EXPECT_EQ(advance_to(due), 0U);
  EXPECT_EQ(advance_to(due + 1), 2U);
}

TEST_P(wheel_reentrancy_test, a_due_sibling_moved_by_one_tick_runs_in_the_next_pass) {
  probes all{timers, siblings};
  for (probe& p : all) {
    p.then([&](probe& self) {
      for (probe& other : all)
        if (&other != &self && other.fired() == 0) timers.arm(other, timers.now());
    });
    timers.arm(p, due);
  }
  EXPECT_EQ(advance_to(due), 1U);
  EXPECT_EQ(timers.armed(), siblings - 1);
  EXPECT_EQ(advance_to(due + 1), 1U);
}

TEST_P(wheel_reentrancy_test, a_due_sibling_cancelled_and_armed_again_waits_for_its_new_deadline) {
  for (const tick delay : delays_of_interest(geometry)) {
    if (delay > last_tick - due) break;
    SCOPED_TRACE(delay);
    wheel fresh{geometry, origin};
    probes all{fresh, siblings};
    bool done = false;
    for (probe& p : all) {
      p.then([&](probe&) {
        if (done) return;
        done = true;
        for (probe& other : all)
          if (fresh.cancel(other)) fresh.arm(other, fresh.now() + delay);
      });
      fresh.arm(p, due);
    }
    EXPECT_EQ(fresh.advance(due).ran, 1U);
    EXPECT_TRUE(valid(fresh));
    EXPECT_EQ(fresh.advance(due + delay - 1).ran, 0U);
    EXPECT_EQ(fresh.advance(due + delay).ran, siblings - 1);
    EXPECT_TRUE(valid(fresh));
  }
}

TEST_P(wheel_reentrancy_test, many_armed_in_mid_tick_all_fire_at_the_next) {
  probes many{timers, 512};
  probe first{timers, [&](probe&) {
                for (probe& p : many) timers.arm(p, timers.now() + 1);
              }};
  timers.arm(first, due);
  EXPECT_EQ(advance_to(due), 1U);
  EXPECT_EQ(timers.armed(), 512U);
  EXPECT_EQ(advance_to(due + 1), 512U);
}

TEST_P(wheel_reentrancy_test, a_timer_may_destroy_itself) {
  auto* timer = new probe{timers, [](probe& self) { delete &self; }};
  timers.arm(*timer, due);
  EXPECT_EQ(advance_to(due), 1U);
  EXPECT_TRUE(timers.empty());
}

TEST_P(wheel_reentrancy_test, a_timer_may_destroy_itself_and_a_due_sibling) {
  for (std::size_t victim = 0; victim < siblings; ++victim) {
    SCOPED_TRACE(victim);
    wheel fresh{geometry, origin};
    std::vector<std::unique_ptr<probe>> all;
    std::size_t fired = 0;
    for (std::size_t i = 0; i < siblings; ++i) {
      all.push_back(std::make_unique<probe>(fresh));
      all[i]->then([&, i](probe&) {
        if (fired++ != 0) return;
        all[i == victim ? (i + 1) % siblings : victim].reset();
        all[i].reset();
      });
      fresh.arm(*all[i], due);
    }
    EXPECT_EQ(fresh.advance(due).ran, siblings - 1);
    EXPECT_EQ(fired, siblings - 1);
    EXPECT_TRUE(valid(fresh));
  }
}

TEST_P(wheel_reentrancy_test, a_timer_may_destroy_all_others_armed_and_cancelled) {
  std::vector<std::unique_ptr<probe>> all;
  const auto delays = delays_of_interest(geometry);
  for (const tick delay : delays) {
    timers.arm(*all.emplace_back(std::make_unique<probe>(timers)), origin + delay);
    timers.arm(*all.emplace_back(std::make_unique<probe>(timers)), origin + delay);
    timers.cancel(*all.back());
  }
  probe first{timers, [&](probe&) { all.clear(); }};
  timers.arm(first, origin + 1);
  const std::size_t ran = advance_to(origin + 1);
  EXPECT_GE(ran, 1U);
  EXPECT_LE(ran, 2U);
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_EQ(advance_to(origin + delays.back()), 0U);
}

TEST_P(wheel_reentrancy_test, a_timer_may_destroy_its_wheel) {
  probes all{timers, siblings, [&](probe&) { owned.reset(); }};
  for (probe& p : all) timers.arm(p, due);
  probe far{timers};
  timers.arm(far, due + 1);
  const advance_result result = timers.advance(due);
  EXPECT_EQ(result.ran, 1U);
  EXPECT_TRUE(result.done);
  EXPECT_EQ(all.fired(), 1U);
  EXPECT_EQ(far.fired(), 0U);
  for (probe& p : all) EXPECT_FALSE(p.armed());
  EXPECT_FALSE(far.armed());
}

TEST_P(wheel_reentrancy_test, a_timer_may_destroy_its_wheel_and_itself) {
  auto* timer = new probe{timers};
  timer->then([&](probe& self) {
    owned.reset();
    delete &self;
  });
  timers.arm(*timer, due);
  EXPECT_EQ(timers.advance(due).ran, 1U);
  EXPECT_EQ(owned, nullptr);
}

TEST_P(wheel_reentrancy_test, a_timer_may_clear_its_wheel) {
  std::size_t disposed = 0;
  probes all{timers, siblings};
  for (probe& p : all) {
    p.then([&](probe&) { timers.clear([&](wheel_entry&) { ++disposed; }); });
    timers.arm(p, due);
  }
  EXPECT_EQ(advance_to(due), 1U);
  EXPECT_EQ(disposed, siblings - 1);
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_TRUE(timers.empty());
  EXPECT_EQ(advance_to(due + 1), 0U);
}

TEST_P(wheel_reentrancy_test, what_is_armed_after_clearing_in_a_callback_runs_in_a_later_pass) {
  probes all{timers, siblings};
  for (probe& p : all) {
    p.then([&](probe& self) {
      timers.clear([](wheel_entry&) noexcept {});
      timers.arm(self, timers.now());
    });
    timers.arm(p, due);
  }
  EXPECT_EQ(advance_to(due), 1U);
  EXPECT_EQ(timers.armed(), 1U);
  EXPECT_EQ(advance_to(due + 1), 1U);
}

TEST_P(wheel_reentrancy_test, a_callback_sees_the_target_of_the_pass_as_now) {
  tick seen = 0;
  probe timer{timers, [&](probe&) { seen = timers.now(); }};
  timers.arm(timer, origin + 2);
  advance_to(due);
  EXPECT_EQ(seen, due);
}

TEST_P(wheel_reentrancy_test, next_expiry_in_a_callback_is_no_later_than_what_is_armed) {
  std::vector<tick> answers;
  probe other{timers};
  probe timer{timers, [&](probe&) {
                timers.arm(other, due + 3);
                answers.push_back(timers.next_expiry());
                timers.cancel(other);
                answers.push_back(timers.next_expiry());
              }};
  timers.arm(timer, due);
  advance_to(due);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_LE(answers[0], due + 3);
  EXPECT_EQ(answers[1], never);
}

TEST_P(wheel_reentrancy_test, a_wheel_is_valid_within_a_callback) {
  probes all{timers, siblings};
  for (probe& p : all) {
    p.then([&](probe& self) {
      timers.arm(self, timers.now() + geometry.slots);
      EXPECT_TRUE(valid(timers));
    });
    timers.arm(p, due);
  }
  EXPECT_EQ(advance_to(due), siblings);
}

TEST_P(wheel_reentrancy_test, the_armed_can_be_listed_within_a_callback) {
  std::size_t listed = 0;
  probes all{timers, siblings};
  for (probe& p : all) {
    p.then([&](probe&) {
      std::size_t seen = 0;
      timers.for_each_armed([&](wheel_entry&) { ++seen; });
      EXPECT_EQ(seen, timers.armed());
      listed += seen;
    });
    timers.arm(p, due);
  }
  advance_to(due);
  EXPECT_EQ(listed, siblings * (siblings - 1) / 2);
}

INSTANTIATE_TEST_SUITE_P(all, wheel_reentrancy_test, testing::ValuesIn(few_cases()), case_name);

TEST(wheel_reentrancy_death_test, a_nested_advance_aborts_and_says_why) {
  wheel timers;
  probe timer{timers, [&](probe&) { timers.advance(2); }};
  timers.arm(timer, 1);
  EXPECT_DEATH(timers.advance(1), "advance was called from a callback");
  timers.cancel(timer);
}

TEST(wheel_reentrancy_death_test, advance_nested_after_a_clear_aborts_too) {
  for (const tick to : {tick{2}, tick{9}}) {
    wheel timers;
    probe timer{timers, [&](probe& self) {
                  timers.clear([](wheel_entry&) {});
                  timers.arm(self, 7);
                  timers.next_expiry();
                  timers.advance(to);
                }};
    timers.arm(timer, 1);
    EXPECT_DEATH(timers.advance(1), "advance was called from a callback");
    timers.cancel(timer);
  }
}

TEST(wheel_reentrancy_test, timer_armed_after_a_clear_in_a_callback_is_on_time) {
  wheel timers;
  probe later{timers};
  probe timer{timers, [&](probe&) {
                timers.clear([](wheel_entry&) {});
                timers.arm(later, 7);
              }};
  timers.arm(timer, 5);
  const advance_result result = timers.advance(5);
  EXPECT_EQ(result.ran, 1U);
  EXPECT_TRUE(result.done);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.next_expiry(), 7U);
  EXPECT_EQ(timers.advance(7).ran, 1U);
}

TEST(wheel_reentrancy_death_test, a_nested_advance_in_an_empty_tick_aborts_too) {
  wheel timers;
  probe far{timers};
  timers.arm(far, 1000);
  probe timer{timers, [&](probe&) { timers.advance(1); }};
  timers.arm(timer, 1);
  EXPECT_DEATH(timers.advance(1), "advance was called from a callback");
}

}  // namespace
}  // namespace tickwheel::test
