// While nothing is armed: time skips, and dead links stay where they are.
#include "../support/wheel_cases.hpp"

namespace tickwheel::test {
namespace {

class idle_time : public wheel_fixture {
 protected:
  const tick turn = geometry.slots;
  probe timer{timers};
};

TEST_P(idle_time, leaves_no_link_of_a_destroyed_dead_entry) {
  probes one{timers, 1};
  one.arm(5);
  EXPECT_FALSE(timers.empty());
  one.cancel();
  EXPECT_FALSE(timers.empty());
  one.destroy();
  EXPECT_TRUE(timers.empty());
}

// The slot of a dead link comes round again, by then with a live entry beside it whose visit is the very tick reached.
TEST_P(idle_time, does_not_hide_a_live_entry_behind_a_dead_one) {
  for (tick ahead = 1; ahead <= 4 * turn; ++ahead) {
    wheel fresh{geometry};
    probes two{fresh, 2};
    fresh.arm(two[0], 2 * turn + ahead);
    fresh.cancel(two[0]);
    fresh.advance(turn * turn, 0);
    const tick deadline = turn * turn + turn + ahead;
    fresh.arm(two[1], deadline);
    while (fresh.armed() != 0) {
      ASSERT_LE(fresh.next_expiry(), deadline);
      ASSERT_LE(fresh.now(), deadline);
      fresh.advance(std::max(fresh.next_expiry(), fresh.now() + 1));
    }
    ASSERT_EQ(two.fired(), 1U);
    ASSERT_EQ(fresh.now(), deadline);
  }
}

// A dead link whose slot's next turn is beyond the last tick must not end the search for live ones.
TEST_P(idle_time, does_not_hide_a_live_entry_at_the_end_of_time) {
  for (tick ahead = 1; ahead <= 2 * turn; ++ahead) {
    const tick start = last_tick - 100 * turn;
    wheel fresh{geometry, start};
    probes two{fresh, 2};
    fresh.arm(two[0], start + 10 * turn);
    fresh.cancel(two[0]);
    fresh.advance(start + 10 * turn + ahead / 2, 0);
    fresh.arm(two[1], fresh.now() + ahead);
    ASSERT_LE(fresh.next_expiry(), two[1].deadline());
    fresh.advance(two[1].deadline());
    ASSERT_EQ(two.fired(), 1U);
  }
}

TEST_P(idle_time, lets_a_dead_entry_be_armed_again) {
  timers.arm(timer, 1000);
  timers.cancel(timer);
  timers.advance(5000, 0);
  timers.arm(timer, 5001);
  timers.advance(5001);
  EXPECT_EQ(timer.fired(), 1U);
}

// In a callback nothing is armed, and dead links wait behind it in its slot and in others.
TEST_P(idle_time, is_not_swept_in_a_callback) {
  probes dead{timers, 6};
  timer.then([&](probe&) {
    dead.cancel();
    EXPECT_EQ(timers.armed(), 0U);
    timers.sweep(wheel::npos);
    EXPECT_FALSE(timers.empty());
  });
  timers.arm(timer, 4);
  dead.arm(4, 6);
  EXPECT_EQ(timers.advance(4).ran, 1U);
  EXPECT_EQ(timer.fired(), 1U);
  timers.sweep(wheel::npos);
  EXPECT_TRUE(timers.empty());
}

TEST_P(idle_time, is_not_swept_while_a_timer_is_armed) {
  probes dead{timers, 20};
  dead.arm(100);
  dead.cancel();
  timers.arm(timer, 50);
  timers.sweep(wheel::npos);
  EXPECT_EQ(timers.armed(), 1U);
  EXPECT_EQ(timers.advance(50).ran, 1U);
  EXPECT_FALSE(timers.empty());
}

TEST_P(idle_time, drops_links_and_empty_slots_before_the_next_armed_timer) {
  probes dead{timers, 20};
  for (std::size_t i = 0; i < dead.size(); ++i) timers.arm(dead[i], 10 + 3 * i);
  dead.cancel();
  {
    probes gone{timers, 20};
    for (std::size_t i = 0; i < gone.size(); ++i) timers.arm(gone[i], 11 + 3 * i);
  }
  timers.arm(timer, 5000);
  timers.sweep(wheel::npos);
  EXPECT_TRUE(valid(timers));
  const std::size_t visits = wheel::npos - 1;
  std::size_t left = visits;
  EXPECT_EQ(timers.advance_within(100, left).ran, 0U);
  EXPECT_LE(visits - left, 1U) << "the armed one may move";
  EXPECT_EQ(timers.advance(5000).ran, 1U);
  EXPECT_TRUE(timers.empty());
}

TEST_P(idle_time, drops_as_many_links_a_sweep_as_allowed) {
  probes dead{timers, 30};
  for (std::size_t i = 0; i < dead.size(); ++i) timers.arm(dead[i], 1 + 3 * i);
  dead.cancel();
  timers.sweep(0);
  timers.sweep(29);
  EXPECT_FALSE(timers.empty());
  EXPECT_TRUE(valid(timers));
  timers.sweep(2);  // one is the last, and then it finds that there are no others
  EXPECT_TRUE(timers.empty());
}

// The slot that is found first has no entry any more.
TEST_P(idle_time, drops_no_links_if_a_cancelled_immediate_was_all_that_is_allowed) {
  {
    probe gone{timers};
    timers.arm(gone, 1);
  }
  probes dead{timers, 6};
  dead.arm(2, 6);
  dead.cancel();
  timers.arm_immediate(timer, 0);
  timers.cancel(timer);
  timers.sweep(1);
  EXPECT_FALSE(timers.empty());
  timers.sweep(6);
  EXPECT_FALSE(timers.empty());
  timers.sweep(wheel::npos);
  EXPECT_TRUE(timers.empty());
}

INSTANTIATE_TEST_SUITE_P(all, idle_time,
                         testing::ValuesIn(cases_from(0, {{1, 8}, {2, 8}, {1, 256}, {3, 4}, {7, 64}, {}})), case_name);

// The dead links are far from where the cursor lands, so that a new timer need not wait for them to be dropped. (A
// hashed wheel has no far: they share its few slots.)
TEST(skipped_time, takes_one_step_over_many_dead_links) {
  checked_wheel timers;
  counters dead{timers, 100'000};
  dead.arm(300'000, 100'000);
  dead.cancel();
  const tick later = 50'000'000;
  EXPECT_TRUE(timers.advance(later, 0).done);
  EXPECT_EQ(timers.now(), later);

  probe soon{timers};
  timers.arm(soon, later + 76);
  for (std::size_t calls = 1; timers.armed() != 0; ++calls) {
    timers.advance(timers.next_expiry(), 1024);
    ASSERT_LT(calls, 20U);
  }
  EXPECT_EQ(dead.fired(), 0U);
  EXPECT_EQ(soon.fired_at(), ticks{later + 76});
}

// Two dead links in any order and place, time skipped to anywhere, and one of them armed again where it was. It is on
// time whether or not it may stay in its slot.
TEST(skipped_time, leaves_dead_links_that_can_be_armed_again) {
  constexpr tick range = 40;
  for (const wheel_geometry& geometry : {wheel_geometry{2, 8}, {3, 4}, {1, 8}})
    for (tick first = 1; first < range; ++first)
      for (tick second = 1; second < range; ++second)
        for (tick jump = 0; jump < first; ++jump) {
          SCOPED_TRACE(testing::Message() << first << ' ' << second << ' ' << jump);
          wheel timers{geometry};
          counters two{timers, 2};
          timers.arm(two[0], first);
          timers.arm(two[1], second);
          two.cancel();
          timers.advance(jump, 0);
          timers.arm(two[0], first);
          ASSERT_TRUE(valid(timers));
          while (timers.armed() != 0) timers.advance(timers.next_expiry());
          ASSERT_EQ(timers.now(), first);
        }
}

// The visits that cancelled links had called for are off once these are gone.
TEST(skipped_time, ends_the_visits_for_dropped_links) {
  checked_wheel timers{wheel_geometry::hierarchical(2, 64)};
  probes dead{timers, 1000};
  dead.arm(3200);
  dead.cancel();
  timers.advance(3190);
  ASSERT_TRUE(timers.empty());
  probe timer{timers};
  timers.arm(timer, 3300);
  EXPECT_GT(timers.next_expiry(), timers.now());
}

}  // namespace
}  // namespace tickwheel::test
