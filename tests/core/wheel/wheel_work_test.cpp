// How much a wheel looks at: counted, since where it is too much no visit is made that could be.
#include "../../../src/core/pace.hpp"
#include "../support/probe.hpp"

#include <cstddef>
#include <memory>

namespace tickwheel::test {
namespace {

constexpr std::size_t slots = std::size_t{1} << 20;

struct quiet : wheel_entry {
  quiet() : wheel_entry{[](wheel_entry&) noexcept {}} {}
};

class wheel_work : public testing::Test {
 protected:
  template <class F>
  static std::size_t examined_by(F&& action) {
    const std::size_t before = examined;
    action();
    return examined - before;
  }

  void arm_one_a_slot() {
    for (std::size_t i = 0; i < slots; ++i) timers.arm(all[i], 1 + i);
  }

  // Each entry is destroyed, so that all slots are marked and none has any.
  void leave_marked_slots() {
    arm_one_a_slot();
    for (std::size_t i = 0; i < slots; ++i) timers.cancel(all[i]);
    all.reset();
  }

  std::unique_ptr<quiet[]> all = std::make_unique<quiet[]>(slots);
  wheel timers{wheel_geometry::hashed(slots)};
};

TEST_F(wheel_work, sweep_looks_at_no_more_slots_than_it_may) {
  leave_marked_slots();
  EXPECT_LE(examined_by([&] { timers.sweep(1); }), 2000U);
  EXPECT_LE(examined_by([&] { timers.sweep(100); }), 2000U);
}

TEST_F(wheel_work, clear_looks_at_each_slot_once) {
  arm_one_a_slot();
  EXPECT_LE(examined_by([&] { timers.clear([](wheel_entry&) {}); }), 3 * slots);
}

TEST_F(wheel_work, advance_over_empty_marked_slots_keeps_its_bound) {
  leave_marked_slots();
  probe last{timers};
  timers.arm(last, slots - 1);
  EXPECT_LE(examined_by([&] { EXPECT_FALSE(timers.advance(slots, 1).done); }), 100U);
  while (!timers.advance(slots, 1000).done) {
  }
  EXPECT_EQ(last.fired(), 1U);
}

}  // namespace
}  // namespace tickwheel::test
