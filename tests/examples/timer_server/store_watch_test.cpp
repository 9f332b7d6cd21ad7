// The lines of the log about a store that does not write them itself, on manual time.
#include "timer_server/service/store_watch.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/memory.hpp>
#include <tickwheel/testing.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace timer_server;
namespace durable = tickwheel::durable;

namespace {

struct store_watch_test : testing::Test {
  tickwheel::manual_service manual;
  std::shared_ptr<durable::memory_database> database = std::make_shared<durable::memory_database>();
  durable::scheduler scheduler{manual.timers, durable::memory_store(database)};
  std::vector<std::string> told;
  store_watch watch{manual.timers, scheduler, [this](std::string_view problem) { told.emplace_back(problem); }};

  void SetUp() override {
    ASSERT_EQ(watch.start(), 0);
    ASSERT_EQ(scheduler.open([](int) noexcept {}), 0);
    advance(5s);
    ASSERT_EQ(told, std::vector<std::string>{});
  }

  void advance(std::chrono::nanoseconds time) {
    for (; time.count() > 0; time -= 1s) manual.advance(1s);
  }
  void ask() {
    EXPECT_EQ(scheduler.get("a", [](durable::read_result, const durable::task_info&) noexcept {}), 0);
  }
};

TEST_F(store_watch_test, problem_is_told_once_when_it_is_new) {
  database->outage(true);
  advance(3min);
  EXPECT_EQ(told, std::vector<std::string>{"memory_database: outage"});
  database->outage(false);
  database->fail_next(durable::store_verb::get, durable::memory_fault::unavailable);
  ask();
  advance(2s);
  EXPECT_EQ(told, (std::vector<std::string>{"memory_database: outage", "memory_database: fail_next"}));
}

TEST_F(store_watch_test, store_that_writes_again_is_told_once) {
  const auto schedule = [this](const std::string& id) {
    EXPECT_EQ(scheduler.schedule({.id = id, .due = database->now() + 1h, .payload = {}}, [](auto) noexcept {}), 0);
    advance(2s);
  };
  schedule("a");
  EXPECT_TRUE(told.empty());
  database->outage(true);
  schedule("b");
  advance(10s);
  EXPECT_EQ(told, std::vector<std::string>{"memory_database: outage"});
  database->outage(false);
  advance(10s);
  schedule("c");
  schedule("d");
  EXPECT_EQ(told, (std::vector<std::string>{"memory_database: outage", "the store is back"}));
}

TEST_F(store_watch_test, requests_that_fail_are_told_once_a_minute) {
  database->outage(true);
  for (int second = 0; second < 130; ++second) {
    ask();
    advance(1s);
  }
  database->outage(false);
  advance(3min);
  const std::string again = "requests failed; the last problem was: memory_database: outage";
  EXPECT_EQ(told, (std::vector<std::string>{"memory_database: outage", again, again}));
}

TEST_F(store_watch_test, same_problem_is_told_again_in_the_next_outage) {
  for (int outage = 0; outage < 2; ++outage) {
    database->outage(true);
    ask();
    advance(2s);
    database->outage(false);
    advance(2min);
  }
  EXPECT_EQ(told.size(), 2U);
}

TEST_F(store_watch_test, request_without_an_answer_is_told) {
  database->answer_after(durable::store_verb::get, 1min);
  ask();
  advance(10s);
  EXPECT_EQ(told, std::vector<std::string>{"requests failed"});
}

}  // namespace
