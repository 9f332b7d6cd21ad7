#include "../support/manual_node.hpp"

#include <uv.h>

using namespace tickwheel_test;
using durable::cancel_result;
using durable::execution;
using durable::finish_result;
using durable::on_conflict;
using durable::read_result;
using durable::schedule_result;
using durable::task_state;

namespace {

class scheduler : public testing::Test {
 protected:
  void open() { ASSERT_EQ(node.open(), 0); }

  manual_world world;
  manual_node node{world};
};

TEST_F(scheduler, open_names_what_is_wrong) {
  durable::scheduler without_store{world.manual.timers, nullptr};
  EXPECT_EQ(without_store.open([](int) noexcept {}), UV_EINVAL);
  EXPECT_EQ(without_store.problem(), "scheduler: there is no store");
  durable::scheduler invalid{world.manual.timers, durable::memory_store(), {.name = "x", .max_running = 0}};
  EXPECT_EQ(invalid.open([](int) noexcept {}), UV_EINVAL);
  EXPECT_EQ(invalid.problem(), "scheduler_options::max_running is zero");
  durable::scheduler twice{world.manual.timers, durable::memory_store()};
  EXPECT_EQ(twice.open([](int) noexcept {}), 0);
  EXPECT_EQ(twice.open([](int) noexcept {}), UV_EALREADY);
}

TEST_F(scheduler, final_error_of_join_closes_it) {
  world.database->fail_join(UV_EFTYPE);
  std::optional<schedule_result> asked;
  EXPECT_EQ(node.scheduler.open([this](int error) noexcept { node.ready = error; }), 0);
  EXPECT_EQ(node.scheduler.schedule({"a", world.database->now() + 1s, {}, {}},
                                    [&](schedule_result r) noexcept { asked = r; }),
            0);
  node.advance(1s);
  EXPECT_EQ(node.ready, UV_EFTYPE);
  EXPECT_EQ(asked, schedule_result::unavailable);
  EXPECT_EQ(node.scheduler.cancel("a", [](durable::cancel_result) noexcept {}), UV_ECANCELED);
}

TEST_F(scheduler, starts_a_task_at_its_time) {
  open();
  EXPECT_EQ(node.schedule("a", 30min), schedule_result::scheduled);
  node.advance(30min - 10ms);
  EXPECT_TRUE(node.started.empty());
  node.advance(10ms + 5ms);
  EXPECT_EQ(node.started, std::vector<std::string>{"a"});
  EXPECT_EQ(node.state("a"), task_state::finished);
}

TEST_F(scheduler, starts_a_task_at_once_if_its_time_has_passed) {
  open();
  EXPECT_EQ(node.schedule("a", -1h), schedule_result::scheduled);
  node.advance(5ms);
  EXPECT_EQ(node.started.size(), 1U);
}

TEST_F(scheduler, hands_out_the_task_as_it_was_scheduled) {
  open();
  const auto due = world.database->now() + 3s;
  std::optional<execution> kept;
  node.on_start = [&](execution run) { kept = std::move(run); };
  node.schedule({"id", due, std::string("pay\0load", 8), {}});
  node.advance(4s);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->id(), "id");
  EXPECT_EQ(kept->payload(), std::string_view("pay\0load", 8));
  EXPECT_EQ(kept->due(), due);
  EXPECT_EQ(kept->period(), 0ns);
  EXPECT_EQ(kept->attempt(), 1U);
  EXPECT_EQ(kept->token(), world.database->row("id")->rev);
  kept->done();
  EXPECT_FALSE(*kept);
}

TEST_F(scheduler, execution_of_a_periodic_task_has_its_period) {
  open();
  std::chrono::nanoseconds period{};
  node.on_start = [&](execution run) { period = run.period(), run.done(); };
  node.schedule("p", 1s, on_conflict::keep, 500ms);
  node.advance(1s + 5ms);
  EXPECT_EQ(period, 500ms);
}

TEST_F(scheduler, starts_again_at_each_period) {
  open();
  node.schedule("p", 1s, on_conflict::keep, 500ms);
  node.advance(1s + 4 * 500ms + 50ms);
  EXPECT_EQ(node.started.size(), 5U);
  EXPECT_EQ(node.state("p"), task_state::pending);
}

TEST_F(scheduler, a_fast_period_does_not_wait_for_polls) {
  open();
  node.schedule("p", 1s, on_conflict::keep, 10ms);
  node.advance(2s);
  EXPECT_GE(node.started.size(), 90U);
}

TEST_F(scheduler, cancelled_task_never_starts) {
  open();
  node.schedule("a", 1s);
  EXPECT_EQ(node.cancel("a"), cancel_result::cancelled);
  node.advance(10s);
  EXPECT_TRUE(node.started.empty());
  EXPECT_EQ(node.cancel("a"), cancel_result::cancelled);
  EXPECT_EQ(node.cancel("b"), cancel_result::not_found);
}

TEST_F(scheduler, replace_moves_the_task) {
  open();
  node.schedule("a", 1s);
  EXPECT_EQ(node.schedule("a", 5s), schedule_result::exists);
  EXPECT_EQ(node.schedule("a", 5s, on_conflict::replace), schedule_result::replaced);
  node.advance(4s);
  EXPECT_TRUE(node.started.empty());
  node.advance(2s);
  EXPECT_EQ(node.started.size(), 1U);
  EXPECT_EQ(node.schedule("a"), schedule_result::ended);
}

TEST_F(scheduler, failing_task_is_retried_and_dies) {
  open();
  std::vector<unsigned> attempts;
  node.on_start = [&](execution run) {
    attempts.push_back(run.attempt());
    run.fail("broken");
  };
  node.schedule("a", 1s);
  node.advance(1h);
  EXPECT_EQ(attempts, (std::vector<unsigned>{1, 2, 3, 4, 5, 6, 7, 8}));
  const auto info = node.get("a");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->state, task_state::dead);
  EXPECT_EQ(info->last_error, "broken");
  EXPECT_EQ(info->next, durable::clock::time_point::max());
  node.on_start = nullptr;
  EXPECT_EQ(node.revive("a"), durable::revive_result::revived);
  node.advance(1s);
  EXPECT_EQ(node.state("a"), task_state::finished);
}

TEST_F(scheduler, wait_for_the_next_attempt_grows_up_to_its_cap) {
  manual_node patient{world,
                      {.name = "patient",
                       .lease = 1h,
                       .poll = 10s,
                       .window = 1min,
                       .max_attempts = 2'000,
                       .retry = {.base = 1ms, .cap = 10min, .multiplier = 1.01, .kind = tickwheel::jitter_kind::none}}};
  ASSERT_EQ(patient.open(), 0);
  std::vector<durable::clock::time_point> starts;
  patient.on_start = [&](execution run) {
    starts.push_back(world.database->now());
    run.fail("broken");
  };
  patient.schedule("a", 1s);
  const auto wait_after = [&](std::size_t attempt) { return starts.at(attempt) - starts.at(attempt - 1); };
  patient.advance(8h);
  ASSERT_GT(starts.size(), 1'201U);
  EXPECT_LT(wait_after(1), 5ms);
  EXPECT_GT(wait_after(1'200), 151s);  // a millisecond * 1.01^1199
  EXPECT_LT(wait_after(1'200), 153s);
  patient.advance(100h);
  ASSERT_GT(starts.size(), 1'400U);
  EXPECT_GE(starts.back() - *(starts.end() - 2), 10min);
  EXPECT_LT(starts.back() - *(starts.end() - 2), 10min + 1s);
}

TEST_F(scheduler, dropped_execution_counts_as_a_failure) {
  open();
  node.on_start = [](const execution&) {};
  node.schedule("a", 1s);
  node.advance(1s + 5ms);
  EXPECT_EQ(node.get("a")->last_error, "no answer");
  EXPECT_EQ(node.scheduler.stats().failed, 1U);
}

TEST_F(scheduler, execution_without_an_answer_keeps_its_place) {
  manual_node small{world, {.name = "small", .max_running = 1}};
  ASSERT_EQ(small.open(), 0);
  std::optional<execution> kept;
  small.on_start = [&](execution run) { kept = std::move(run); };
  small.schedule("a", 1s);
  small.schedule("b", 2s);
  small.advance(1h);
  EXPECT_EQ(small.started, std::vector<std::string>{"a"});
  EXPECT_EQ(small.state("a"), task_state::running);
  EXPECT_EQ(small.scheduler.stats().running, 1U);
  EXPECT_GT(small.scheduler.stats().oldest_running, 1h - 2s);
  EXPECT_GT(small.scheduler.stats().oldest_overdue, 1h - 3s);
  small.on_start = nullptr;
  kept->done();
  small.advance(10ms);
  EXPECT_EQ(small.started, (std::vector<std::string>{"a", "b"}));
  small.advance(10ms);
  EXPECT_EQ(small.scheduler.stats().oldest_running, 0ns);
  EXPECT_EQ(small.scheduler.stats().oldest_overdue, 0ns);
}

TEST_F(scheduler, error_of_any_bytes_is_kept_as_text) {
  open();
  const std::vector<std::pair<std::string, std::string>> errors{
      {"", ""},
      {"broken", "broken"},
      {std::string("a\0b", 3), "a?b"},
      {"\xff\xc3(\xe2\x82",
       "??"
       "("
       "??"},
      {"caf\xc3\xa9", "caf\xc3\xa9"},
      {std::string(2000, 'x'), std::string(1024, 'x')},
      {std::string(1023, 'x') + "\xc3\xa9", std::string(1023, 'x')},
  };
  for (std::size_t i = 0; i != errors.size(); ++i) {
    const std::string id = "t" + std::to_string(i);
    node.on_start = [&](execution run) { run.bury(errors[i].first); };
    node.schedule(id, 0s);
    node.advance(10ms);
    EXPECT_EQ(node.get(id)->state, task_state::dead);
    EXPECT_EQ(node.get(id)->last_error, errors[i].second) << i;
  }
}

TEST_F(scheduler, runs_at_most_max_running) {
  manual_node small{world, {.name = "small", .max_running = 3}};
  ASSERT_EQ(small.open(), 0);
  std::vector<execution> kept;
  small.on_start = [&](execution run) { kept.push_back(std::move(run)); };
  for (int i = 0; i != 10; ++i) small.schedule("t" + std::to_string(i), 100ms);
  small.advance(1s);
  EXPECT_EQ(kept.size(), 3U);
  EXPECT_EQ(small.scheduler.stats().running, 3U);
  kept.front().done();
  small.advance(10ms);
  EXPECT_EQ(kept.size(), 4U);
  kept.clear();
}

TEST_F(scheduler, starts_the_oldest_first_in_any_order_of_loading) {
  manual_node small{world, {.name = "small", .max_running = 1}};
  ASSERT_EQ(small.open(), 0);
  small.scheduler.pause();
  small.schedule("second", -2s);
  small.schedule("third", -1s);
  small.schedule("first", -3s);
  small.scheduler.resume();
  small.advance(50ms);
  EXPECT_EQ(small.started, (std::vector<std::string>{"first", "second", "third"}));
}

// Nothing is searched for them, however many become due at one moment.
TEST_F(scheduler, starts_tasks_of_one_time_as_they_became_due) {
  manual_node small{world, {.name = "small", .max_running = 1}};
  ASSERT_EQ(small.open(), 0);
  small.scheduler.pause();
  const auto due = world.database->now();
  for (const char* id : {"b", "c", "a"}) small.schedule({id, due, "", {}});
  small.scheduler.resume();
  small.advance(50ms);
  EXPECT_EQ(small.started, (std::vector<std::string>{"b", "c", "a"}));
}

TEST_F(scheduler, loads_at_most_max_loaded_and_starts_all) {
  manual_node small{world, {.name = "small", .max_loaded = 8}};
  ASSERT_EQ(small.open(), 0);
  for (int i = 0; i != 100; ++i) small.schedule("t" + std::to_string(i), 30s);
  small.advance(31s);
  EXPECT_EQ(small.started.size(), 100U);
}

}  // namespace
