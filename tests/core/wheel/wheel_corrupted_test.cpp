// Each invariant that validate() checks, broken from within: it says so. The wheel is as it was before it is destroyed.
#include "../../../src/core/hierarchy.hpp"
#include "../support/probe.hpp"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

// Not an unnamed namespace: an explicit instantiation outside of it would have to name it.
namespace tickwheel::test::corrupted {

using testing::HasSubstr;

// The private members of a wheel: an explicit instantiation may name them.
template <class Member, typename Member::type Pointer>
struct exposed {
  friend typename Member::type pointer_to(Member) { return Pointer; }
};

struct levels_member {
  using type = std::unique_ptr<hierarchy> wheel::*;
  friend type pointer_to(levels_member);
};
struct expiry_member {
  using type = tick wheel::*;
  friend type pointer_to(expiry_member);
};
struct arms_member {
  using type = std::uint64_t wheel::*;
  friend type pointer_to(arms_member);
};
struct ended_member {
  using type = std::uint64_t wheel::*;
  friend type pointer_to(ended_member);
};
struct visit_member {
  using type = tick wheel_entry::*;
  friend type pointer_to(visit_member);
};
struct has_immediates_member {
  using type = bool wheel::*;
  friend type pointer_to(has_immediates_member);
};

template struct exposed<levels_member, &wheel::levels_>;
template struct exposed<expiry_member, &wheel::expiry_>;
template struct exposed<arms_member, &wheel::arms_>;
template struct exposed<ended_member, &wheel::ended_>;
template struct exposed<visit_member, &wheel_entry::visit_>;
template struct exposed<has_immediates_member, &wheel::has_immediates_>;

class wheel_corrupted : public testing::Test {
 protected:
  ~wheel_corrupted() override {
    EXPECT_TRUE(valid(timers));
    timers.clear([](wheel_entry&) noexcept {});
  }

  // Gives `what` another value while validate() is asked.
  template <class T, class U>
  void expect_complaint(T& what, U broken, const char* complaint) {
    ASSERT_TRUE(valid(timers));
    const T sound = std::exchange(what, static_cast<T>(broken));
    std::string why;
    EXPECT_FALSE(timers.validate(&why)) << "expected: " << complaint;
    EXPECT_FALSE(timers.validate());
    EXPECT_THAT(why, HasSubstr(complaint));
    what = sound;
  }

  void expect_unmarked_slot_to_be_noticed(slot_bitmap& occupied, unsigned index, const char* complaint) {
    ASSERT_TRUE(valid(timers));
    occupied.clear(index);
    std::string why;
    EXPECT_FALSE(timers.validate(&why));
    EXPECT_THAT(why, HasSubstr(complaint));
    occupied.set(index);
  }

  hierarchy& levels() { return *(timers.*pointer_to(levels_member{})); }
  wheel_level& level(unsigned k) { return levels().coarse[k]; }
  tick& expiry() { return timers.*pointer_to(expiry_member{}); }
  std::uint64_t& arms() { return timers.*pointer_to(arms_member{}); }
  std::uint64_t& ended() { return timers.*pointer_to(ended_member{}); }
  bool& has_immediates() { return timers.*pointer_to(has_immediates_member{}); }

  // 300 timers of one slot of level 1, which begins at 1280, of which some were moved down.
  void begin_to_empty_a_slot() {
    for (std::size_t i = 0; i < crowd.size(); ++i) timers.arm(crowd[i], 1280 + i % 64);
    timers.advance(level(1).next.start_by);
    ASSERT_TRUE(level(1).being_emptied());
  }

  wheel timers{wheel_geometry::hierarchical(3, 128)};  // slots of level 1 are 128 ticks wide
  probe entry{timers};
  probes crowd{timers, 300};
};

TEST_F(wheel_corrupted, expiry_in_the_past_is_noticed) {
  timers.advance(5);
  timers.arm(entry, 20);
  expect_complaint(expiry(), 4U, "next expiry 4, expected now 5 or later");
}

TEST_F(wheel_corrupted, expiry_beyond_the_last_tick_is_noticed) {
  timers.arm(entry, 20);
  expect_complaint(expiry(), never, "next expiry 18446744073709551615, expected");
}

TEST_F(wheel_corrupted, expiry_after_what_the_levels_need_is_noticed) {
  timers.arm(entry, 20);
  expect_complaint(expiry(), 21U, "next expiry 21, but the levels need a visit at 20");
}

TEST_F(wheel_corrupted, counts_that_do_not_fit_are_noticed) {
  timers.arm(entry, 20);
  expect_complaint(ended(), 2U, "more entries ended than were armed");
  expect_complaint(arms(), 2U, "2 entries count as armed, but 1 are linked");
  timers.advance(20);
  expect_complaint(ended(), 0U, "more entries ended than were armed");
}

TEST_F(wheel_corrupted, immediates_out_of_place_are_noticed) {
  timers.arm_immediate(entry, 0);
  expect_complaint(has_immediates(), false, "an immediate is linked, expected none");
  timers.cancel(entry);
  timers.collect_immediates();
  timers.run_immediates(0);
}

TEST_F(wheel_corrupted, immediate_with_a_visit_of_a_slot_is_noticed) {
  timers.arm_immediate(entry, 0);
  expect_complaint(entry.*pointer_to(visit_member{}), 7U, "an immediate with visit 7, expected 0");
  timers.cancel(entry);
  timers.collect_immediates();
  timers.run_immediates(0);
}

TEST_F(wheel_corrupted, backlog_with_other_bounds_is_noticed) {
  probes many{timers, 3000};
  for (probe& p : many) timers.arm(p, 50);
  timers.advance(50, 1024);
  ASSERT_FALSE(levels().left_over.empty());
  expect_complaint(levels().left_over.since, 51U,
                   "backlog: an entry with visit 50, deadline 50, expected deadline >= visit >= 51");
  expect_complaint(expiry(), 60U, "next expiry 60, expected <= now 50 while entries are left over");
  timers.advance(50);
}

TEST_F(wheel_corrupted, drain_with_other_bounds_is_noticed) {
  begin_to_empty_a_slot();
  wheel_level::emptying_slot& from = level(1).emptying;
  expect_complaint(from.left, 3U, "level 1 slot being emptied: ");
  expect_complaint(from.left, 600U, "by its pace");
  expect_complaint(from.at, 1280U + 128U, "level 1 slot to be empty by 1408: an entry with visit 1280");
  expect_complaint(from.at, 1280U - 128U, "level 1 slot to be empty by 1152: an entry with visit 1280");
  expect_complaint(from.at, never, "level 1 slot");
}

TEST_F(wheel_corrupted, level_that_forgets_its_drain_is_noticed) {
  begin_to_empty_a_slot();
  expect_complaint(level(1).start_by, level(1).emptying.due + 1, "when its emptying is to go on");
}

TEST_F(wheel_corrupted, level_that_is_not_the_first_is_noticed) {
  timers.arm(entry, 1000);
  expect_complaint(levels().next_coarse, &level(2), "but level 2 counts as the first that does");
}

TEST_F(wheel_corrupted, slot_with_other_bounds_is_noticed) {
  timers.arm(crowd[0], 1290);
  timers.arm(crowd[1], 1300);
  wheel_level::slot& slot = level(1).ring[10];
  expect_complaint(slot.first_visit, 1291U, "expected visit >= the slot's first, 1291");
  expect_complaint(slot.count, 1U, "level 1 slot 10: 2 entries, expected <= 1");
  expect_complaint(slot.first_visit, 1279U,
                   "level 1 slot 10: first visit 1279 of 2 entries, expected the begin of a span");
  expect_unmarked_slot_to_be_noticed(level(1).occupied, 10,
                                     "level 1 slot 10: count 2, expected 0 where nothing is marked");
}

TEST_F(wheel_corrupted, level_that_looks_up_too_late_is_noticed) {
  timers.arm(entry, 1000);
  expect_complaint(level(1).start_by, 1001U, "level 1 must be started by 1001, but its slot 7 by 1000");
}

TEST_F(wheel_corrupted, finest_slot_with_other_bounds_is_noticed) {
  timers.arm(entry, 20);
  expect_complaint(levels().finest.ring[20].room, pace.finest_crowd, "level 0 slot 20: 1 entries, expected <= 0");
  expect_complaint(levels().finest.start_by, 21U, "level 0: next visit at 21, expected <= 20");
  expect_unmarked_slot_to_be_noticed(levels().finest.occupied, 20, "level 0 slot 20: an entry with visit 20");
}

TEST_F(wheel_corrupted, first_finest_slot_with_another_bound_is_noticed) {
  timers.advance(1);
  timers.arm(entry, levels().finest.slots);
  expect_complaint(levels().finest.ring[0].room, pace.finest_crowd, "level 0 slot 0: 1 entries, expected <= 0");
}

}  // namespace tickwheel::test::corrupted
