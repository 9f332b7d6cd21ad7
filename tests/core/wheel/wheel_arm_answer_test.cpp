// What `arm` answers: whether a caller that waits for `next_expiry` has to ask again.
#include "../support/probe.hpp"
#include "../support/wheel_cases.hpp"

#include <algorithm>
#include <random>

namespace tickwheel::test {
namespace {

constexpr tick width = 1024;  // of a slot of the second level

class wheel_arm_answer : public testing::Test {
 protected:
  wheel timers{wheel_geometry::hierarchical(2, width)};
};

TEST_F(wheel_arm_answer, is_true_for_the_first_timer_on_any_level) {
  for (const tick deadline : {tick{1}, tick{100}, 2 * width, 5 * width + 3, 5000 * width}) {
    wheel fresh{wheel_geometry::hierarchical(2, width)};
    probe timer{fresh};
    EXPECT_TRUE(fresh.arm(timer, deadline)) << deadline;
    EXPECT_EQ(fresh.next_expiry(), deadline);
  }
}

TEST_F(wheel_arm_answer, is_true_for_an_earlier_timer_only) {
  for (const tick first : {tick{100}, 5 * width + 3}) {
    wheel fresh{wheel_geometry::hierarchical(2, width)};
    probes all{fresh, 4};
    ASSERT_TRUE(fresh.arm(all[0], first));
    ASSERT_EQ(fresh.next_expiry(), first);  // a wheel that was not asked does not know
    EXPECT_FALSE(fresh.arm(all[1], first + 2 * width)) << first;
    EXPECT_FALSE(fresh.arm(all[2], first + 1 + 7 * width)) << first;
    EXPECT_TRUE(fresh.arm(all[3], first - 1)) << first;
  }
}

TEST_F(wheel_arm_answer, is_false_for_a_timer_of_the_same_tick) {
  probes all{timers, 2};
  timers.arm(all[0], 100);
  ASSERT_EQ(timers.next_expiry(), 100U);
  EXPECT_FALSE(timers.arm(all[1], 100));
}

TEST_F(wheel_arm_answer, is_false_when_a_timer_moves_later) {
  probes all{timers, 2};
  timers.arm(all[0], 100);
  ASSERT_EQ(timers.next_expiry(), 100U);
  EXPECT_FALSE(timers.arm(all[0], 200));
  EXPECT_EQ(timers.next_expiry(), 100U);
}

TEST_F(wheel_arm_answer, is_true_when_a_timer_moves_earlier) {
  probe timer{timers};
  for (const tick deadline : {9 * width, 7 * width + 7, 5 * width + 6, tick{100}, tick{99}}) {
    EXPECT_TRUE(timers.arm(timer, deadline)) << deadline;
    EXPECT_EQ(timers.next_expiry(), deadline);
  }
}

// Alone it is visited at its deadline, with another when the slot begins.
TEST_F(wheel_arm_answer, is_true_when_a_second_timer_brings_the_visit_forward) {
  probes all{timers, 2};
  timers.arm(all[0], 5 * width + 500);
  ASSERT_EQ(timers.next_expiry(), 5 * width + 500);
  EXPECT_TRUE(timers.arm(all[1], 5 * width + 600));
  EXPECT_EQ(timers.next_expiry(), 5 * width);
}

// More slots of a later round than the wheel looks at by itself: after an advance it only knows that nothing is due before them.
TEST_F(wheel_arm_answer, is_true_for_a_timer_before_slots_not_looked_at) {
  constexpr std::size_t slots = 128;
  constexpr tick earliest = 2 * slots + 2;
  for (tick deadline = 2; deadline < earliest; ++deadline) {
    wheel hashed{wheel_geometry::hashed(slots)};
    probes others{hashed, 100};
    for (std::size_t i = 0; i < others.size(); ++i) hashed.arm(others[i], earliest + i);
    probe first{hashed};
    hashed.arm(first, 1);
    hashed.advance(1);  // looks for the next slot
    probe sooner{hashed};
    EXPECT_TRUE(hashed.arm(sooner, deadline)) << deadline;
    EXPECT_EQ(hashed.next_expiry(), deadline);
  }
}

TEST_F(wheel_arm_answer, is_true_each_time_a_crowd_needs_an_earlier_visit) {
  probes all{timers, 1000};
  timers.arm(all[0], 5 * width);
  std::size_t times = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const tick before = timers.next_expiry();
    const bool answer = timers.arm(all[i], 5 * width + i);
    ASSERT_LE(timers.next_expiry(), before);
    ASSERT_EQ(answer, timers.next_expiry() < before) << i;
    times += answer;
  }
  EXPECT_GT(times, 5U);
}

TEST_F(wheel_arm_answer, is_false_for_a_crowd_behind_an_earlier_slot) {
  probes all{timers, 2000};
  timers.arm(all[0], 5 * width);
  ASSERT_EQ(timers.next_expiry(), 5 * width);
  std::size_t i = 1;
  while (i < all.size() && !timers.arm(all[i], 6 * width + i % 8)) ++i;
  EXPECT_EQ(i, all.size());
  EXPECT_EQ(timers.next_expiry(), 5 * width);
  EXPECT_TRUE(valid(timers));
}

// A level of many slots does not look at all of them by itself: until it was asked, anything may be sooner than it knows.
TEST(wheel_arm_answer_with_many_slots, is_true_until_next_expiry_is_asked) {
  wheel timers{wheel_geometry::hashed(256)};
  probe first{timers};
  probe soon{timers};
  probe other{timers};
  probes far{timers, 100};
  timers.arm(first, 3);
  for (std::size_t i = 0; i < far.size(); ++i) timers.arm(far[i], 2 * 256 + 10 + i);
  timers.advance(3);
  EXPECT_TRUE(timers.arm(other, 3 * 256 + 200));
  const tick next = timers.next_expiry();
  ASSERT_EQ(next, 2U * 256 + 10);
  EXPECT_FALSE(timers.arm(other, 3 * 256 + 199));
  EXPECT_EQ(timers.next_expiry(), next);
  EXPECT_TRUE(timers.arm(soon, 150));
  EXPECT_EQ(timers.next_expiry(), 150U);
}

// Asks for `next_expiry` when `arm` says so, and after each advance.
class caller {
 public:
  explicit caller(wheel& timers) : timers_{timers} {}

  void arm(probe& p, tick deadline) {
    if (timers_.arm(p, deadline)) ask();
  }

  void advance(tick now) {
    timers_.advance(now);
    ask();
  }

  tick waits_until() const { return until_; }

 private:
  void ask() { until_ = timers_.next_expiry(); }

  wheel& timers_;
  tick until_ = never;
};

class wheel_caller : public testing::TestWithParam<wheel_geometry> {};

TEST_P(wheel_caller, asking_when_told_never_waits_too_long) {
  std::mt19937_64 random{GetParam().slots};
  const auto delays = delays_of_interest(GetParam());
  for (int run = 0; run < 20; ++run) {
    wheel timers{GetParam()};
    caller waiting{timers};
    probe keeper{timers};  // so that something is always armed
    probes all{timers, 150};
    waiting.arm(keeper, tick{1} << 60);
    for (int step = 0; step < 400; ++step) {
      probe& p = all[static_cast<std::size_t>(random() % all.size())];
      const auto what = random() % 16;
      const tick delay = delays[static_cast<std::size_t>(random() % delays.size())] + random() % 4;
      if (what < 11)
        waiting.arm(p, timers.now() + delay);
      else if (what < 13)
        timers.cancel(p);
      else if (what < 14)
        waiting.advance(timers.now() + 1 + random() % 3);
      else if (waiting.waits_until() < keeper.deadline())
        waiting.advance(std::max(timers.now(), waiting.waits_until()));
      tick earliest = keeper.deadline();
      for (const probe& q : all) earliest = std::min(earliest, q.deadline());
      ASSERT_LE(waiting.waits_until(), earliest) << "at " << timers.now();
    }
    ASSERT_TRUE(valid(timers));
  }
}

INSTANTIATE_TEST_SUITE_P(all, wheel_caller,
                         testing::Values(wheel_geometry::hashed(8), wheel_geometry::hashed(256),
                                         wheel_geometry::hashed(8192), wheel_geometry::hierarchical(2, 4),
                                         wheel_geometry::hierarchical(2, 128), wheel_geometry::hierarchical(4, 16),
                                         wheel_geometry{}),
                         geometry_name);

}  // namespace
}  // namespace tickwheel::test
