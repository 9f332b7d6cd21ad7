// A crowded slot is emptied ahead of its time, at a pace, and nothing else waits for that: not what is due before it in
// the same ring, and not a jump of time. Visits are counted, never time.
#include "../support/probe.hpp"
#include "../support/wheel_cases.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace tickwheel::test {
namespace {

// In the default geometry a slot of level 1 is so many ticks wide, and one of level 2, whose turn is the longest.
constexpr tick width_1 = 1024;
constexpr tick width_2 = tick{1} << 19;
constexpr tick turn_2 = tick{1} << 29;

// a bare entry that counts, for a million at a time
struct counter : wheel_entry {
  counter() : wheel_entry{[](wheel_entry& e) noexcept { ++static_cast<counter&>(e).fired; }} {}
  unsigned fired = 0;
};

// How many visits it takes until nothing due is left: counted by allowing one at a time.
std::size_t visits(wheel& timers, tick now) {
  std::size_t count = 0;
  while (!timers.advance(now, 1).done) ++count;
  return count;
}

// From one `next_expiry` to the next, as an event loop does. Returns the most visits that one advance made.
std::size_t most_visits_until(wheel& timers, tick until) {
  std::size_t most = 0;
  for (tick next; (next = timers.next_expiry()) <= until;) most = std::max(most, visits(timers, next));
  return most;
}

// `count` timers, in their wheel.
class crowd {
 public:
  crowd(wheel& timers, std::size_t count) : timers_{timers}, count_{count}, all_{std::make_unique<counter[]>(count)} {}
  ~crowd() {
    for (std::size_t i = 0; i < count_; ++i) timers_.cancel(all_[i]);
  }
  crowd(const crowd&) = delete;
  crowd& operator=(const crowd&) = delete;

  void arm(tick first, tick width) {
    for (std::size_t i = 0; i < count_; ++i) timers_.arm(all_[i], first + i % width);
  }
  counter& operator[](std::size_t i) { return all_[i]; }

 private:
  wheel& timers_;
  std::size_t count_;
  std::unique_ptr<counter[]> all_;
};

struct crowd_case {
  tick width;  // of the slots
  std::size_t count;

  friend std::ostream& operator<<(std::ostream& out, const crowd_case& c) {
    return out << c.count << " in " << c.width << " ticks";
  }
};

class wheel_pace_test : public testing::TestWithParam<crowd_case> {
 protected:
  const tick width = GetParam().width;
  const std::size_t count = GetParam().count;
  const tick lead = std::min<tick>(count / 64, width);
};

TEST_P(wheel_pace_test, lone_timer_before_a_crowded_slot_is_on_time) {
  for (const bool pass_between : {false, true})
    for (const tick ahead : {lead - 1, lead / 2, lead / 4}) {
      SCOPED_TRACE(testing::Message() << ahead << " ticks before" << (pass_between ? ", after a pass" : ""));
      wheel timers;
      crowd others{timers, count};
      probe lone{timers};
      timers.arm(lone, 8 * width - ahead);
      if (pass_between) timers.arm(others[0], 2 * width + 1);
      if (pass_between) timers.advance(timers.next_expiry());
      others.arm(8 * width, width);
      EXPECT_TRUE(valid(timers));
      while (lone.fired() == 0) {
        ASSERT_LE(timers.next_expiry(), 8 * width - ahead);
        timers.advance(timers.next_expiry());
      }
      EXPECT_TRUE(valid(timers));
      EXPECT_EQ(timers.lateness().max(), 0U);
    }
}

TEST_P(wheel_pace_test, lone_timer_before_a_crowded_slot_brings_no_cascade) {
  const auto a_tick = static_cast<std::size_t>(count / width);
  const std::size_t most = std::max<std::size_t>(64, a_tick + 1) + 128 + a_tick + 16;
  for (const tick ahead : {lead, lead / 2, tick{1}}) {
    SCOPED_TRACE(ahead);
    wheel timers;
    crowd others{timers, count};
    probe lone{timers};
    timers.arm(lone, 8 * width - ahead);
    others.arm(8 * width, width);
    EXPECT_LE(most_visits_until(timers, 8 * width), std::min<std::size_t>(most, 2000));
    EXPECT_EQ(timers.lateness().max(), 0U);
    EXPECT_EQ(lone.fired(), 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(all, wheel_pace_test,
                         testing::Values(crowd_case{width_1, 6400}, crowd_case{width_1, 65'536},
                                         crowd_case{width_1, 300'000}, crowd_case{width_2, 6400},
                                         crowd_case{width_2, 65'536}));

// Both slots need attention at the same tick: one because it begins there, the other because emptying it takes as long as a slot is
// wide.
TEST(wheel_pace, slot_that_begins_goes_before_a_crowd_begun_at_the_same_tick) {
  constexpr tick width = 16;
  wheel timers{wheel_geometry::hierarchical(2, width)};
  probes first{timers, 2};
  crowd others{timers, 2000};
  for (std::size_t i = 0; i < 2; ++i) timers.arm(first[i], 5 * width + i);
  others.arm(6 * width, 1);
  EXPECT_EQ(timers.next_expiry(), 5 * width);
  for (tick t = 1; t < 6 * width; ++t) EXPECT_LE(visits(timers, t), 300U) << t;
  EXPECT_EQ(first[0].fired_at(), (std::vector<tick>{5 * width}));
  EXPECT_EQ(first[1].fired_at(), (std::vector<tick>{5 * width + 1}));
}

// The crowd is in the slot of the cursor, but a turn later; the lone timer in the last slot before.
TEST(wheel_pace, lone_timer_before_a_crowd_of_the_next_round_is_on_time) {
  constexpr std::size_t count = 100'000;
  const tick now = 3 * turn_2 + 12'345;
  wheel timers{{}, now};
  crowd others{timers, count};
  probe lone{timers};
  others.arm(4 * turn_2, width_2);
  const tick due = 4 * turn_2 - count / 128;
  timers.arm(lone, due);
  ASSERT_TRUE(valid(timers));
  EXPECT_LE(most_visits_until(timers, due), 2000U);
  EXPECT_EQ(lone.fired(), 1U);
  EXPECT_EQ(timers.lateness().max(), 0U);
}

// One timer of this round stands in a slot of the highest level, and a crowd of the next round with it.
TEST(wheel_pace, crowd_of_the_next_round_does_not_hold_up_a_lone_timer) {
  constexpr std::size_t count = 200'000;
  // The second one is due so early in its slot that 50 ticks before, the cursor is still in the slot before.
  for (const tick due : {5 * width_2 + 1000, 5 * width_2 + 20})
    for (const bool crowd_first : {true, false})
      for (const tick armed_at : {tick{0}, due - width_2 - 500, due - 500, due - 50, due - 1}) {
        if (crowd_first && armed_at != 0) continue;
        SCOPED_TRACE(testing::Message() << "the crowd comes " << (crowd_first ? "first" : "at ") << armed_at);
        wheel timers;
        crowd others{timers, count};
        probe lone{timers};
        if (!crowd_first) timers.arm(lone, due);
        most_visits_until(timers, armed_at);
        timers.advance(armed_at);
        others.arm(due + turn_2, 16);
        timers.arm(lone, due);
        ASSERT_TRUE(valid(timers));
        EXPECT_LE(most_visits_until(timers, due), 2000U);
        EXPECT_EQ(lone.fired(), 1U);
      }
}

// Their owner has put them off without a word. Asked when they move down, it says so.
TEST(wheel_pace, crowd_that_was_put_off_does_not_crowd_its_old_slot) {
  constexpr std::size_t count = 10'000;
  constexpr tick due = 9 * width_1 + 100;  // those that are left when the slot begins, and due then, would fire
  wheel timers;
  crowd others{timers, count};
  others.arm(due, 1);
  probe live{timers};
  timers.arm(live, due);
  timers.on_move([](void* except, wheel_entry& e) noexcept { return &e == except ? e.deadline() : e.deadline() + due; },
                 &live);
  most_visits_until(timers, due - 1);
  EXPECT_LE(visits(timers, due), 1U);
  EXPECT_EQ(live.fired(), 1U);
  EXPECT_TRUE(valid(timers));
  timers.on_move([](void*, wheel_entry&) noexcept { return tick{0}; }, nullptr);  // earlier is not taken
  run_until(timers, 2 * due - 1);
  EXPECT_EQ(timers.armed(), count);
  run_until(timers, 2 * due);
  EXPECT_EQ(timers.armed(), 0U);
}

TEST(wheel_pace, jump_visits_each_entry_once_a_level_however_far) {
  for (const unsigned bits : {20U, 34U, 60U})
    for (const std::size_t count : {std::size_t{101}, std::size_t{10'000}}) {
      SCOPED_TRACE(testing::Message() << count << " beyond 2^" << bits);
      const tick far = tick{1} << bits;
      wheel timers{wheel_geometry::hierarchical(2, 128)};
      crowd others{timers, count};
      probe near{timers};
      timers.arm(near, 640);
      for (std::size_t i = 1; i < count; ++i) timers.arm(others[i], far + i % 100 * 128 + 1 + 5 * (i % 2));
      timers.arm(others[0], far + 3);
      EXPECT_LE(visits(timers, far), count + 2);
      EXPECT_EQ(near.fired(), 1U);
      EXPECT_TRUE(valid(timers));
    }
}

}  // namespace
}  // namespace tickwheel::test
