// The end of a server whose tasks are durable, on manual time and a store in memory.
#include "support/scheduler_drain.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/memory.hpp>
#include <tickwheel/testing.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
namespace durable = tickwheel::durable;

namespace testing_scheduler_drain {  // named: scheduler_drain names its members

struct scheduler_drain_test : testing::Test {
  tickwheel::manual_service manual;
  std::shared_ptr<durable::memory_database> database = std::make_shared<durable::memory_database>();
  durable::scheduler scheduler{manual.timers, durable::memory_store(database)};
  std::vector<durable::execution> running;
  int given_back = 0, over = 0;

  void give_back() noexcept {
    ++given_back;
    for (durable::execution& run : running) run.retry_after(0s);
    running.clear();
  }
  void on_over() noexcept {
    EXPECT_EQ(given_back, 1);
    ++over;
    scheduler.close();
  }
  scheduler_drain<&scheduler_drain_test::give_back, &scheduler_drain_test::on_over> drain{manual.timers, scheduler,
                                                                                          *this};

  void join() {
    scheduler.on_due([this](durable::execution run) noexcept { running.push_back(std::move(run)); });
    ASSERT_EQ(scheduler.open([](int error) noexcept { EXPECT_EQ(error, 0); }), 0);
    manual.advance(1s);
  }
  void start_a_task() {
    ASSERT_EQ(scheduler.schedule({.id = "a", .due = database->now(), .payload = {}}, [](auto) noexcept {}), 0);
    manual.advance(1s);
    ASSERT_EQ(running.size(), 1U);
  }
};

TEST_F(scheduler_drain_test, ends_as_soon_as_executions_have_ended) {
  join();
  start_a_task();
  drain.start(1h, true);
  manual.advance(10min);
  EXPECT_EQ(over, 0);
  std::exchange(running, {}).front().done();
  manual.advance(1s);
  EXPECT_EQ(over, 1);
  EXPECT_EQ(database->info("a")->state, durable::task_state::finished);
}

TEST_F(scheduler_drain_test, limit_gives_executions_back_without_an_attempt) {
  join();
  start_a_task();
  drain.start(10s, true);
  manual.advance(10s - 1ms);
  EXPECT_EQ(given_back, 0);
  manual.advance(500ms);
  EXPECT_EQ(over, 1);
  const durable::task_info task = *database->info("a");
  EXPECT_EQ(task.state, durable::task_state::pending);
  EXPECT_EQ(task.attempts, 0U);
  EXPECT_EQ(task.lost, 0U);
}

TEST_F(scheduler_drain_test, give_back_does_not_wait_for_the_limit) {
  join();
  start_a_task();
  drain.start(1h, true);
  drain.give_back();
  drain.give_back();
  manual.advance(500ms);
  EXPECT_EQ(over, 1);
  EXPECT_EQ(database->info("a")->state, durable::task_state::pending);
}

TEST_F(scheduler_drain_test, lost_store_gets_two_seconds_after_the_limit) {
  join();
  start_a_task();
  database->outage(true);
  drain.start(10s, true);
  manual.advance(12s - 1ms);
  EXPECT_EQ(given_back, 1);
  EXPECT_EQ(over, 0);
  manual.advance(500ms);
  EXPECT_EQ(over, 1);
}

TEST_F(scheduler_drain_test, lost_store_gets_two_seconds_if_nothing_runs) {
  join();
  database->outage(true);
  drain.start(1h, true);
  manual.advance(2s - 1ms);
  EXPECT_EQ(over, 0);
  manual.advance(500ms);
  EXPECT_EQ(over, 1);
}

TEST_F(scheduler_drain_test, store_that_was_never_there_is_not_waited_for) {
  database->outage(true);
  ASSERT_EQ(scheduler.open([](int error) noexcept { EXPECT_EQ(error, UV_ECANCELED); }), 0);
  drain.start(1h, false);
  EXPECT_EQ(over, 1);
}

TEST_F(scheduler_drain_test, scheduler_that_cannot_drain_is_not_waited_for) {
  drain.start(1h, true);  // it is closed
  EXPECT_EQ(over, 1);
}

}  // namespace testing_scheduler_drain
