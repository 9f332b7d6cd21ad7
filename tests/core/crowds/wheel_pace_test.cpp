// A crowded slot is emptied ahead of its time, at a pace. Nothing else waits for that: neither an earlier timer of the same ring,
// nor a jump of time. Visits are counted, never time.
#include "../support/probe.hpp"

#include <tickwheel/core/detail/splitmix64.hpp>

namespace tickwheel::test {
namespace {

// In the default geometry a slot of level 1 is so many ticks wide, and one of level 2, whose turn is the longest.
constexpr tick width_1 = 1024;
constexpr tick width_2 = tick{1} << 19;
constexpr tick turn_2 = tick{1} << 29;

// From one `next_expiry` to the next, as an event loop does. Returns the most visits that one advance made.
std::size_t most_visits_until(wheel& timers, tick until) {
  std::size_t most = 0;
  for (tick next; (next = timers.next_expiry()) <= until;) most = std::max(most, visits(timers, next));
  return most;
}

// A lone timer, and a crowd in the eighth slot of `width` ticks.
struct lone_and_crowd {
  static constexpr struct {
    tick width;
    std::size_t count;
  } sizes[]{{width_1, 6400}, {width_1, 65'536}, {width_1, 300'000}, {width_2, 6400}, {width_2, 65'536}};

  explicit lone_and_crowd(std::size_t count) : crowd{timers, count} {}

  wheel timers;
  probe lone{timers};
  counters crowd;
};

TEST(pace, keeps_a_lone_timer_before_a_crowd_on_time) {
  for (const auto& [width, count] : lone_and_crowd::sizes)
    for (const bool pass_between : {false, true}) {
      const tick lead = std::min<tick>(count / 64, width);
      for (const tick ahead : {lead - 1, lead / 2, lead / 4}) {
        SCOPED_TRACE(testing::Message() << count << " in " << width << " ticks, " << ahead << " ticks before"
                                        << (pass_between ? ", after a pass" : ""));
        lone_and_crowd of{count};
        of.timers.arm(of.lone, 8 * width - ahead);
        if (pass_between) of.timers.arm(of.crowd[0], 2 * width + 1);
        if (pass_between) of.timers.advance(of.timers.next_expiry());
        of.crowd.arm(8 * width, width);
        EXPECT_TRUE(valid(of.timers));
        while (of.lone.fired() == 0) {
          ASSERT_LE(of.timers.next_expiry(), 8 * width - ahead);
          of.timers.advance(of.timers.next_expiry());
        }
        EXPECT_TRUE(valid(of.timers));
        EXPECT_EQ(of.timers.lateness().max(), 0U);
      }
    }
}

// The slot of the few begins before the crowd must be started, and their visits come while the crowd is being emptied.
TEST(pace, keeps_few_timers_before_a_crowd_on_time) {
  for (const auto& [width, count] : lone_and_crowd::sizes)
    for (const std::size_t few : {3U, 8U, 9U, 30U}) {
      SCOPED_TRACE(testing::Message() << few << " before " << count << " in " << width << " ticks");
      wheel timers;
      counters crowd{timers, count};
      probes some{timers, few};
      const tick lead = std::min<tick>(count / 64, width);
      // the last one that is armed is neither the first nor the last that is due
      const auto due = [&, width = width](std::size_t i) {
        return 8 * width - lead * (i % 2 != 0 ? i / 2 + 1 : few - i / 2) / (few + 1);
      };
      for (std::size_t i = 0; i < few; ++i) timers.arm(some[i], due(i));
      crowd.arm(8 * width, width);
      most_visits_until(timers, 7 * width);
      EXPECT_TRUE(valid(timers));
      EXPECT_LE(most_visits_until(timers, 8 * width - 1), 2000U);
      for (std::size_t i = 0; i < few; ++i) EXPECT_EQ(some[i].fired_at(), ticks{due(i)});
      EXPECT_TRUE(valid(timers));
      EXPECT_EQ(timers.lateness().max(), 0U);
    }
}

// The next calls visit the entries of a sparse slot that the work bound has left over.
TEST(pace, moves_no_more_entries_of_a_sparse_slot_than_the_work_bound_allows) {
  for (const std::size_t work : {1U, 2U, 7U}) {
    SCOPED_TRACE(work);
    wheel timers;
    probes some{timers, 8};
    some.arm(5 * width_1, {500, 500, 510, 520});
    std::size_t moves = 0;
    count_moves(timers, moves);
    for (advance_result result{}; !result.done;) {
      moves = 0;
      result = timers.advance(5 * width_1 + 500, work);
      EXPECT_LE(result.ran + moves, work);
      EXPECT_TRUE(valid(timers));
    }
    EXPECT_EQ(some.fired(), 4U);
    run_until(timers, 6 * width_1);
    EXPECT_EQ(some.fired_once(), 8U);
    EXPECT_EQ(timers.lateness().max(), 0U);
  }
}

TEST(pace, causes_no_cascade_after_a_lone_timer) {
  for (const auto& [width, count] : lone_and_crowd::sizes) {
    const tick lead = std::min<tick>(count / 64, width);
    const auto a_tick = static_cast<std::size_t>(count / width);
    const std::size_t most = std::max<std::size_t>(64, a_tick + 1) + 128 + a_tick + 16;
    for (const tick ahead : {lead, lead / 2, tick{1}}) {
      SCOPED_TRACE(testing::Message() << count << " in " << width << " ticks, " << ahead << " ticks before");
      lone_and_crowd of{count};
      of.timers.arm(of.lone, 8 * width - ahead);
      of.crowd.arm(8 * width, width);
      EXPECT_LE(most_visits_until(of.timers, 8 * width), std::min<std::size_t>(most, 2000));
      EXPECT_EQ(of.timers.lateness().max(), 0U);
      EXPECT_EQ(of.lone.fired(), 1U);
    }
  }
}

// Both slots must be started at the same tick: one because it begins there, the other because emptying it takes as long as a slot
// is wide.
TEST(pace, visits_a_slot_before_a_crowd_started_at_the_same_tick) {
  constexpr tick width = 16;
  wheel timers{wheel_geometry::hierarchical(2, width)};
  probes first{timers, 2};
  counters crowd{timers, 2000};
  first.arm(5 * width, 2);
  crowd.arm(6 * width);
  EXPECT_EQ(timers.next_expiry(), 5 * width);
  for (tick t = 1; t < 6 * width; ++t) EXPECT_LE(visits(timers, t), 300U) << t;
  EXPECT_EQ(first[0].fired_at(), ticks{5 * width});
  EXPECT_EQ(first[1].fired_at(), ticks{5 * width + 1});
}

// The crowd is in the slot of the cursor, but a turn later; the lone timer in the last slot before.
TEST(pace, keeps_a_lone_timer_before_a_crowd_of_the_next_round) {
  constexpr std::size_t count = 100'000;
  wheel timers{{}, 3 * turn_2 + 12'345};
  counters crowd{timers, count};
  probe lone{timers};
  crowd.arm(4 * turn_2, width_2);
  const tick due = 4 * turn_2 - count / 128;
  timers.arm(lone, due);
  ASSERT_TRUE(valid(timers));
  EXPECT_LE(most_visits_until(timers, due), 2000U);
  EXPECT_EQ(lone.fired(), 1U);
  EXPECT_EQ(timers.lateness().max(), 0U);
}

// One timer of this round stands in a slot of the highest level, and a crowd of the next round with it.
TEST(pace, of_a_crowd_of_the_next_round_delays_no_lone_timer) {
  // The second one is due so early in its slot that 50 ticks before, the cursor is still in the slot before.
  for (const tick due : {5 * width_2 + 1000, 5 * width_2 + 20})
    for (const bool crowd_first : {true, false})
      for (const tick armed_at : {tick{0}, due - width_2 - 500, due - 500, due - 50, due - 1}) {
        if (crowd_first && armed_at != 0) continue;
        SCOPED_TRACE(testing::Message() << "the crowd comes " << (crowd_first ? "first" : "at ") << armed_at);
        lone_and_crowd of{200'000};
        if (!crowd_first) of.timers.arm(of.lone, due);
        most_visits_until(of.timers, armed_at);
        of.timers.advance(armed_at);
        of.crowd.arm(due + turn_2, 16);
        of.timers.arm(of.lone, due);
        ASSERT_TRUE(valid(of.timers));
        EXPECT_LE(most_visits_until(of.timers, due), 2000U);
        EXPECT_EQ(of.lone.fired(), 1U);
      }
}

// A lone timer of this round, and a crowd of the next in its slot: the bound decreases to what the crowd needs.
TEST(pace, keeps_expiry_bound_at_or_before_the_earliest_deadline) {
  lone_and_crowd of{6400};
  probe first{of.timers};
  of.timers.arm(of.lone, 4 * width_2 + 1000);
  of.timers.arm(first, 10);
  of.timers.advance(10);
  const tick before = of.timers.next_expiry();
  bool sooner = false;
  for (counter& c : of.crowd) sooner |= of.timers.arm(c, turn_2 + 4 * width_2 + 5);
  EXPECT_TRUE(sooner || of.timers.next_expiry() == before);
  of.timers.arm(first, 20);
  of.timers.advance(20);
  EXPECT_LE(of.timers.expiry_bound(), of.timers.next_expiry());
  EXPECT_LE(of.timers.expiry_bound(), of.lone.deadline());
}

// The owner of the crowd has postponed it without calling `arm`, and says so when it moves down.
TEST(pace, does_not_crowd_the_old_slot_of_a_postponed_crowd) {
  constexpr std::size_t count = 10'000;
  constexpr tick due = 9 * width_1 + 100;  // those that are left when the slot begins, and due then, would fire
  lone_and_crowd of{count};
  wheel& timers = of.timers;
  of.crowd.arm(due);
  timers.arm(of.lone, due);
  timers.on_move([](void* except, wheel_entry& e) noexcept { return &e == except ? e.deadline() : e.deadline() + due; },
                 &of.lone);
  most_visits_until(timers, due - 1);
  EXPECT_LE(visits(timers, due), 1U);
  EXPECT_EQ(of.lone.fired(), 1U);
  EXPECT_TRUE(valid(timers));
  timers.on_move([](void*, wheel_entry&) noexcept { return tick{0}; }, nullptr);  // an earlier tick is ignored
  run_until(timers, 2 * due - 1);
  EXPECT_EQ(timers.armed(), count);
  run_until(timers, 2 * due);
  EXPECT_EQ(timers.armed(), 0U);
}

// A thousand timers in a minute: one or two of them share a slot of level 1.
TEST(pace, wakes_about_once_for_each_of_a_thousand_timers) {
  constexpr std::size_t count = 1000;
  wheel timers;
  counters all{timers, count};
  detail::splitmix64 random{1};
  for (counter& c : all) timers.arm(c, 1 + random.next() % 457'764);
  std::size_t wakeups = 0;
  for (; timers.armed() != 0; ++wakeups) timers.advance(timers.next_expiry());
  EXPECT_EQ(timers.lateness().max(), 0U);
  EXPECT_LE(wakeups, count * 101 / 100);
}

TEST(pace, visits_each_entry_once_a_level_in_any_jump) {
  for (const unsigned bits : {20U, 34U, 60U})
    for (const std::size_t count : {101U, 10'000U}) {
      SCOPED_TRACE(testing::Message() << count << " beyond 2^" << bits);
      const tick far = tick{1} << bits;
      wheel timers{wheel_geometry::hierarchical(2, 128)};
      counters crowd{timers, count};
      probe near{timers};
      timers.arm(near, 640);
      for (std::size_t i = 1; i < count; ++i) timers.arm(crowd[i], far + i % 100 * 128 + 1 + 5 * (i % 2));
      timers.arm(crowd[0], far + 3);
      EXPECT_LE(visits(timers, far), count + 2);
      EXPECT_EQ(near.fired(), 1U);
      EXPECT_TRUE(valid(timers));
    }
}

}  // namespace
}  // namespace tickwheel::test
