// How much one call of advance does, and how time goes on if it may not do all of it.
#include "../support/wheel_cases.hpp"

namespace tickwheel::test {
namespace {

class advance : public wheel_fixture {
 protected:
  // Returns how many visits it takes until nothing is armed.
  static std::size_t visits_until_none_is_armed(wheel& timers) {
    std::size_t count = 0;
    while (timers.armed() != 0) count += visits(timers, timers.next_expiry());
    return count;
  }

  // The work bound leaves 30 of 50 timers over.
  void begin_a_crowd() {
    fifty.arm(origin + 5);
    timers.advance(origin + 5, 20);
  }

  probe timer{timers};
  probes fifty{timers, 50};
};

TEST_P(advance, returns_how_many_callbacks_ran) {
  probes all{timers, 10};
  all.arm(origin + 1, 10);
  expect_ran(timers, {{origin, 0}, {origin + 1, 1}, {origin + 1, 0}, {origin + 4, 3}, {origin + 99, 6}});
}

TEST_P(advance, continues_where_the_last_call_stopped) {
  for (const std::size_t work : {1U, 7U, 64U}) {
    SCOPED_TRACE(work);
    checked_wheel fresh{geometry, origin};
    probes all{fresh, 3 * delays.size()};
    all.arm(origin, delays);
    const tick now = origin + delays.back();
    advance_result result{0, false};
    std::size_t calls = 0;
    for (std::size_t ran = 0; !result.done; ran += result.ran) {
      result = fresh.advance(now, work);
      ASSERT_LE(result.ran, work);
      ASSERT_EQ(fresh.armed() + ran + result.ran, all.size());
      ++calls;
    }
    for (probe& p : all) EXPECT_EQ(p.fired_at(), ticks{now});
    EXPECT_GE(calls, all.size() / work);
    EXPECT_GT(fresh.next_expiry(), now);
  }
}

TEST_P(advance, moves_only_time_without_work) {
  timers.arm(timer, origin + 5);
  EXPECT_EQ(timers.advance(origin + 9, 0), cut_after(0U));
  EXPECT_EQ(timers.now(), origin + 9);
  EXPECT_EQ(timers.advance(origin + 9).ran, 1U);
}

TEST_P(advance, is_done_without_work_in_an_empty_tick) {
  timers.arm(timer, origin + 3);
  EXPECT_TRUE(timers.advance(origin + 2, 0).done);
}

TEST_P(advance, ends_after_the_callback_that_stopped_it) {
  int left = 3;
  probes all{timers, 10, [&](probe&) {
               if (--left == 0) timers.stop_pass();
             }};
  all.arm(origin + 1, delays);
  const tick now = origin + delays.back() + 1;
  EXPECT_EQ(timers.advance(now), cut_after(3U));
  EXPECT_EQ(timers.now(), now);
  EXPECT_EQ(timers.advance(now), ran(7U));
}

TEST_P(advance, ends_after_the_callback_at_which_the_hook_stopped_it) {
  timers.on_fire([](void* of, wheel_entry&, tick) noexcept { static_cast<wheel*>(of)->stop_pass(); }, &timers);
  probes all{timers, 10};
  all.arm(origin + 1, delays);
  const tick now = origin + delays.back() + 1;
  std::size_t calls = 0;
  for (advance_result result{0, false}; !result.done; ++calls) {
    result = timers.advance(now);
    ASSERT_LE(result.ran, 1U);
  }
  EXPECT_GE(calls, 10U);
  EXPECT_EQ(all.fired_once(), 10U);
}

TEST_P(advance, takes_off_the_visits_it_has_made) {
  probes all{timers, 10, [&](probe& p) {
               if (&p == &all[6]) timers.stop_pass();
             }};
  all.arm(origin + 1);
  timers.cancel(all[0]);
  std::size_t work = 4;
  EXPECT_FALSE(timers.advance_within(origin + 1, work).done);
  EXPECT_EQ(work, 0U);
  std::size_t visits = 4;
  for (advance_result result{0, false}; !result.done; visits += 100 - work)
    result = timers.advance_within(origin + 1, work = 100);
  EXPECT_EQ(visits, 10U);
  EXPECT_EQ(all.fired_once(), 9U);
}

TEST_P(advance, takes_no_visits_off_while_nothing_is_armed) {
  std::size_t work = 100;
  EXPECT_EQ(timers.advance_within(origin + 9, work), ran(0U));
  EXPECT_EQ(work, 100U);
}

TEST(stop_pass_death_test, aborts_while_nothing_runs) {
  wheel timers;
  EXPECT_DEATH(timers.stop_pass(), "stop_pass was called while nothing runs");
}

TEST_P(advance, does_not_run_leftover_timers_that_were_cancelled) {
  begin_a_crowd();
  const std::size_t ran = fifty.fired();
  fifty.cancel();
  EXPECT_TRUE(valid(timers));
  timers.advance(origin + 6);
  EXPECT_EQ(fifty.fired(), ran);
  EXPECT_EQ(timers.armed(), 0U);
}

TEST_P(advance, runs_leftover_timers_that_were_moved_on_time) {
  begin_a_crowd();
  const std::size_t ran = fifty.fired();
  for (probe& p : fifty)
    if (p.armed()) timers.arm(p, origin + 7);
  EXPECT_TRUE(valid(timers));
  timers.advance(origin + 6);
  EXPECT_EQ(fifty.fired(), ran);
  timers.advance(origin + 7);
  EXPECT_EQ(fifty.fired(), 50U);
}

TEST_P(advance, runs_a_timer_armed_beside_leftovers_on_time) {
  const auto run = [&](auto& fresh, tick delay) {
    probes others{fresh, 50};
    probe one{fresh};
    const tick now = origin + delays.back() / 2;
    others.arm(origin + 1, 10);
    fresh.advance(now, 20);
    fresh.arm(one, now + delay);
    EXPECT_TRUE(valid(fresh));
    finish(fresh, now, 20);
    expect_fires_at(fresh, one, now + delay);
    EXPECT_EQ(others.fired(), 50U);
  };
  for_each_delay(run, (last_tick - origin) / 2);
}

TEST_P(advance, may_move_time_on_while_timers_are_left_over) {
  probes all{timers, 200};
  all.arm(origin + 1, 200);
  std::size_t ran = 0;
  for (tick t = 1; t <= 400; ++t) {
    ran += timers.advance_unchecked(origin + t, 1).ran;
    ASSERT_EQ(timers.now(), origin + t);
  }
  while (ran < 200) {
    const advance_result result = timers.advance_unchecked(origin + 400, 1);
    ran += result.ran;
    ASSERT_FALSE(result.done && ran < 200);
  }
  EXPECT_TRUE(valid(timers));
  for (std::size_t i = 0; i < 200; ++i) EXPECT_GE(all[i].fired_at()[0], origin + 1 + i);
}

TEST_P(advance, makes_a_timer_only_as_late_as_its_jump) {
  timers.arm(timer, origin + 2);
  timers.advance(origin + delays.back());
  EXPECT_EQ(timers.lateness().max(), delays.back() - 2);
}

TEST_P(advance, leaves_nothing_due_when_it_is_done) {
  std::mt19937_64 random{7};
  probes all{timers, 100};
  for (int round = 0; round < 20; ++round) {
    for (probe& p : all) timers.arm(p, timers.now() + 1 + random() % (2 * delays.back() / 40));
    finish(timers, timers.now() + delays.back() / 100, 10);
    for (probe& p : all) ASSERT_GT(p.deadline(), timers.now());
    ASSERT_GT(timers.next_expiry(), timers.now());
  }
}

TEST_P(advance, visits_a_timer_at_most_once_a_level) {
  for_each_delay([&](auto& fresh, tick delay) {
    probe one{fresh};
    fresh.arm(one, origin + delay);
    EXPECT_LE(visits_until_none_is_armed(fresh), geometry.levels);
    EXPECT_EQ(one.fired(), 1U);
  });
}

TEST_P(advance, visits_a_cancelled_timer_at_most_once) {
  for_each_delay([&](auto& fresh, tick delay) {
    probes two{fresh, 2};
    two.arm(origin + delay);
    fresh.cancel(two[0]);
    wheel reference{geometry, origin};
    probe single{reference};
    reference.arm(single, origin + delay);
    EXPECT_LE(visits_until_none_is_armed(fresh), visits_until_none_is_armed(reference) + 1);
  });
}

TEST_P(advance, does_not_visit_a_timer_for_each_move) {
  const tick limit = geometry.slots / 2;
  timers.arm(timer, origin + limit);
  std::size_t count = 0;
  for (tick t = 1; t <= 8 * limit; ++t) {
    count += visits(timers, origin + t);
    for (int i = 0; i < 10; ++i) timers.arm(timer, origin + t + limit);
  }
  // the link is visited once in `limit` ticks, and goes to a slot at most `limit` away
  EXPECT_EQ(timer.fired(), 0U);
  EXPECT_LE(count, 9U * geometry.levels);
}

// Nine, because a sparse slot would hide that they are in the wrong one.
TEST_P(advance, keeps_timers_on_time_after_a_skip_over_dead_links) {
  timers.arm(timer, origin + 1);
  timers.cancel(timer);
  const tick now = origin + delays.back();
  timers.advance(now);
  probes all{timers, 9};
  all.arm(now + 2, 9);
  EXPECT_TRUE(valid(timers));
  for (tick t = now + 2; t < now + 11; ++t) {
    EXPECT_EQ(timers.next_expiry(), t);
    EXPECT_EQ(timers.advance(t).ran, 1U);
  }
}

TEST_P(advance, drops_dead_links_as_far_as_its_work_bound_allows) {
  probes all{timers, 100};
  all.arm(origin, delays);
  all.cancel();
  // enough to reach them, not enough to drop them
  EXPECT_TRUE(timers.advance(origin + delays.back(), 60).done);
  EXPECT_FALSE(timers.empty());
  timers.sweep(60);
  EXPECT_TRUE(valid(timers));
  EXPECT_TRUE(timers.empty());
}

TEST_P(advance, keeps_a_timer_on_time_after_leftovers_were_cancelled) {
  probes all{timers, 300};
  all.arm(origin, delays);
  const tick now = origin + delays.back() / 2;
  timers.advance(now, 3);
  all.cancel();
  timers.advance(now + 1, 3);
  timers.arm(timer, now + 4);
  expect_fires_at(timers, timer, now + 4);
}

INSTANTIATE_TEST_SUITE_P(all, advance, testing::ValuesIn(few_cases()), case_name);

class load : public wheel_fixture {
 protected:
  counter soon{timers};
};

TEST_P(load, million_dead_links_do_not_delay_a_new_timer) {
  counters million{timers, 1'000'000};
  million.arm(1000, 300'000);
  million.cancel();
  EXPECT_EQ(timers.next_expiry(), never);
  timers.advance_unchecked(500, 1024);  // sweeps some of them
  timers.arm(soon, 600);
  EXPECT_LE(timers.next_expiry(), 600U);
  for (tick t = 501; t < 600; ++t) {
    ASSERT_TRUE(timers.advance_unchecked(t, 1024).done) << t;
    ASSERT_EQ(soon.fired(), 0U);
  }
  EXPECT_EQ(timers.advance(600, 1024).ran, 1U);
  EXPECT_EQ(timers.next_expiry(), never);
}

TEST_P(load, million_dead_links_are_dropped_by_an_advance_over_them) {
  counters million{timers, 1'000'000};
  million.arm(1000, 300'000);
  million.cancel();
  timers.advance(400'000);
  EXPECT_TRUE(timers.empty());
  timers.arm(soon, 400'001);
  EXPECT_EQ(timers.next_expiry(), 400'001U);
  EXPECT_EQ(timers.advance(400'001, 1).ran, 1U);
}

// If a coarse slot were emptied at once when its time comes, one of these calls would make 100,000 visits. Spread, a
// call visits the entries that are due in its tick, and some of each level that is being emptied. This load has about
// 100 entries a tick, which pass through three levels at most.
TEST_P(load, steady_load_takes_few_visits_in_each_tick) {
  constexpr std::size_t count = 100'000;
  constexpr tick first = 4096;  // where a slot of the levels begins that hold the load
  constexpr tick width = 1024;
  counters all{timers, count};
  all.arm(first, width);
  for (tick t = 1; t < first + width; ++t) {
    const advance_result result = timers.advance_unchecked(t, 768);
    ASSERT_TRUE(result.done) << t;
    ASSERT_EQ(result.ran, t < first ? 0U : count / width + (t - first < count % width)) << t;
  }
  EXPECT_EQ(timers.counts().fired, count);
  EXPECT_EQ(timers.lateness().max(), 0U);
  EXPECT_TRUE(valid(timers));
}

TEST_P(load, cancelled_amid_a_move_down_leaves_nothing_behind) {
  constexpr std::size_t count = 20'000;
  counters all{timers, count};
  all.arm(4096, 1024);
  timers.advance(3800);
  all.cancel(0, 2);
  EXPECT_TRUE(valid(timers));
  timers.advance(3900);
  for (std::size_t i = 1; i < count; i += 4) timers.arm(all[i], 4096 + 2048);
  EXPECT_TRUE(valid(timers));
  run_until(timers, 4096 + 1023);
  EXPECT_EQ(timers.counts().fired, count / 4);
  run_until(timers, 4096 + 2048);
  EXPECT_EQ(timers.counts().fired, count / 2);
  EXPECT_EQ(timers.lateness().max(), 0U);
  EXPECT_TRUE(valid(timers));
}

INSTANTIATE_TEST_SUITE_P(all, load, testing::ValuesIn(cases_from(0, {{}, {1, 4096}, {4, 16}, {7, 64}, {3, 256}})),
                         case_name);

}  // namespace
}  // namespace tickwheel::test
