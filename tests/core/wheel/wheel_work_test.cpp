// How many slots a wheel examines. It is counted, because an examination is no visit.
#include "../../../src/core/pace.hpp"
#include "../support/probe.hpp"

namespace tickwheel::test {
namespace {

constexpr std::size_t slots = std::size_t{1} << 20;

class wheel_work : public testing::Test {
 protected:
  template <class F>
  static std::size_t examined_by(F&& action) {
    const std::size_t before = examined;
    action();
    return examined - before;
  }

  // Each entry is destroyed, so that all slots are marked and none has any.
  void leave_marked_slots() {
    all.arm(1, slots);
    all.destroy();
  }

  wheel timers{wheel_geometry::hashed(slots)};
  counters all{timers, slots};
};

TEST_F(wheel_work, sweep_examines_no_more_slots_than_allowed) {
  leave_marked_slots();
  EXPECT_LE(examined_by([&] { timers.sweep(1); }), 2000U);
  EXPECT_LE(examined_by([&] { timers.sweep(100); }), 2000U);
}

// Looking into them would take a cache miss for each list.
TEST_F(wheel_work, sweep_passes_few_slots_with_armed_timers) {
  all.arm(1, slots);
  timers.cancel(all[0]);
  const std::size_t no_slots = examined_by([&] { timers.sweep(1); });
  all.arm(1, slots);
  timers.cancel(all[0]);
  EXPECT_LE(examined_by([&] { timers.sweep(800); }), no_slots + 110U);
}

TEST_F(wheel_work, clear_examines_each_slot_once) {
  all.arm(1, slots);
  EXPECT_LE(examined_by([&] { clear(timers); }), 3 * slots);
}

TEST_F(wheel_work, advance_over_empty_marked_slots_keeps_its_bound) {
  leave_marked_slots();
  probe last{timers};
  timers.arm(last, slots - 1);
  EXPECT_LE(examined_by([&] { EXPECT_FALSE(timers.advance(slots, 1).done); }), 100U);
  finish(timers, slots, 1000);
  EXPECT_EQ(last.fired(), 1U);
}

}  // namespace
}  // namespace tickwheel::test
