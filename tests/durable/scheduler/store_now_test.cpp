// The store's time as a scheduler knows it. The store's clock and the clock of the process are far apart.
#include "../support/manual_node.hpp"

#include <gtest/gtest.h>

using namespace tickwheel_test;

namespace {

struct store_now : testing::Test {
  manual_world world;
  manual_node node{world};
};

TEST_F(store_now, has_no_value_before_the_first_answer) {
  EXPECT_EQ(node.scheduler.store_now(), std::nullopt);
  ASSERT_EQ(node.scheduler.open([](int) noexcept {}), 0);
  EXPECT_EQ(node.scheduler.store_now(), std::nullopt);
  node.advance(10ms);
  EXPECT_EQ(node.scheduler.store_now(), world.database->now());
}

TEST_F(store_now, goes_on_between_answers) {
  node.open();
  world.database->outage(true);
  for (int i = 0; i < 10; ++i) {
    node.advance(100ms);
    EXPECT_EQ(node.scheduler.store_now(), world.database->now());
  }
}

TEST_F(store_now, is_behind_by_the_way_of_the_fastest_answer) {
  constexpr std::chrono::nanoseconds tick{1 << 17};  // the loop's timers are late by less
  const auto is_behind_by = [&](std::chrono::nanoseconds way) {
    const std::chrono::nanoseconds behind = world.database->now() - node.scheduler.store_now().value();
    EXPECT_LT(behind, way + tick);
    EXPECT_GT(behind, way - tick);
  };
  using durable::store_verb;
  for (const auto verb : {store_verb::join, store_verb::renew, store_verb::acquire, store_verb::load,
                          store_verb::recover, store_verb::purge})
    world.database->answer_after(verb, 40ms);
  node.open(200ms);
  is_behind_by(40ms);
  world.database->answer_after(store_verb::renew, 3ms);
  node.advance(10s);
  is_behind_by(3ms);
}

// The node takes the store's clock for 800 ms less than it is, because each answer was so long on its way.
TEST_F(store_now, that_is_behind_makes_no_retry_early) {
  using durable::store_verb;
  for (int verb = 0; verb != durable::store_verbs; ++verb)
    world.database->answer_after(static_cast<store_verb>(verb), 800ms);
  std::vector<durable::clock::time_point> starts;
  node.on_start = [&](durable::execution run) {
    starts.push_back(world.database->now());
    for (int verb = 0; verb != durable::store_verbs; ++verb)
      world.database->answer_after(static_cast<store_verb>(verb), 0s);
    starts.size() == 1 ? run.retry_after(700ms) : run.done();
  };
  node.open(5s);
  EXPECT_EQ(
      node.scheduler.schedule({"t", world.database->now() + 3s, {}, {}}, [](durable::schedule_result) noexcept {}), 0);
  node.advance(10s);
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_GE(starts[1], starts[0] + 700ms);
}

TEST_F(store_now, latest_has_no_value_before_the_first_renewal) {
  world.database->answer_after(durable::store_verb::renew, 1s);
  node.open();
  EXPECT_NE(node.scheduler.store_now(), std::nullopt);
  EXPECT_EQ(node.scheduler.latest_store_now(), std::nullopt);
  node.advance(2s);
  EXPECT_NE(node.scheduler.latest_store_now(), std::nullopt);
  node.scheduler.close();
  EXPECT_EQ(node.scheduler.latest_store_now(), std::nullopt);
}

TEST_F(store_now, latest_is_never_behind_and_ahead_by_the_way_of_the_renewal) {
  using durable::store_verb;
  for (const auto verb : {store_verb::join, store_verb::renew, store_verb::acquire, store_verb::load,
                          store_verb::recover, store_verb::purge}) {
    world.database->carry_out_after(verb, 20ms);
    world.database->answer_after(verb, 60ms);
  }
  node.open(1s);
  for (int i = 0; i < 100; ++i) {
    node.advance(99ms);
    const std::chrono::nanoseconds ahead = node.scheduler.latest_store_now().value() - world.database->now();
    EXPECT_GE(ahead, 0ns);
    EXPECT_LE(ahead, 60ms);
    EXPECT_LT(node.scheduler.store_now().value(), world.database->now());
  }
}

TEST_F(store_now, latest_follows_a_clock_set_forward_before_the_next_renewal) {
  node.open();
  const std::size_t renewals = world.database->calls(durable::store_verb::renew);
  world.database->shift_clock(5h);
  node.advance(300ms);
  EXPECT_EQ(world.database->calls(durable::store_verb::renew), renewals);
  EXPECT_GE(node.scheduler.latest_store_now(), world.database->now());
}

TEST_F(store_now, follows_a_clock_that_was_set_forward) {
  node.open();
  world.database->shift_clock(5h);
  node.advance(10s);
  EXPECT_EQ(node.scheduler.store_now(), world.database->now());
}

TEST_F(store_now, follows_a_clock_that_was_set_back_within_a_minute) {
  node.open();
  node.advance(10s);
  world.database->shift_clock(-5h);
  node.advance(10s);
  EXPECT_EQ(node.scheduler.store_now(), world.database->now() + 5h);
  node.advance(60s);
  EXPECT_EQ(node.scheduler.store_now(), world.database->now());
}

// The answer to the begin tells that the clock was set back, because the task is not due.
TEST_F(store_now, follows_a_clock_that_was_set_back_when_a_task_is_begun) {
  node.open();
  node.advance(40s);  // more than the half of a minute whose answers stay known longest
  node.schedule("t", 1s);
  world.database->shift_clock(-5h);
  node.advance(2s);
  EXPECT_TRUE(node.started.empty());
  EXPECT_EQ(node.scheduler.store_now(), world.database->now());
}

TEST_F(store_now, has_no_value_while_the_scheduler_is_closed) {
  node.open();
  node.scheduler.close();
  EXPECT_EQ(node.scheduler.store_now(), std::nullopt);
  ASSERT_EQ(node.scheduler.open([](int) noexcept {}), 0);
  EXPECT_EQ(node.scheduler.store_now(), std::nullopt);
  node.advance(10ms);
  EXPECT_EQ(node.scheduler.store_now(), world.database->now());
}

TEST_F(store_now, has_no_value_once_the_service_is_closed) {
  node.open();
  world.manual.timers.close();
  EXPECT_EQ(node.scheduler.store_now(), std::nullopt);
}

}  // namespace
