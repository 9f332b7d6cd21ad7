// The worked examples of the literature, with our numbers. They also explain the wheel.
#include "../support/probe.hpp"

#include <gmock/gmock.h>

#include <sstream>
#include <utility>

namespace tickwheel::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using place = std::pair<unsigned, unsigned>;  // level, slot

// which slots dump() shows
std::vector<place> occupied(const wheel& timers) {
  std::ostringstream text;
  timers.dump(text);
  std::vector<place> found;
  std::istringstream lines{text.str()};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    std::string level, slot;
    place p;
    if (words >> level >> p.first >> slot >> p.second && level == "level" && slot == "slot") found.push_back(p);
  }
  return found;
}

// the ticks at which the wheel asks to be advanced until nothing is armed
std::vector<tick> advances(wheel& timers) {
  std::vector<tick> steps;
  while (timers.armed() != 0) {
    steps.push_back(timers.next_expiry());
    timers.advance(steps.back());
    EXPECT_TRUE(valid(timers));
  }
  return steps;
}

// The simple wheel: one slot a tick, and a timer less than a turn away. With 8 slots of a second, at second 2, a timer
// 7 s away lands in slot (2 + 7) mod 8 = 1: the ring wraps, the timer does not wait a round.
TEST(wheel_examples_test, simple_wheel_wraps_around) {
  wheel timers{wheel_geometry::hashed(8), 2};
  probe timer{timers};
  timers.arm(timer, 2 + 7);
  EXPECT_THAT(occupied(timers), ElementsAre(place{0, 1}));
  for (tick second = 3; second < 9; ++second) EXPECT_EQ(timers.advance(second).ran, 0U);
  EXPECT_EQ(timers.advance(9).ran, 1U);
  EXPECT_THAT(occupied(timers), IsEmpty());
}

// The hashed wheel: 8 slots of a second; a timer 11 s away lands in slot 11 mod 8 = 3 and waits one round. Others count
// the rounds down each time the slot is passed; ours holds the deadline, and at second 3 the slot is not even looked
// at, since it knows that its first visit is at 11.
TEST(wheel_examples_test, hashed_wheel_waits_a_round) {
  wheel timers{wheel_geometry::hashed(8)};
  probe timer{timers};
  timers.arm(timer, 11);
  EXPECT_THAT(occupied(timers), ElementsAre(place{0, 11 % 8}));
  EXPECT_EQ(timers.advance(3).ran, 0U);
  EXPECT_THAT(occupied(timers), ElementsAre(place{0, 3}));
  EXPECT_EQ(timers.next_expiry(), 11U);
  EXPECT_EQ(timers.advance(11).ran, 1U);
}

// ... and shares the slot with one of this round, whose visit sends it round again.
TEST(wheel_examples_test, hashed_wheel_keeps_several_rounds_in_a_slot) {
  wheel timers{wheel_geometry::hashed(8)};
  probe sooner{timers};
  probe later{timers};
  timers.arm(sooner, 3);
  timers.arm(later, 11);
  EXPECT_THAT(occupied(timers), ElementsAre(place{0, 3}));
  EXPECT_THAT(advances(timers), ElementsAre(3U, 11U));
  EXPECT_THAT(sooner.fired_at(), ElementsAre(3U));
  EXPECT_THAT(later.fired_at(), ElementsAre(11U));
}

// The hierarchical wheel: with 20 slots of a second and then 20 of 20 seconds, a timer that at second 2 is 22 s away
// lands in the second wheel's slot for [20, 39] and is demoted at second 20 to fire at 24. Ours of 16 slots has 32 of a
// second and then 16 of 16 seconds: a timer 46 s away lands in the slot for [48, 63], which begins where it is due, and
// fires from there, without a demotion. One that is due at 51 is demoted at that visit.
TEST(wheel_examples_test, hierarchical_wheel_demotes_a_timer) {
  wheel timers{wheel_geometry::hierarchical(2, 16), 2};
  probe timer{timers};
  probe second{timers};
  timers.arm(timer, 2 + 46);
  timers.arm(second, 2 + 49);
  EXPECT_THAT(occupied(timers), ElementsAre(place{1, 48 / 16}));
  EXPECT_EQ(timers.next_expiry(), 48U);
  EXPECT_EQ(timers.advance(47).ran, 0U);
  EXPECT_THAT(occupied(timers), ElementsAre(place{1, 3}));
  EXPECT_EQ(timers.advance(48).ran, 1U);
  EXPECT_THAT(timer.fired_at(), ElementsAre(48U));
  EXPECT_THAT(occupied(timers), ElementsAre(place{0, 51 % 32}));
  EXPECT_THAT(advances(timers), ElementsAre(51U));
}

// Three wheels of 10 with expiries 9, 88, 222, 520, 521, 522: Kafka's is advanced at 9, 80, 88, 200, 220, 222, 500,
// 520, 521, 522 and at nothing in between, and 222 is demoted twice. Ours with 16 slots has slots of 1, 16 and 128
// ticks, and needs three stops fewer:
//    88 and 222 are alone in their slots of the middle wheel, which are therefore visited when they are due;
//   520 is demoted with its neighbours at 512, right into the finest wheel, which reaches two slots of the middle one.
TEST(wheel_examples_test, three_wheels_are_advanced_where_something_happens_and_nowhere_else) {
  wheel timers{wheel_geometry::hierarchical(3, 16)};
  const std::vector<tick> expiries{9, 88, 222, 520, 521, 522};
  probes all{timers, expiries.size()};
  for (std::size_t i = 0; i < expiries.size(); ++i) timers.arm(all[i], expiries[i]);
  EXPECT_THAT(occupied(timers), ElementsAre(place{0, 9}, place{1, 88 / 16}, place{1, 222 / 16}, place{2, 520 / 128}));
  EXPECT_THAT(advances(timers), ElementsAre(9, 88, 222, 512, 520, 521, 522));
  for (std::size_t i = 0; i < expiries.size(); ++i) EXPECT_THAT(all[i].fired_at(), ElementsAre(expiries[i]));
}

// With a neighbour in its slots a timer is demoted twice, like Kafka's 222: at 384 (3 * 128) and at 464 (29 * 16).
TEST(wheel_examples_test, timers_that_share_their_slots_are_demoted_level_by_level) {
  wheel timers{wheel_geometry::hierarchical(3, 16)};
  probe timer{timers};
  probe neighbour{timers};
  timers.arm(timer, 478);
  timers.arm(neighbour, 476);
  EXPECT_THAT(advances(timers), ElementsAre(384, 464, 476, 478));
  EXPECT_THAT(timer.fired_at(), ElementsAre(478U));
  EXPECT_THAT(neighbour.fired_at(), ElementsAre(476U));
}

// The same with one wheel: an absolute deadline needs no demotion, so it stops at the expiries alone.
TEST(wheel_examples_test, one_wheel_is_advanced_at_the_expiries_alone) {
  wheel timers{wheel_geometry::hashed(16)};
  const std::vector<tick> expiries{9, 88, 222, 520, 521, 522};
  probes all{timers, expiries.size()};
  for (std::size_t i = 0; i < expiries.size(); ++i) timers.arm(all[i], expiries[i]);
  EXPECT_EQ(advances(timers), expiries);
}

// Lazy placement: a timer that is moved later stays where it is linked, and the visit that comes anyway takes it on.
TEST(wheel_examples_test, a_timer_moved_later_stays_in_its_slot_until_that_is_visited) {
  wheel timers{wheel_geometry::hashed(8)};
  probe timer{timers};
  timers.arm(timer, 3);
  timers.arm(timer, 6);
  EXPECT_THAT(occupied(timers), ElementsAre(place{0, 3}));
  timers.advance(3);
  EXPECT_THAT(occupied(timers), ElementsAre(place{0, 6}));
  EXPECT_EQ(timers.advance(6).ran, 1U);
}

// A cancelled timer stays linked, too, and is dropped by the visit.
TEST(wheel_examples_test, a_cancelled_timer_is_dropped_when_its_slot_is_visited) {
  wheel timers{wheel_geometry::hashed(8)};
  probe timer{timers};
  probe other{timers};
  timers.arm(timer, 3);
  timers.arm(other, 6);
  timers.cancel(timer);
  EXPECT_THAT(occupied(timers), ElementsAre(place{0, 3}, place{0, 6}));
  timers.advance(3);
  EXPECT_THAT(occupied(timers), ElementsAre(place{0, 6}));
}

TEST(wheel_examples_test, dump_tells_geometry_time_and_counts) {
  wheel timers{wheel_geometry::hashed(8), 40};
  probes all{timers, 3};
  for (probe& p : all) timers.arm(p, 41);
  timers.cancel(all[0]);
  timers.advance(41);
  timers.arm(all[0], 45);
  std::ostringstream text;
  timers.dump(text);
  EXPECT_THAT(text.str(), AllOf(HasSubstr("1 x 8 slots"), HasSubstr("now 41"), HasSubstr("armed 1"),
                                HasSubstr("armed 4"), HasSubstr("fired 2"), HasSubstr("level 0 slot 5")));
}

TEST(wheel_examples_test, dump_tells_of_a_slot_that_is_being_emptied) {
  wheel timers{wheel_geometry::hierarchical(2, 64)};
  probes all{timers, 1000};
  for (probe& p : all) timers.arm(p, 200);  // moved down from tick 192, a thousand of them some ticks sooner
  timers.advance(180);
  ASSERT_FALSE(timers.advance(185, 1).done);
  std::ostringstream text;
  timers.dump(text);
  EXPECT_THAT(text.str(), HasSubstr("level 1 emptying: empty by 192"));
  EXPECT_TRUE(valid(timers));
}

// A level looks at 64 slots for the next one to visit; here those tell nothing.
TEST(wheel_examples_test, the_next_of_many_slots_of_a_later_round_is_found) {
  wheel timers{wheel_geometry::hashed(4096)};
  probe first{timers};
  timers.arm(first, 1);
  probes all{timers, 200};
  for (std::size_t i = 0; i < all.size(); ++i) timers.arm(all[i], 4096 + 2 + i);
  for (tick t = 1; t <= 300; ++t) timers.advance(t);
  EXPECT_EQ(first.fired(), 1U);
  EXPECT_EQ(all.fired(), 0U);
  EXPECT_TRUE(valid(timers));
  EXPECT_EQ(timers.next_expiry(), 4098U);
  for (tick t = 4000; t <= 4400; ++t) timers.advance(t);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_THAT(all[i].fired_at(), ElementsAre(4096 + 2 + i));
}

}  // namespace
}  // namespace tickwheel::test
