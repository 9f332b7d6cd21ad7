// While a crowded slot is being emptied: what `empty`, `sweep`, `clear` and skipped time make of what is left in it.
#include "../support/probe.hpp"

#include <gmock/gmock.h>

#include <cstddef>

namespace tickwheel::test {
namespace {

using testing::ElementsAre;

constexpr tick width = 1024;
constexpr tick begin = 4 * width;
constexpr std::size_t count = 1280;  // moved down in several steps

class wheel_emptying : public testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], begin + i % width);
  }

  // Takes the first steps. Some are moved down then, the others wait to be.
  void begin_emptying() {
    for (int step = 0; step < 3; ++step) timers.advance(timers.next_expiry());
    ASSERT_LT(timers.now(), begin);
    ASSERT_LT(timers.next_expiry(), begin);
  }

  void cancel_all() {
    for (probe& p : all) timers.cancel(p);
  }

  wheel timers{wheel_geometry::hierarchical(2, width)};
  probes all{timers, count};
};

// What was cancelled is dropped in the first steps, so that nothing is linked but what is left in the slot that is emptied.
TEST_F(wheel_emptying, wheel_is_not_empty_while_a_timer_is_armed) {
  for (std::size_t i = 0; i < count; ++i)
    if (i != count / 2) timers.cancel(all[i]);
  while (timers.armed() != 0) {
    ASSERT_FALSE(timers.empty()) << timers.now();
    timers.advance(timers.next_expiry());
  }
  EXPECT_THAT(all[count / 2].fired_at(), ElementsAre(begin + count / 2));
  EXPECT_TRUE(timers.empty());
}

TEST_F(wheel_emptying, sweep_drops_what_is_left) {
  begin_emptying();
  cancel_all();
  timers.sweep(count - 1);
  EXPECT_FALSE(timers.empty());
  EXPECT_TRUE(valid(timers));
  timers.sweep(2);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
}

TEST_F(wheel_emptying, clear_detaches_what_is_left) {
  begin_emptying();
  std::size_t disposed = 0;
  timers.clear([&](wheel_entry& e) {
    EXPECT_FALSE(e.armed());
    ++disposed;
  });
  EXPECT_EQ(disposed, count);
  EXPECT_TRUE(timers.empty());
  EXPECT_TRUE(valid(timers));
  timers.arm(all[0], begin);
  EXPECT_EQ(timers.next_expiry(), begin);
  EXPECT_EQ(timers.advance(begin).ran, 1U);
}

TEST_F(wheel_emptying, begins_anew_for_timers_armed_again_after_time_skipped) {
  begin_emptying();
  cancel_all();
  timers.advance(timers.now() + 1, 0);
  EXPECT_TRUE(valid(timers));
  for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], begin + i % width);
  EXPECT_TRUE(valid(timers));
  run_until(timers, begin + width);
  for (std::size_t i = 0; i < count; ++i) ASSERT_THAT(all[i].fired_at(), ElementsAre(begin + i % width));
  EXPECT_TRUE(timers.empty());
}

TEST_F(wheel_emptying, delays_no_timer_after_time_skipped_beyond_it) {
  for (const tick later : {begin, begin + width / 2, 3 * begin, 100 * begin}) {
    SCOPED_TRACE(later);
    wheel fresh{wheel_geometry::hierarchical(2, width)};
    probes crowd{fresh, count};
    for (std::size_t i = 0; i < count; ++i) fresh.arm(crowd[i], begin + i % width);
    for (int step = 0; step < 3; ++step) fresh.advance(fresh.next_expiry());
    for (probe& p : crowd) fresh.cancel(p);
    fresh.advance(later, 0);
    EXPECT_TRUE(valid(fresh));
    EXPECT_FALSE(fresh.empty());
    for (std::size_t i = 0; i < count; i += 100) fresh.arm(crowd[i], later + 1 + i);
    EXPECT_TRUE(valid(fresh));
    run_until(fresh, later + 1 + count);
    for (std::size_t i = 0; i < count; i += 100) ASSERT_THAT(crowd[i].fired_at(), ElementsAre(later + 1 + i));
  }
}

TEST_F(wheel_emptying, goes_on_after_next_expiry_was_asked_amid_a_step) {
  const tick first = timers.next_expiry();
  ASSERT_FALSE(timers.advance(first, 100).done);
  EXPECT_LE(timers.next_expiry(), first);
  EXPECT_TRUE(valid(timers));
  run_until(timers, begin + width);
  EXPECT_EQ(all.fired(), count);
  EXPECT_EQ(timers.lateness().max(), 0U);
}

// In a callback nothing is armed, and dead links wait behind it in its slot and in others. `sweep` leaves all where they are.
TEST(wheel_sweep, does_nothing_in_a_callback) {
  for (const auto& geometry : {wheel_geometry::hashed(8), wheel_geometry::hierarchical(2, 8), wheel_geometry{}}) {
    wheel timers{geometry};
    probes dead{timers, 6};
    std::size_t ran = 0;
    probe last{timers, [&](probe&) {
                 for (probe& p : dead) timers.cancel(p);
                 EXPECT_EQ(timers.armed(), 0U);
                 timers.sweep(wheel::npos);
                 EXPECT_FALSE(timers.empty());
                 ++ran;
               }};
    timers.arm(last, 4);
    for (std::size_t i = 0; i < dead.size(); ++i) timers.arm(dead[i], 4 + i);
    EXPECT_EQ(timers.advance(4).ran, 1U);
    EXPECT_EQ(ran, 1U);
    EXPECT_TRUE(valid(timers));
    timers.sweep(wheel::npos);
    EXPECT_TRUE(timers.empty());
  }
}

TEST(wheel_sweep, does_nothing_while_a_timer_is_armed) {
  wheel timers{wheel_geometry::hierarchical(2, 8)};
  probes dead{timers, 20};
  for (std::size_t i = 0; i < dead.size(); ++i) timers.arm(dead[i], 100);
  for (probe& p : dead) timers.cancel(p);
  probe timer{timers};
  timers.arm(timer, 50);
  timers.sweep(wheel::npos);
  EXPECT_EQ(timers.armed(), 1U);
  EXPECT_EQ(timers.advance(50).ran, 1U);
  EXPECT_FALSE(timers.empty());
}

TEST(wheel_sweep, drops_no_more_links_than_allowed) {
  for (const auto& geometry : {wheel_geometry::hashed(8), wheel_geometry::hierarchical(2, 8), wheel_geometry{}}) {
    wheel timers{geometry};
    probes dead{timers, 30};
    for (std::size_t i = 0; i < dead.size(); ++i) timers.arm(dead[i], 1 + 3 * i);
    for (probe& p : dead) timers.cancel(p);
    timers.sweep(0);
    timers.sweep(29);
    EXPECT_FALSE(timers.empty());
    EXPECT_TRUE(valid(timers));
    timers.sweep(2);  // one is the last, and then it finds that there are no others
    EXPECT_TRUE(timers.empty());
  }
}

}  // namespace
}  // namespace tickwheel::test
