// When a loop is held, and how many more timers may be armed, without asking at each arm and cancel.
#include <tickwheel/uv/detail/liveness.hpp>

#include "../../support/prelude.hpp"

using tickwheel::wheel_entry;
using tickwheel::detail::liveness;

namespace {

constexpr std::size_t limit = 3;

struct liveness_test : ::testing::Test {
  liveness_test() { alive.restart(limit, timers); }

  /// As a service does: asks only when it is to check.
  void arm(std::size_t i) {
    if (liveness::count_plain_arm(timers)) {
      timers.arm_counted(entries[i], 10);
      return;
    }
    liveness::take_back_arm(timers);
    timers.arm(entries[i], 10);
    changes += alive.update(timers);
  }
  bool next_arm_is_plain() {
    const bool plain = liveness::count_plain_arm(timers);
    liveness::take_back_arm(timers);
    return plain;
  }
  void cancel(std::size_t i) {
    timers.cancel(entries[i]);
    if (liveness::is_to_check_end(timers)) changes += alive.update(timers);
  }
  void update() { changes += alive.update(timers); }

  static void run(wheel_entry&) noexcept {}
  std::array<wheel_entry, 4> entries{wheel_entry{&run}, wheel_entry{&run}, wheel_entry{&run}, wheel_entry{&run}};
  tickwheel::wheel timers;  // destroyed first, it detaches its entries
  liveness alive;
  int changes = 0;
};

TEST_F(liveness_test, holds_loop_from_first_arm_to_last_cancel) {
  EXPECT_FALSE(alive.held());
  arm(0);
  EXPECT_TRUE(alive.held());
  arm(1);
  cancel(0);
  EXPECT_TRUE(alive.held());
  cancel(1);
  EXPECT_FALSE(alive.held());
  EXPECT_EQ(changes, 2);
}

TEST_F(liveness_test, is_to_check_only_while_an_answer_may_change) {
  arm(0);
  EXPECT_TRUE(next_arm_is_plain());
  arm(1);
  arm(2);
  EXPECT_FALSE(next_arm_is_plain());  // the limit is reached
  EXPECT_FALSE(liveness::is_to_check_end(timers));
}

TEST_F(liveness_test, checks_the_first_arm_and_the_last_end) {
  EXPECT_FALSE(next_arm_is_plain());
  arm(0);
  timers.cancel(entries[0]);
  EXPECT_TRUE(liveness::is_to_check_end(timers));
}

TEST_F(liveness_test, counts_places_down) {
  for (std::size_t i = 0; i < limit; ++i) {
    EXPECT_EQ(alive.places_left(timers), limit - i);
    arm(i);
  }
  EXPECT_EQ(alive.places_left(timers), 0U);
  timers.arm(entries[limit], 10);  // another thread's, which is never refused
  EXPECT_EQ(alive.places_left(timers), 0U);
}

TEST_F(liveness_test, kept_place_is_nobody_elses) {
  arm(0);
  const wheel_entry some{&run}, other{&run};  // only compared
  cancel(0);
  arm(1);
  arm(2);
  alive.keep_place(some, timers);
  EXPECT_TRUE(alive.keeps_place(some));
  EXPECT_FALSE(alive.keeps_place(other));
  EXPECT_EQ(alive.places_left(timers), 0U);
  EXPECT_FALSE(next_arm_is_plain());
  alive.give_up_place();
  EXPECT_EQ(alive.places_left(timers), 1U);
}

TEST_F(liveness_test, service_without_reference_holds_for_others_only) {
  arm(0);
  alive.set_ref(false);
  update();
  EXPECT_FALSE(alive.held());
  alive.set_others(true);
  update();
  EXPECT_TRUE(alive.held());
}

TEST_F(liveness_test, restart_keeps_reference_of_service) {
  alive.set_ref(false);
  alive.add_unref();
  alive.set_others(true);
  update();
  alive.restart(1, timers);
  EXPECT_FALSE(alive.has_ref());
  EXPECT_FALSE(alive.held());
  EXPECT_EQ(alive.unref_armed(), 0U);
  EXPECT_EQ(alive.places_left(timers), 1U);
}

TEST_F(liveness_test, problem_names_an_end_that_would_go_unnoticed) {
  arm(0);
  arm(1);
  arm(2);
  update();  // to be checked after three ends
  EXPECT_EQ(alive.problem(timers), nullptr);
  alive.add_unref();
  alive.add_unref();
  EXPECT_STREQ(alive.problem(timers), "the last timer may end unnoticed");
}

}  // namespace
