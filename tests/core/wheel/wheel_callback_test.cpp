// Callbacks may do anything except advance the wheel that called them.
#include "../support/wheel_cases.hpp"

namespace tickwheel::test {
namespace {

class callback : public wheel_fixture {
 protected:
  static constexpr std::size_t siblings = 19;  // more than a slot has chains, and no multiple of them

  // Arms timers for `due` that do `then`.
  void arm_due(probes& some, const probe::action& then) const {
    for (probe& p : some) p.then(then);
    some.arm(due);
  }

  const tick due = origin + geometry.slots + 1;
  probes all{timers, siblings};
  probe timer{timers};
  probe other{timers};
};

TEST_P(callback, may_cancel_any_other_due_timer) {
  for (std::size_t victim = 0; victim < siblings; ++victim) {
    SCOPED_TRACE(victim);
    checked_wheel fresh{geometry, origin};
    probes some{fresh, siblings};
    probe* cancelled = nullptr;
    arm_due(some, [&](probe&) {
      if (cancelled != nullptr) return;
      std::size_t i = victim;
      while (some[i].fired() != 0) i = (i + 1) % siblings;
      cancelled = &some[i];
      EXPECT_TRUE(fresh.cancel(*cancelled));
    });
    EXPECT_EQ(fresh.advance(due).ran, siblings - 1);
    fresh.advance(due + 3);
    for (probe& p : some) EXPECT_EQ(p.fired(), &p == cancelled ? 0U : 1U);
  }
}

TEST_P(callback, may_cancel_all_others) {
  arm_due(all, [&](probe&) { all.cancel(); });
  expect_ran(timers, {{due, 1}, {due + 2 * geometry.slots, 0}});
  EXPECT_EQ(timers.armed(), 0U);
}

TEST_P(callback, of_a_late_pass_may_cancel_a_timer_of_another_tick) {
  timer.then([&](probe&) { timers.cancel(other); });
  other.then([&](probe&) { timers.cancel(timer); });
  timers.arm(timer, origin + 1);
  timers.arm(other, due - 1);
  EXPECT_EQ(timers.advance(due).ran, 1U);
  EXPECT_EQ(timer.fired() + other.fired(), 1U);
}

TEST_P(callback, may_cancel_a_timer_that_is_not_due) {
  for_each_delay([&](auto& fresh, tick delay) {
    probe later{fresh};
    probe first{fresh, [&](probe&) { EXPECT_TRUE(fresh.cancel(later)); }};
    fresh.arm(first, origin + 1);
    fresh.arm(later, origin + 1 + delay);
    expect_ran(fresh, {{origin + 1, 1}, {origin + 1 + delay, 0}});
  });
}

TEST_P(callback, finds_its_timer_unarmed) {
  timer.then([&](probe& self) {
    EXPECT_FALSE(self.armed());
    EXPECT_FALSE(timers.cancel(self));
    EXPECT_EQ(timers.armed(), 0U);
  });
  timers.arm(timer, due);
  EXPECT_EQ(timers.advance(due).ran, 1U);
  EXPECT_EQ(timers.counts().cancelled, 0U);
}

TEST_P(callback, may_arm_its_timer_again) {
  const auto run = [&](auto& fresh, tick period) {
    probe one{fresh, [&](probe& self) { fresh.arm(self, fresh.now() + period); }};
    fresh.arm(one, origin + period);
    run_until(fresh, origin + 3 * period);
    EXPECT_EQ(one.fired_at(), (ticks{origin + period, origin + 2 * period, origin + 3 * period}));
    EXPECT_TRUE(valid(fresh));
    EXPECT_EQ(fresh.armed(), 1U);
  };
  for_each_delay(run, (last_tick - origin) / 4);
}

TEST_P(callback, of_a_late_pass_that_arms_its_timer_runs_once) {
  timer.then([&](probe& self) { timers.arm(self, origin + 2); });
  timers.arm(timer, origin + 1);
  EXPECT_EQ(timers.advance(due).ran, 1U);
  EXPECT_EQ(timer.deadline(), due + 1);
  EXPECT_EQ(timers.advance(due + 1).ran, 1U);
}

TEST_P(callback, arms_with_zero_delay_for_the_next_pass) {
  timer.then([&](probe& self) {
    if (self.fired() > 1) return;
    timers.arm(self, timers.now());
    timers.arm(other, 0);
  });
  timers.arm(timer, due);
  EXPECT_EQ(timers.advance(due).ran, 1U);
  EXPECT_EQ(other.fired(), 0U);
  EXPECT_EQ(timer.deadline(), due + 1);
  EXPECT_EQ(timers.next_expiry(), due + 1);
  expect_ran(timers, {{due, 0}, {due + 1, 2}});
}

TEST_P(callback, may_move_due_timers_to_the_next_pass) {
  arm_due(all, [&](probe& self) {
    for (probe& p : all)
      if (&p != &self && p.fired() == 0) timers.arm(p, timers.now());
  });
  EXPECT_EQ(timers.advance(due).ran, 1U);
  EXPECT_EQ(timers.armed(), siblings - 1);
  EXPECT_EQ(timers.advance(due + 1).ran, 1U);
}

TEST_P(callback, may_cancel_due_timers_and_arm_them_again) {
  const auto run = [&](auto& fresh, tick delay) {
    probes some{fresh, siblings};
    bool done = false;
    arm_due(some, [&](probe&) {
      if (std::exchange(done, true)) return;
      for (probe& p : some)
        if (fresh.cancel(p)) fresh.arm(p, fresh.now() + delay);
    });
    expect_ran(fresh, {{due, 1}, {due + delay - 1, 0}, {due + delay, siblings - 1}});
  };
  for_each_delay(run, last_tick - due);
}

TEST_P(callback, may_arm_hundreds_for_the_next_tick) {
  probes many{timers, 512};
  timer.then([&](probe&) { many.arm(timers.now() + 1); });
  timers.arm(timer, due);
  EXPECT_EQ(timers.advance(due).ran, 1U);
  EXPECT_EQ(timers.armed(), 512U);
  EXPECT_EQ(timers.advance(due + 1).ran, 512U);
}

TEST_P(callback, may_destroy_its_timer) {
  auto* one = new probe{timers, [](probe& self) { delete &self; }};
  timers.arm(*one, due);
  EXPECT_EQ(timers.advance(due).ran, 1U);
  EXPECT_TRUE(timers.empty());
}

TEST_P(callback, may_destroy_its_timer_and_another_due_one) {
  for (std::size_t victim = 0; victim < siblings; ++victim) {
    SCOPED_TRACE(victim);
    checked_wheel fresh{geometry, origin};
    std::vector<std::unique_ptr<probe>> some;
    std::size_t fired = 0;
    for (std::size_t i = 0; i < siblings; ++i) {
      const auto destroy_two = [&, i](probe&) {
        if (fired++ != 0) return;
        some[i == victim ? (i + 1) % siblings : victim].reset();
        some[i].reset();
      };
      fresh.arm(*some.emplace_back(std::make_unique<probe>(fresh, destroy_two)), due);
    }
    EXPECT_EQ(fresh.advance(due).ran, siblings - 1);
    EXPECT_EQ(fired, siblings - 1);
  }
}

TEST_P(callback, may_destroy_all_others_armed_and_cancelled) {
  probes others{timers, 2 * delays.size()};
  for (std::size_t i = 0; i < others.size(); ++i) timers.arm(others[i], origin + delays[i / 2]);
  others.cancel(1, 2);
  timer.then([&](probe&) { others.destroy(); });
  timers.arm(timer, origin + 1);
  const std::size_t ran = timers.advance(origin + 1).ran;
  EXPECT_GE(ran, 1U);
  EXPECT_LE(ran, 2U);
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_EQ(timers.advance(origin + delays.back()).ran, 0U);
}

TEST_P(callback, may_destroy_its_wheel) {
  auto dying = std::make_unique<wheel>(geometry, origin);
  probes some{*dying, siblings, [&](probe&) { dying.reset(); }};
  some.arm(due);
  probe far{*dying};
  dying->arm(far, due + 1);
  EXPECT_EQ(dying->advance(due), ran(1U));
  EXPECT_EQ(some.fired(), 1U);
  EXPECT_EQ(far.fired(), 0U);
  for (probe& p : some) EXPECT_FALSE(p.armed());
  EXPECT_FALSE(far.armed());
}

TEST_P(callback, may_destroy_its_wheel_and_its_timer) {
  auto dying = std::make_unique<wheel>(geometry, origin);
  auto* one = new probe{*dying};
  one->then([&](probe& self) {
    dying.reset();
    delete &self;
  });
  dying->arm(*one, due);
  EXPECT_EQ(dying->advance(due).ran, 1U);
  EXPECT_EQ(dying, nullptr);
}

TEST_P(callback, may_clear_its_wheel) {
  std::size_t disposed = 0;
  arm_due(all, [&](probe&) { timers.clear([&](wheel_entry&) { ++disposed; }); });
  EXPECT_EQ(timers.advance(due).ran, 1U);
  EXPECT_EQ(disposed, siblings - 1);
  EXPECT_EQ(timers.armed(), 0U);
  EXPECT_TRUE(timers.empty());
  EXPECT_EQ(timers.advance(due + 1).ran, 0U);
}

TEST_P(callback, may_clear_its_wheel_and_arm_for_a_later_pass) {
  arm_due(all, [&](probe& self) {
    clear(timers);
    timers.arm(self, timers.now());
  });
  EXPECT_EQ(timers.advance(due).ran, 1U);
  EXPECT_EQ(timers.armed(), 1U);
  EXPECT_EQ(timers.advance(due + 1).ran, 1U);
}

TEST_P(callback, that_clears_its_wheel_may_arm_another_timer) {
  timer.then([&](probe&) {
    clear(timers);
    timers.arm(other, due + 2);
  });
  timers.arm(timer, due);
  EXPECT_EQ(timers.advance(due), ran(1U));
  EXPECT_EQ(timers.next_expiry(), due + 2);
  EXPECT_EQ(timers.advance(due + 2).ran, 1U);
}

TEST_P(callback, sees_next_expiry_of_what_it_arms_and_cancels) {
  ticks answers;
  timer.then([&](probe&) {
    timers.arm(other, due + 3);
    answers.push_back(timers.next_expiry());
    timers.cancel(other);
    answers.push_back(timers.next_expiry());
  });
  timers.arm(timer, due);
  timers.advance(due);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_LE(answers[0], due + 3);
  EXPECT_EQ(answers[1], never);
}

TEST_P(callback, sees_a_valid_wheel) {
  arm_due(all, [&](probe& self) {
    timers.arm(self, timers.now() + geometry.slots);
    EXPECT_TRUE(valid(timers));
  });
  EXPECT_EQ(timers.advance(due).ran, siblings);
}

TEST_P(callback, may_list_the_armed_timers) {
  std::size_t listed = 0;
  arm_due(all, [&](probe&) {
    std::size_t seen = 0;
    timers.for_each_armed([&](wheel_entry&) { ++seen; });
    EXPECT_EQ(seen, timers.armed());
    listed += seen;
  });
  timers.advance(due);
  EXPECT_EQ(listed, siblings * (siblings - 1) / 2);
}

INSTANTIATE_TEST_SUITE_P(all, callback, testing::ValuesIn(few_cases()), case_name);

// A callback of a timer that is due at tick 1 does `then`, which must stop the process.
void expect_nested_advance_to_abort(const std::function<void(wheel&, probe&)>& then, bool with_another = false) {
  wheel timers;
  probe far{timers};
  if (with_another) timers.arm(far, 1000);
  probe timer{timers, [&](probe& self) { then(timers, self); }};
  timers.arm(timer, 1);
  EXPECT_DEATH(timers.advance(1), "advance was called from a callback");
}

TEST(nested_advance_death_test, aborts_and_names_the_mistake) {
  expect_nested_advance_to_abort([](wheel& timers, probe&) { timers.advance(2); });
}

TEST(nested_advance_death_test, aborts_in_an_empty_tick) {
  expect_nested_advance_to_abort([](wheel& timers, probe&) { timers.advance(1); }, true);
}

TEST(nested_advance_death_test, aborts_after_a_clear) {
  for (const tick to : {tick{2}, tick{9}})
    expect_nested_advance_to_abort([to](wheel& timers, probe& self) {
      clear(timers);
      timers.arm(self, 7);
      timers.next_expiry();
      timers.advance(to);
    });
}

}  // namespace
}  // namespace tickwheel::test
