// A corrupted wheel is reported: which level and slot, what was found, and what was expected.
#include "../support/probe.hpp"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstring>
#include <string>

namespace tickwheel::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What an entry consists of, for a test that overwrites it as a stray pointer would.
struct layout {
  void* link[2];
  tick deadline;
  tick visit;
  wheel_entry::callback run;
};
static_assert(sizeof(layout) == sizeof(wheel_entry));

void overwrite(wheel_entry& e, std::size_t offset, tick value) {
  std::memcpy(reinterpret_cast<std::byte*>(&e) + offset, &value, sizeof value);
}

std::string complaint_of(const wheel& timers) {
  std::string why;
  EXPECT_FALSE(timers.validate(&why));
  EXPECT_FALSE(timers.validate());
  return why;
}

class wheel_validate_test : public testing::Test {
 protected:
  // level 1, slot 2: [256, 383]; whatever is done to the entry, it is as it was before it is destroyed
  void SetUp() override { timers.arm(entry, 350); }
  void TearDown() override {
    overwrite(entry, offsetof(layout, deadline), 350);
    overwrite(entry, offsetof(layout, visit), 350);
    EXPECT_TRUE(valid(timers));
  }

  wheel timers{wheel_geometry::hierarchical(3, 128)};
  probe entry{timers};
};

TEST_F(wheel_validate_test, finds_nothing_wrong_with_a_healthy_wheel) { EXPECT_TRUE(valid(timers)); }

TEST_F(wheel_validate_test, reports_an_entry_in_a_slot_that_is_not_that_of_its_visit) {
  overwrite(entry, offsetof(layout, visit), 30);
  EXPECT_THAT(complaint_of(timers), AllOf(HasSubstr("level 1 slot 2"), HasSubstr("visit 30"), HasSubstr("expected")));
}

TEST_F(wheel_validate_test, reports_an_entry_that_is_due_before_its_visit) {
  overwrite(entry, offsetof(layout, deadline), 349);
  EXPECT_THAT(complaint_of(timers),
              AllOf(HasSubstr("level 1 slot 2"), HasSubstr("deadline 349"), HasSubstr("expected deadline >= visit")));
}

TEST_F(wheel_validate_test, reports_an_entry_whose_visit_is_before_that_of_its_slot) {
  overwrite(entry, offsetof(layout, visit), 330);
  EXPECT_THAT(complaint_of(timers),
              AllOf(HasSubstr("level 1 slot 2"), HasSubstr("expected visit >= the slot's first")));
}

TEST_F(wheel_validate_test, reports_an_entry_more_than_a_turn_ahead) {
  const tick turn = 128 * 128;
  overwrite(entry, offsetof(layout, visit), 350 + turn);
  overwrite(entry, offsetof(layout, deadline), 350 + turn);
  EXPECT_THAT(complaint_of(timers), AllOf(HasSubstr("level 1 slot 2"), HasSubstr("less than a turn ahead")));
}

TEST_F(wheel_validate_test, reports_an_entry_that_lost_its_deadline) {
  overwrite(entry, offsetof(layout, deadline), never);
  EXPECT_THAT(complaint_of(timers), HasSubstr("1 entries count as armed, but 0 are linked"));
}

}  // namespace
}  // namespace tickwheel::test
