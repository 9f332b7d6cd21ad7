// The line of the log about the number of dead timers, on manual time.
#include "timer_server/service/dead_watch.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/memory.hpp>
#include <tickwheel/testing.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using namespace timer_server;
namespace durable = tickwheel::durable;

namespace {

struct dead_watch_test : testing::Test {
  tickwheel::manual_service manual;
  std::shared_ptr<durable::memory_database> database = std::make_shared<durable::memory_database>();
  durable::scheduler scheduler{manual.timers, durable::memory_store(database)};
  std::vector<std::uint64_t> told;
  dead_watch watch{manual.timers, scheduler, [this](std::uint64_t dead) { told.push_back(dead); }};

  void SetUp() override {
    scheduler.on_due([](durable::execution run) noexcept { run.bury("no callee"); });
    ASSERT_EQ(scheduler.open([](int) noexcept {}), 0);
    ASSERT_EQ(watch.start(), 0);
    advance(5s);
  }

  void advance(std::chrono::nanoseconds time) {
    for (; time.count() > 0; time -= 1s) manual.advance(1s);
  }
  void die(const std::string& id) {
    ASSERT_EQ(scheduler.schedule({.id = id, .due = database->now(), .payload = {}}, [](auto) noexcept {}), 0);
    advance(10s);
  }
};

TEST_F(dead_watch_test, number_is_told_each_time_that_it_grows) {
  EXPECT_EQ(told, std::vector<std::uint64_t>{});
  die("a");
  EXPECT_EQ(told, std::vector<std::uint64_t>{1});
  advance(1h);
  EXPECT_EQ(told, std::vector<std::uint64_t>{1});
  die("b");
  EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(dead_watch_test, smaller_number_is_not_told) {
  die("a");
  ASSERT_EQ(scheduler.cancel("a", [](durable::cancel_result) noexcept {}), 0);
  advance(10s);
  EXPECT_EQ(told, std::vector<std::uint64_t>{1});
  die("b");
  EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 1}));
}

TEST_F(dead_watch_test, timers_that_are_dead_already_are_told_at_the_start) {
  die("a");
  scheduler.close();
  durable::scheduler next{manual.timers, durable::memory_store(database)};
  std::vector<std::uint64_t> by_next;
  dead_watch another{manual.timers, next, [&](std::uint64_t dead) { by_next.push_back(dead); }};
  ASSERT_EQ(another.start(), 0);
  ASSERT_EQ(next.open([](int) noexcept {}), 0);
  advance(10s);
  EXPECT_EQ(by_next, std::vector<std::uint64_t>{1});
}

}  // namespace
