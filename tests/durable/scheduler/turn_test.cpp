// Answers are taken in piece by piece, so other callbacks come in between.
#include "../support/manual_node.hpp"

#include <tickwheel/uv/timer.hpp>

#include <algorithm>

using namespace tickwheel_test;
using durable::execution;
using durable::finish_result;
using durable::on_conflict;
using durable::read_result;
using durable::schedule_result;
using durable::store_verb;

namespace {

// longer than a turn may take
constexpr auto too_long = 400us;

durable::scheduler_options short_timeout() {
  durable::scheduler_options of;
  of.request_timeout = 100ms;
  return of;
}

struct turn : testing::Test {
  void SetUp() override { ASSERT_EQ(node.open(), 0); }
  void block(std::chrono::nanoseconds by = too_long) { world.manual.time.block(by); }

  manual_world world;
  manual_node node{world, short_timeout()};
};

TEST_F(turn, of_many_answers_lets_the_loop_have_its_turn) {
  std::vector<execution> running;
  node.on_start = [&](execution run) { running.push_back(std::move(run)); };
  for (const char* id : {"a", "b", "c", "d"}) node.schedule(id, 0s);
  node.advance(5ms);
  ASSERT_EQ(running.size(), 4U);

  std::vector<std::uint64_t> seen;
  tickwheel::callback_timer other{world.manual.timers, [&](tickwheel::timer& self) noexcept {
                                    seen.push_back(node.scheduler.stats().finished);
                                    if (seen.back() != 4) (void)self.arm(0ns);
                                  }};
  for (execution& run : running) run.done([&](finish_result) noexcept { block(); });
  (void)other.arm(0ns);
  node.advance(20ms);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
}

TEST_F(turn, keeps_an_answer_that_arrived_before_its_deadline) {
  std::vector<read_result> results;
  const auto answered = [&](read_result r, const durable::task_info&) noexcept {
    results.push_back(r);
    block(200ms);
  };
  for (const char* id : {"a", "b", "c"}) EXPECT_EQ(node.scheduler.get(id, answered), 0);
  for (int i = 0; i != 4; ++i) node.advance(5ms);
  EXPECT_EQ(results, (std::vector<read_result>(3, read_result::not_found)));
  EXPECT_EQ(node.scheduler.stats().unavailable, 0U);
}

TEST_F(turn, that_ends_before_an_end_is_taken_in_loses_no_retry) {
  std::optional<execution> first;
  node.on_start = [&](execution run) { first ? run.done() : void(first = std::move(run)); };
  node.schedule("a", 0s);
  node.advance(5ms);
  ASSERT_TRUE(first);
  // the deadline of the read, and the answer of the finish, fall in one turn
  world.database->answer_after(store_verb::get, 1s);
  world.database->answer_after(store_verb::finish, 100ms);
  bool is_given_up = false;
  EXPECT_EQ(node.scheduler.get("b",
                               [&](read_result, const durable::task_info&) noexcept {
                                 is_given_up = true;
                                 block();
                               }),
            0);
  first->retry_after(0s);
  node.advance(100ms + 5ms);
  ASSERT_TRUE(is_given_up);
  EXPECT_EQ(node.started.size(), 2U) << "it waits for the next poll";
}

TEST_F(turn, with_an_old_look_does_not_undo_a_replacement) {
  world.database->answer_after(store_verb::load, 20ms);
  for (auto phase = 0ms; phase < 250ms; phase += 10ms) {  // before, in and after a look
    const std::string id = std::to_string(phase.count());
    node.schedule(id, 1s);
    node.advance(phase);
    node.schedule(id, 60ms, on_conflict::replace);
    node.advance(65ms);
    EXPECT_EQ(std::count(node.started.begin(), node.started.end(), id), 1) << "it waits for the next poll";
  }
}

}  // namespace
