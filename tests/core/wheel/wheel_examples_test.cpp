// The worked examples of the literature, with our numbers. They also explain the wheel.
#include "../support/probe.hpp"

namespace tickwheel::test {
namespace {

using places = std::vector<std::pair<unsigned, unsigned>>;  // level, slot

std::string dumped(const wheel& timers) {
  std::ostringstream text;
  timers.dump(text);
  return text.str();
}

// the slots that dump() shows
places occupied(const wheel& timers) {
  places found;
  std::istringstream lines{dumped(timers)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    std::string level, slot;
    places::value_type p;
    if (words >> level >> p.first >> slot >> p.second && level == "level" && slot == "slot") found.push_back(p);
  }
  return found;
}

// the ticks at which the wheel asks to be advanced until nothing is armed
ticks advances(wheel& timers) {
  ticks steps;
  while (timers.armed() != 0) {
    steps.push_back(timers.next_expiry());
    timers.advance(steps.back());
    EXPECT_TRUE(valid(timers));
  }
  return steps;
}

// One slot a tick, and a timer less than a turn away. With 8 slots of a second, at second 2, a timer 7 s away goes to slot
// (2 + 7) mod 8 = 1: the ring wraps, the timer does not wait a round.
TEST(example, simple_wheel_wraps_around) {
  wheel timers{wheel_geometry::hashed(8), 2};
  probe timer{timers};
  timers.arm(timer, 2 + 7);
  EXPECT_EQ(occupied(timers), (places{{0, 1}}));
  for (tick second = 3; second < 9; ++second) EXPECT_EQ(timers.advance(second).ran, 0U);
  EXPECT_EQ(timers.advance(9).ran, 1U);
  EXPECT_EQ(occupied(timers), places{});
}

// 8 slots of a second. A timer 11 s away goes to slot 11 mod 8 = 3 and waits one round. Other wheels count the rounds down each
// time the slot is passed. Ours stores the deadline. At second 3 it does not visit the slot, because its first visit is at 11.
TEST(example, hashed_wheel_waits_a_round) {
  wheel timers{wheel_geometry::hashed(8)};
  probe timer{timers};
  timers.arm(timer, 11);
  EXPECT_EQ(occupied(timers), (places{{0, 11 % 8}}));
  EXPECT_EQ(timers.advance(3).ran, 0U);
  EXPECT_EQ(occupied(timers), (places{{0, 3}}));
  EXPECT_EQ(timers.next_expiry(), 11U);
  EXPECT_EQ(timers.advance(11).ran, 1U);
}

// A timer of the next round shares its slot with one of this round, whose visit sends it round again.
TEST(example, hashed_wheel_keeps_several_rounds_in_a_slot) {
  wheel timers{wheel_geometry::hashed(8)};
  probes all{timers, 2};
  all.arm(0, {3, 11});
  EXPECT_EQ(occupied(timers), (places{{0, 3}}));
  EXPECT_EQ(advances(timers), (ticks{3, 11}));
  EXPECT_EQ(all[0].fired_at(), ticks{3});
  EXPECT_EQ(all[1].fired_at(), ticks{11});
}

// With 20 slots of a second and 20 of 20 seconds, a timer that at second 2 is 22 s away goes to the second wheel's slot
// for [20, 39], and is demoted at second 20 to fire at 24. Ours of 16 slots has 32 of a second and 16 of 16 seconds. A timer
// 46 s away goes to the slot for [48, 63], which begins where it is due. It fires from there, without a demotion. A timer
// that is due at 51 is demoted at that visit.
TEST(example, hierarchical_wheel_demotes_a_timer) {
  wheel timers{wheel_geometry::hierarchical(2, 16), 2};
  probes all{timers, 2};
  all.arm(2, {46, 49});
  EXPECT_EQ(occupied(timers), (places{{1, 48 / 16}}));
  EXPECT_EQ(timers.next_expiry(), 48U);
  EXPECT_EQ(timers.advance(47).ran, 0U);
  EXPECT_EQ(occupied(timers), (places{{1, 3}}));
  EXPECT_EQ(timers.advance(48).ran, 1U);
  EXPECT_EQ(all[0].fired_at(), ticks{48});
  EXPECT_EQ(occupied(timers), (places{{0, 51 % 32}}));
  EXPECT_EQ(advances(timers), ticks{51});
}

// Kafka's three wheels of 10 are advanced at 9, 80, 88, 200, 220, 222, 500, 520, 521, 522 and at nothing in between, and
// 222 is demoted twice. Ours with 16 slots has slots of 1, 16 and 128 ticks, and stops only at the expiries:
//    88 and 222 are alone in their slots of the middle wheel, which are therefore visited when they are due;
//   520 shares a slot with few, and is the first of them. Its visit demotes 521 and 522, right into the finest wheel, which
//       reaches two slots of the middle one.
// One wheel stops only there as well, because an absolute deadline needs no demotion.
TEST(example, wheels_are_advanced_only_where_something_happens) {
  const ticks expiries{9, 88, 222, 520, 521, 522};
  for (const unsigned levels : {3U, 1U}) {
    wheel timers{wheel_geometry::hierarchical(levels, 16)};
    probes all{timers, expiries.size()};
    all.arm(0, expiries);
    if (levels == 3) {
      EXPECT_EQ(occupied(timers), (places{{0, 9}, {1, 88 / 16}, {1, 222 / 16}, {2, 520 / 128}}));
    }
    EXPECT_EQ(advances(timers), expiries);
    for (std::size_t i = 0; i < expiries.size(); ++i) EXPECT_EQ(all[i].fired_at(), ticks{expiries[i]});
  }
}

// With eight neighbours in its slots a timer is demoted twice, like Kafka's 222: at 384 (3 * 128) and at 464 (29 * 16).
TEST(example, timers_that_share_slots_are_demoted_level_by_level) {
  wheel timers{wheel_geometry::hierarchical(3, 16)};
  probes all{timers, 9};
  all.arm(0, {478, 476, 475, 479});
  EXPECT_EQ(advances(timers), (ticks{384, 464, 475, 476, 478, 479}));
  EXPECT_EQ(all[0].fired_at(), ticks{478});
  EXPECT_EQ(all[3].fired_at(), ticks{479});
}

// With fewer the slot is visited when the first of them is due.
TEST(example, few_timers_that_share_slots_are_demoted_when_one_is_due) {
  wheel timers{wheel_geometry::hierarchical(3, 16)};
  probes all{timers, 8};
  all.arm(0, {478, 476, 475, 475});
  EXPECT_EQ(advances(timers), (ticks{475, 476, 478}));
  EXPECT_EQ(all[0].fired_at(), ticks{478});
  EXPECT_EQ(all[3].fired_at(), ticks{475});
}

// Lazy placement: the visit that comes anyway moves the timer on.
TEST(example, timer_moved_later_stays_in_its_slot_until_a_visit) {
  wheel timers{wheel_geometry::hashed(8)};
  probe timer{timers};
  timers.arm(timer, 3);
  timers.arm(timer, 6);
  EXPECT_EQ(occupied(timers), (places{{0, 3}}));
  timers.advance(3);
  EXPECT_EQ(occupied(timers), (places{{0, 6}}));
  EXPECT_EQ(timers.advance(6).ran, 1U);
}

TEST(example, cancelled_timer_stays_in_its_slot_until_a_visit) {
  wheel timers{wheel_geometry::hashed(8)};
  probes all{timers, 2};
  all.arm(0, {3, 6});
  timers.cancel(all[0]);
  EXPECT_EQ(occupied(timers), (places{{0, 3}, {0, 6}}));
  timers.advance(3);
  EXPECT_EQ(occupied(timers), (places{{0, 6}}));
}

TEST(example, dump_shows_geometry_time_and_counts) {
  wheel timers{wheel_geometry::hashed(8), 40};
  probes all{timers, 3};
  all.arm(41);
  timers.cancel(all[0]);
  timers.advance(41);
  timers.arm(all[0], 45);
  const std::string text = dumped(timers);
  for (const char* part : {"1 x 8 slots", "now 41", "armed 1", "armed 4", "fired 2", "level 0 slot 5"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST(example, dump_shows_a_slot_that_is_being_emptied) {
  wheel timers{wheel_geometry::hierarchical(2, 64)};
  probes all{timers, 1000};
  all.arm(200);  // moved down from tick 192, a thousand of them some ticks sooner
  timers.advance(180);
  ASSERT_FALSE(timers.advance(185, 1).done);
  EXPECT_NE(dumped(timers).find("level 1 emptying: empty by 192"), std::string::npos) << dumped(timers);
  EXPECT_TRUE(valid(timers));
}

TEST(example, next_expiry_is_exact_for_near_timers_after_a_while) {
  wheel timers;
  probes all{timers, 3};
  timers.arm(all[0], 10);
  timers.advance(5000);
  timers.arm(all[1], 5100);
  timers.arm(all[2], 5101);
  EXPECT_EQ(timers.next_expiry(), 5100U);
}

// A level examines 64 slots to find the next one to visit. Here those do not decide.
TEST(example, next_of_many_slots_of_a_later_round_is_found) {
  wheel timers{wheel_geometry::hashed(4096)};
  probe first{timers};
  probes all{timers, 200};
  timers.arm(first, 1);
  all.arm(4096 + 2, 200);
  for (tick t = 1; t <= 300; ++t) timers.advance(t);
  EXPECT_EQ(first.fired(), 1U);
  EXPECT_EQ(all.fired(), 0U);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.next_expiry(), 4098U);
  for (tick t = 4000; t <= 4400; ++t) timers.advance(t);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].fired_at(), ticks{4096 + 2 + i});
}

}  // namespace
}  // namespace tickwheel::test
