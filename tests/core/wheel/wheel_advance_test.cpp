// How much one call of advance does, and how time goes on when it may not do it all.
#include "../support/probe.hpp"
#include "../support/wheel_cases.hpp"

#include <gmock/gmock.h>

#include <memory>
#include <random>

namespace tickwheel::test {
namespace {

using testing::ElementsAre;

// visits until nothing due is left, counted by allowing one at a time
std::size_t visits(wheel& timers, tick now) {
  std::size_t count = 0;
  while (!timers.advance(now, 1).done) ++count;
  return count;
}

class wheel_advance_test : public testing::TestWithParam<wheel_case> {
 protected:
  const wheel_geometry geometry = GetParam().geometry;
  const tick origin = GetParam().origin;
  const std::vector<tick> delays = delays_of_interest(geometry);
  wheel timers{geometry, origin};
};

TEST_P(wheel_advance_test, tells_how_many_callbacks_ran) {
  probes all{timers, 10};
  for (std::size_t i = 0; i < 10; ++i) timers.arm(all[i], origin + 1 + i);
  EXPECT_EQ(timers.advance(origin).ran, 0U);
  EXPECT_EQ(timers.advance(origin + 1).ran, 1U);
  EXPECT_EQ(timers.advance(origin + 1).ran, 0U);
  EXPECT_EQ(timers.advance(origin + 4).ran, 3U);
  EXPECT_EQ(timers.advance(origin + 99).ran, 6U);
}

TEST_P(wheel_advance_test, runs_no_more_than_the_work_it_is_allowed) {
  probes all{timers, 100};
  for (probe& p : all) timers.arm(p, origin + geometry.slots);
  const advance_result result = timers.advance(origin + geometry.slots, 30);
  EXPECT_LE(result.ran, 30U);
  EXPECT_FALSE(result.done);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.now(), origin + geometry.slots);
}

TEST_P(wheel_advance_test, goes_on_where_the_last_call_stopped_and_closes_the_same_tick) {
  for (const std::size_t work : {std::size_t{1}, std::size_t{7}, std::size_t{64}}) {
    SCOPED_TRACE(work);
    wheel fresh{geometry, origin};
    probes all{fresh, 3 * delays.size()};
    for (std::size_t i = 0; i < all.size(); ++i) fresh.arm(all[i], origin + delays[i % delays.size()]);
    const tick now = origin + delays.back();
    advance_result result{0, false};
    std::size_t calls = 0;
    for (std::size_t ran = 0; !result.done; ran += result.ran) {
      result = fresh.advance(now, work);
      ASSERT_LE(result.ran, work);
      ASSERT_TRUE(valid(fresh));
      ASSERT_EQ(fresh.armed() + ran + result.ran, all.size());
      ++calls;
    }
    for (probe& p : all) EXPECT_THAT(p.fired_at(), ElementsAre(now));
    EXPECT_GE(calls, all.size() / work);
    EXPECT_GT(fresh.next_expiry(), now);
  }
}

TEST_P(wheel_advance_test, with_no_work_allowed_it_moves_time_and_runs_nothing) {
  probe timer{timers};
  timers.arm(timer, origin + 5);
  const advance_result result = timers.advance(origin + 9, 0);
  EXPECT_EQ(result.ran, 0U);
  EXPECT_FALSE(result.done);
  EXPECT_EQ(timers.now(), origin + 9);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.advance(origin + 9).ran, 1U);
}

TEST_P(wheel_advance_test, in_an_empty_tick_it_is_done_without_any_work) {
  probe timer{timers};
  timers.arm(timer, origin + 3);
  EXPECT_TRUE(timers.advance(origin + 2, 0).done);
}

TEST_P(wheel_advance_test, what_is_carried_over_can_still_be_cancelled) {
  probes all{timers, 50};
  for (probe& p : all) timers.arm(p, origin + 5);
  timers.advance(origin + 5, 20);
  const std::size_t ran = all.fired();
  for (probe& p : all) timers.cancel(p);
  EXPECT_TRUE(valid(timers));
  timers.advance(origin + 6);
  EXPECT_EQ(all.fired(), ran);
  EXPECT_EQ(timers.armed(), 0U);
}

TEST_P(wheel_advance_test, what_is_carried_over_can_be_moved_later) {
  probes all{timers, 50};
  for (probe& p : all) timers.arm(p, origin + 5);
  timers.advance(origin + 5, 20);
  const std::size_t ran = all.fired();
  for (probe& p : all)
    if (p.armed()) timers.arm(p, origin + 7);
  EXPECT_TRUE(valid(timers));
  timers.advance(origin + 6);
  EXPECT_EQ(all.fired(), ran);
  timers.advance(origin + 7);
  EXPECT_EQ(all.fired(), 50U);
}

TEST_P(wheel_advance_test, a_timer_armed_while_work_is_carried_over_is_on_time) {
  for (const tick delay : delays) {
    if (delay > (last_tick - origin) / 2) break;
    SCOPED_TRACE(delay);
    wheel fresh{geometry, origin};
    probes all{fresh, 50};
    const tick now = origin + delays.back() / 2;
    for (std::size_t i = 0; i < 50; ++i) fresh.arm(all[i], origin + 1 + i % 10);
    fresh.advance(now, 20);
    probe timer{fresh};
    fresh.arm(timer, now + delay);
    EXPECT_TRUE(valid(fresh));
    while (!fresh.advance(now, 20).done) {
    }
    EXPECT_TRUE(valid(fresh));
    fresh.advance(now + delay - 1);
    EXPECT_EQ(timer.fired(), 0U);
    fresh.advance(now + delay);
    EXPECT_EQ(timer.fired(), 1U);
    EXPECT_EQ(all.fired(), 50U);
  }
}

TEST_P(wheel_advance_test, time_may_go_on_while_work_is_carried_over) {
  probes all{timers, 200};
  for (std::size_t i = 0; i < 200; ++i) timers.arm(all[i], origin + 1 + i);
  std::size_t ran = 0;
  for (tick t = 1; t <= 400; ++t) {
    ran += timers.advance(origin + t, 1).ran;
    ASSERT_EQ(timers.now(), origin + t);
  }
  while (ran < 200) {
    const advance_result result = timers.advance(origin + 400, 1);
    ran += result.ran;
    ASSERT_FALSE(result.done && ran < 200);
  }
  EXPECT_TRUE(valid(timers));
  for (std::size_t i = 0; i < 200; ++i) EXPECT_GE(all[i].fired_at()[0], origin + 1 + i);
}

TEST_P(wheel_advance_test, a_late_timer_is_as_late_as_the_jump) {
  probe timer{timers};
  timers.arm(timer, origin + 2);
  timers.advance(origin + delays.back());
  EXPECT_EQ(timers.lateness().max(), delays.back() - 2);
}

TEST_P(wheel_advance_test, once_done_nothing_due_is_left_and_the_next_expiry_is_in_the_future) {
  std::mt19937_64 random{7};
  probes all{timers, 100};
  for (int round = 0; round < 20; ++round) {
    for (probe& p : all) timers.arm(p, timers.now() + 1 + random() % (2 * delays.back() / 40));
    while (!timers.advance(timers.now() + delays.back() / 100, 10).done) {
    }
    for (probe& p : all) ASSERT_GT(p.deadline(), timers.now());
    ASSERT_GT(timers.next_expiry(), timers.now());
  }
}

TEST_P(wheel_advance_test, a_timer_takes_at_most_one_visit_a_level) {
  for (const tick delay : delays) {
    SCOPED_TRACE(delay);
    wheel fresh{geometry, origin};
    probe timer{fresh};
    fresh.arm(timer, origin + delay);
    std::size_t count = 0;
    while (fresh.armed() != 0) count += visits(fresh, fresh.next_expiry());
    EXPECT_LE(count, geometry.levels);
    EXPECT_EQ(timer.fired(), 1U);
  }
}

TEST_P(wheel_advance_test, a_cancelled_timer_takes_at_most_one_visit) {
  for (const tick delay : delays) {
    SCOPED_TRACE(delay);
    wheel fresh{geometry, origin};
    probe other{fresh};
    probe timer{fresh};
    fresh.arm(timer, origin + delay);
    fresh.arm(other, origin + delay);
    const std::size_t alone = [&] {
      wheel reference{geometry, origin};
      probe single{reference};
      reference.arm(single, origin + delay);
      std::size_t count = 0;
      while (reference.armed() != 0) count += visits(reference, reference.next_expiry());
      return count;
    }();
    fresh.cancel(timer);
    std::size_t count = 0;
    while (fresh.armed() != 0) count += visits(fresh, fresh.next_expiry());
    EXPECT_LE(count, alone + 1);
  }
}

TEST_P(wheel_advance_test, moving_a_timer_later_costs_no_visit_until_its_slot_comes) {
  probe timer{timers};
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

TEST_P(wheel_advance_test, with_nothing_armed_time_skips_to_any_tick) {
  const tick far = origin + (last_tick - origin) / 2;
  timers.advance(far);
  EXPECT_EQ(timers.now(), far);
  EXPECT_TRUE(valid(timers));
  probe timer{timers};
  timers.arm(timer, far + 1);
  EXPECT_EQ(timers.advance(far + 1).ran, 1U);
}

// Two, since one that is alone in a coarse slot would hide that it is in the wrong one.
TEST_P(wheel_advance_test, after_time_skipped_over_cancelled_links_timers_go_where_they_are_due) {
  probe cancelled{timers};
  timers.arm(cancelled, origin + 1);
  timers.cancel(cancelled);
  const tick now = origin + delays.back();
  timers.advance(now);
  probes all{timers, 2};
  timers.arm(all[0], now + 2);
  timers.arm(all[1], now + 3);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.next_expiry(), now + 2);
  EXPECT_EQ(timers.advance(now + 2).ran, 1U);
  EXPECT_EQ(timers.next_expiry(), now + 3);
  EXPECT_EQ(timers.advance(now + 3).ran, 1U);
}

TEST_P(wheel_advance_test, cancelled_links_are_dropped_as_far_as_work_allows_when_nothing_is_armed) {
  probes all{timers, 100};
  for (std::size_t i = 0; i < 100; ++i) timers.arm(all[i], origin + delays[i % delays.size()]);
  for (probe& p : all) timers.cancel(p);
  // enough to reach them, not enough to drop them
  const tick now = origin + delays.back();
  EXPECT_TRUE(timers.advance(now, 60).done);
  EXPECT_TRUE(valid(timers));
  EXPECT_FALSE(timers.empty());
  timers.sweep(60);
  EXPECT_TRUE(valid(timers));
  EXPECT_TRUE(timers.empty());
}

TEST_P(wheel_advance_test, links_cancelled_amid_a_carried_over_pass_do_not_hold_up_the_next_timer) {
  probes all{timers, 300};
  for (std::size_t i = 0; i < all.size(); ++i) timers.arm(all[i], origin + delays[i % delays.size()]);
  const tick now = origin + delays.back() / 2;
  timers.advance(now, 3);
  for (probe& p : all) timers.cancel(p);
  timers.advance(now + 1, 3);
  EXPECT_TRUE(valid(timers));
  probe timer{timers};
  timers.arm(timer, now + 4);
  timers.advance(now + 3);
  EXPECT_EQ(timer.fired(), 0U);
  timers.advance(now + 4);
  EXPECT_EQ(timer.fired(), 1U);
  EXPECT_TRUE(valid(timers));
}

INSTANTIATE_TEST_SUITE_P(all, wheel_advance_test, testing::ValuesIn(few_cases()), case_name);

// A bare entry that counts, for a million at a time.
struct counter : wheel_entry {
  counter() : wheel_entry{[](wheel_entry& e) noexcept { ++static_cast<counter&>(e).fired; }} {}
  unsigned fired = 0;
};

class wheel_load_test : public testing::TestWithParam<wheel_geometry> {
 protected:
  std::unique_ptr<counter[]> all;
  counter soon;
  wheel timers{GetParam()};  // after the entries: destroyed first, it detaches them
};

TEST_P(wheel_load_test, a_million_cancelled_links_do_not_hold_up_a_new_timer) {
  all = std::make_unique<counter[]>(1'000'000);
  for (std::size_t i = 0; i < 1'000'000; ++i) timers.arm(all[i], 1000 + i % 300'000);
  for (std::size_t i = 0; i < 1'000'000; ++i) timers.cancel(all[i]);
  EXPECT_EQ(timers.next_expiry(), never);
  timers.advance(500, 1024);  // sweeps some of them
  timers.arm(soon, 600);
  EXPECT_LE(timers.next_expiry(), 600U);
  for (tick t = 501; t < 600; ++t) {
    ASSERT_TRUE(timers.advance(t, 1024).done) << t;
    ASSERT_EQ(soon.fired, 0U);
  }
  EXPECT_EQ(timers.advance(600, 1024).ran, 1U);
  EXPECT_EQ(timers.next_expiry(), never);
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel_load_test, a_million_cancelled_links_are_dropped_by_an_advance_over_them) {
  all = std::make_unique<counter[]>(1'000'000);
  for (std::size_t i = 0; i < 1'000'000; ++i) timers.arm(all[i], 1000 + i % 300'000);
  for (std::size_t i = 0; i < 1'000'000; ++i) timers.cancel(all[i]);
  timers.advance(400'000);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
  timers.arm(soon, 400'001);
  EXPECT_EQ(timers.next_expiry(), 400'001U);
  EXPECT_EQ(timers.advance(400'001, 1).ran, 1U);
}

// The bound that counts: were a coarse slot emptied at once when its time comes, one of these calls would make 100,000
// visits. Spread, each makes some for what is due in the tick and some for each level that is being emptied: this load
// is about 100 entries a tick, and they pass through three levels at most.
TEST_P(wheel_load_test, no_tick_of_a_steady_load_takes_many_visits) {
  constexpr std::size_t count = 100'000;
  constexpr tick first = 4096;  // where a slot of the levels begins that hold the load
  constexpr tick width = 1024;
  all = std::make_unique<counter[]>(count);
  for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], first + i % width);
  for (tick t = 1; t < first + width; ++t) {
    const advance_result result = timers.advance(t, 768);
    ASSERT_TRUE(result.done) << t;
    ASSERT_EQ(result.ran, t < first ? 0U : count / width + (t - first < count % width)) << t;
  }
  EXPECT_EQ(timers.counts().fired, count);
  EXPECT_EQ(timers.lateness().max(), 0U);
  EXPECT_TRUE(valid(timers));
}

TEST_P(wheel_load_test, cancelling_a_load_while_it_is_moved_down_leaves_nothing_behind) {
  constexpr std::size_t count = 20'000;
  all = std::make_unique<counter[]>(count);
  for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], 4096 + i % 1024);
  timers.advance(3800);
  for (std::size_t i = 0; i < count; i += 2) timers.cancel(all[i]);
  EXPECT_TRUE(valid(timers));
  timers.advance(3900);
  EXPECT_TRUE(valid(timers));
  for (std::size_t i = 1; i < count; i += 4) timers.arm(all[i], 4096 + 2048);
  EXPECT_TRUE(valid(timers));
  run_until(timers, 4096 + 1023);
  EXPECT_EQ(timers.counts().fired, count / 4);
  run_until(timers, 4096 + 2048);
  EXPECT_EQ(timers.counts().fired, count / 2);
  EXPECT_EQ(timers.lateness().max(), 0U);
  EXPECT_TRUE(valid(timers));
}

INSTANTIATE_TEST_SUITE_P(all, wheel_load_test,
                         testing::Values(wheel_geometry{}, wheel_geometry::hashed(4096), wheel_geometry{4, 16},
                                         wheel_geometry{7, 64}, wheel_geometry{3, 256}),
                         geometry_name);

}  // namespace
}  // namespace tickwheel::test
