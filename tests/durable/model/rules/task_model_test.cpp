// The model itself, where a random run needs thousands of operations to reach the case.
#include "task_model.hpp"

#include <gtest/gtest.h>

namespace {

using namespace durable_model;

constexpr nanos ms = 1'000'000;
constexpr nanos due = 1'000 * ms;
constexpr nanos period = 10 * ms;

// A periodic task with one attempt for each period. Member 0 starts it; member 1 only asks.
struct task_model_test : testing::Test {
  task_model_test() {
    of.now = due;
    of.keep_finished = 1'000 * ms;
    of.max_attempts = 1;
    of.clock.set(0, 0);
    of.members = {{true, true, -1}, {true, false, -1}};
    of.contents = {{due, period, "p", false}, {due, 0, "other", false}};
  }

  bool ask(verb what, int content, answer is) {
    request r;
    r.number = ++last_number;
    r.what = what;
    r.member = 1;
    r.content = content;
    model.ask(r);
    return model.on_answer(r.number, is);
  }
  bool may_be_pending(nanos next) const {
    const shown_row row{row_state::pending, next, period, next, 0, 0, false, "p", ""};
    return model.shows(&row);
  }

  facts of;
  task_model model{of};
  int last_number = 0;
};

TEST_F(task_model_test, row_seen_after_burial_can_be_recovered) {
  ASSERT_TRUE(ask(verb::keep, 0, answer::scheduled));
  ASSERT_TRUE(model.on_start(0, 7, 1, due, "p"));
  of.now += ms;
  of.members[0].gone_at = of.now;  // it was buried, and has joined again
  of.now += 2 * ms;
  ASSERT_TRUE(ask(verb::replace, 1, answer::running));
  of.now += 2 * ms;
  EXPECT_TRUE(may_be_pending(due + period));
}

TEST_F(task_model_test, row_started_after_burial_is_not_recovered) {
  of.members[0].gone_at = of.now;
  of.now += ms;
  ASSERT_TRUE(ask(verb::keep, 0, answer::scheduled));
  ASSERT_TRUE(model.on_start(0, 7, 1, due, "p"));
  of.now += 2 * ms;
  EXPECT_FALSE(may_be_pending(due + period));
}

TEST_F(task_model_test, unseen_start_keeps_phase_of_periods) {
  ASSERT_TRUE(ask(verb::keep, 0, answer::scheduled));
  of.members[0].gone_at = never;
  of.now = due + 19 * ms;
  ASSERT_TRUE(ask(verb::replace, 1, answer::running));  // the first period, or the second one
  model.on_close(0);
  of.members[0].is_open = false;
  of.now = due + 28 * ms;
  ASSERT_TRUE(ask(verb::replace, 1, answer::running));
  EXPECT_TRUE(may_be_pending(due + 3 * period));
  EXPECT_FALSE(may_be_pending(due + 2 * period));
}

}  // namespace
