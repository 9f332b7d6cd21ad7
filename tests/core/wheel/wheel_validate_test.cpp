// Each invariant that validate() checks, broken from within: validate() reports level, slot, value and expectation.
#include "../../../src/core/hierarchy.hpp"
#include "../support/probe.hpp"

// Not an unnamed namespace: an explicit instantiation outside of it would have to name it.
namespace tickwheel::test::corrupted {

// The private members of a wheel: an explicit instantiation may name them.
template <class Name, auto Pointer>
struct expose {
  friend constexpr auto pointer_to(Name) { return Pointer; }
};

// clang-format off
struct levels { friend constexpr auto pointer_to(levels); };
struct expiry { friend constexpr auto pointer_to(expiry); };
struct arms { friend constexpr auto pointer_to(arms); };
struct ended { friend constexpr auto pointer_to(ended); };
struct has_immediates { friend constexpr auto pointer_to(has_immediates); };
struct visit { friend constexpr auto pointer_to(visit); };
struct deadline { friend constexpr auto pointer_to(deadline); };
// clang-format on

template struct expose<levels, &wheel::levels_>;
template struct expose<expiry, &wheel::expiry_>;
template struct expose<arms, &wheel::arms_>;
template struct expose<ended, &wheel::ended_>;
template struct expose<has_immediates, &wheel::has_immediates_>;
template struct expose<visit, &wheel_entry::visit_>;
template struct expose<deadline, &wheel_entry::deadline_>;

class validate : public testing::Test {
 protected:
  ~validate() override {
    EXPECT_TRUE(valid(timers));
    clear(timers);
  }

  // validate() says each of `complaints` while `what` has another value.
  template <class T, class U, class... Complaint>
  void expect_complaint(T& what, U broken, const Complaint&... complaints) {
    ASSERT_TRUE(valid(timers));
    const T sound = std::exchange(what, static_cast<T>(broken));
    expect_to_say(complaints...);
    what = sound;
  }
  template <class... Complaint>
  void expect_to_say(const Complaint&... complaints) {
    std::string why;
    EXPECT_FALSE(timers.validate(&why));
    EXPECT_FALSE(timers.validate());
    for (const char* complaint : {complaints...}) EXPECT_NE(why.find(complaint), std::string::npos) << why;
  }
  static detail::watched_count counted(int times) {
    detail::watched_count count;
    while (times-- > 0) ++count;
    return count;
  }
  void expect_unmarked_slot_to_be_reported(slot_bitmap& occupied, unsigned index, const char* complaint) {
    ASSERT_TRUE(valid(timers));
    occupied.clear(index);
    expect_to_say(complaint);
    occupied.set(index);
  }

  template <class Name>
  auto& get(Name name) {
    return timers.*pointer_to(name);
  }
  wheel_level& level(unsigned k) { return all_levels.coarse[k]; }

  // 300 timers of one slot of level 1, which begins at 1280, of which some were moved down.
  wheel_level::emptying_slot& begin_to_empty_a_slot() {
    crowd.arm(1280, 64);
    timers.advance(level(1).next.start_by);
    EXPECT_TRUE(level(1).being_emptied());
    return level(1).emptying;
  }

  wheel timers{wheel_geometry::hierarchical(3, 128)};  // slots of level 1 are 128 ticks wide
  hierarchy& all_levels = *(timers.*pointer_to(levels{}));
  probe entry{timers};
  tick& entry_visit = entry.*pointer_to(visit{});
  tick& entry_deadline = entry.*pointer_to(deadline{});
  probes crowd{timers, 300};
};

TEST_F(validate, reports_nothing_in_a_sound_wheel) {
  timers.arm(entry, 350);
  EXPECT_TRUE(valid(timers));
}

TEST_F(validate, reports_an_expiry_out_of_bounds) {
  timers.advance(5);
  timers.arm(entry, 20);
  expect_complaint(get(expiry{}), 4U, "next expiry 4, expected now 5 or later");
  expect_complaint(get(expiry{}), never, "next expiry 18446744073709551615, expected");
  expect_complaint(get(expiry{}), 21U, "next expiry 21, but the levels need a visit at 20");
}

TEST_F(validate, reports_counts_that_do_not_add_up) {
  timers.arm(entry, 20);
  expect_complaint(get(ended{}), counted(2), "more entries ended than were armed");
  expect_complaint(get(arms{}), counted(2), "2 entries count as armed, but 1 are linked");
  timers.advance(20);
  expect_complaint(get(ended{}), counted(0), "more entries ended than were armed");
}

TEST_F(validate, reports_an_immediate_out_of_place) {
  timers.arm_immediate(entry, 0);
  expect_complaint(get(has_immediates{}), false, "an immediate is linked, expected none");
  expect_complaint(entry_visit, 7U, "an immediate with visit 7, expected 0");
  timers.cancel(entry);
  timers.collect_immediates();
  timers.run_immediates(0);
}

TEST_F(validate, reports_a_backlog_out_of_bounds) {
  probes many{timers, 3000};
  many.arm(50);
  timers.advance(50, 1024);
  ASSERT_FALSE(all_levels.left_over.empty());
  expect_complaint(all_levels.left_over.since, 51U,
                   "backlog: an entry with visit 50, deadline 50, expected deadline >= visit >= 51");
  expect_complaint(get(expiry{}), 60U, "next expiry 60, expected <= now 50 while entries are left over");
  timers.advance(50);
}

TEST_F(validate, reports_an_emptying_slot_out_of_bounds) {
  wheel_level::emptying_slot& from = begin_to_empty_a_slot();
  expect_complaint(from.left, 3U, "level 1 slot being emptied: ");
  expect_complaint(from.left, 600U, "by its pace");
  expect_complaint(from.at, 1280U + 128U, "level 1 slot to be empty by 1408: an entry with visit 1280");
  expect_complaint(from.at, 1280U - 128U, "level 1 slot to be empty by 1152: an entry with visit 1280");
  expect_complaint(from.at, never, "level 1 slot");
}

TEST_F(validate, reports_a_level_that_forgets_its_emptying_slot) {
  const wheel_level::emptying_slot& from = begin_to_empty_a_slot();
  expect_complaint(level(1).start_by, from.due + 1, "when its emptying is to go on");
}

TEST_F(validate, reports_a_level_that_starts_too_late) {
  timers.arm(entry, 1000);
  expect_complaint(all_levels.next_coarse, &level(2), "but level 2 counts as the first that does");
  expect_complaint(level(1).start_by, 1001U, "level 1 must be started by 1001, but its slot 7 by 1000");
}

TEST_F(validate, reports_a_slot_out_of_bounds) {
  for (std::size_t i = 0; i < 9; ++i) timers.arm(crowd[i], 1290 + i);
  wheel_level::slot& slot = level(1).ring[10];
  expect_complaint(slot.first_visit, 1291U, "expected visit >= the slot's first, 1291");
  expect_complaint(slot.count, 1U, "level 1 slot 10: 9 entries, expected <= 1");
  expect_complaint(slot.first_visit, 1279U,
                   "level 1 slot 10: first visit 1279 of 9 entries, expected the begin of a span");
  expect_unmarked_slot_to_be_reported(level(1).occupied, 10,
                                      "level 1 slot 10: count 9, expected 0 where nothing is marked");
}

TEST_F(validate, reports_an_entry_of_a_sparse_slot_out_of_its_chain) {
  timers.arm(crowd[0], 1290);
  wheel_level::slot& slot = level(1).ring[10];
  slot.chains[1].take_all(slot.chains[0]);
  expect_to_say("level 1 slot 10: 0 entries in the first chain, expected all 1");
  slot.chains[0].take_all(slot.chains[1]);
}

TEST_F(validate, reports_a_finest_slot_out_of_bounds) {
  timers.arm(entry, 20);
  expect_complaint(all_levels.finest.ring[20].room, pace.finest_crowd, "level 0 slot 20: 1 entries, expected <= 0");
  expect_complaint(all_levels.finest.start_by, 21U, "level 0: next visit at 21, expected <= 20");
  expect_unmarked_slot_to_be_reported(all_levels.finest.occupied, 20, "level 0 slot 20: an entry with visit 20");
}

TEST_F(validate, reports_the_first_finest_slot_out_of_bounds) {
  timers.advance(1);
  timers.arm(entry, all_levels.finest.slots);
  expect_complaint(all_levels.finest.ring[0].room, pace.finest_crowd, "level 0 slot 0: 1 entries, expected <= 0");
}

TEST_F(validate, reports_an_entry_out_of_its_place) {
  timers.arm(entry, 350);  // level 1, slot 2: [256, 383]
  expect_complaint(entry_visit, 30U, "level 1 slot 2", "visit 30", "expected");
  expect_complaint(entry_deadline, 349U, "level 1 slot 2", "deadline 349", "expected deadline >= visit");
  expect_complaint(entry_visit, 330U, "level 1 slot 2", "expected visit >= the slot's first");
  expect_complaint(entry_deadline, never, "1 entries count as armed, but 0 are linked");
}

TEST_F(validate, reports_an_entry_a_turn_ahead) {
  timers.arm(entry, 350);
  const tick turn = 128 * 128;
  entry_deadline = 350 + turn;
  expect_complaint(entry_visit, 350 + turn, "level 1 slot 2", "less than a turn ahead");
}

}  // namespace tickwheel::test::corrupted
