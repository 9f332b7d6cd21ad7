#include "../support/manual_node.hpp"

#include <uv.h>

using namespace tickwheel_test;
using durable::execution;
using durable::schedule_result;
using durable::store_verb;

namespace {

using strings = std::vector<std::string>;

class scheduler_close : public testing::Test {
 protected:
  void ask(const std::string& id) {
    EXPECT_EQ(node->scheduler.schedule(
                  {id, world.database->now() + 1h, {}, {}},
                  [this, id](schedule_result r) noexcept { answers.push_back(id + ' ' + to_string(r)); }),
              0);
  }
  void read(const std::string& id) {
    EXPECT_EQ(node->scheduler.get(id,
                                  [this, id](durable::read_result r, durable::task_info) noexcept {
                                    answers.push_back(id + ' ' + to_string(r));
                                  }),
              0);
  }

  manual_world world;
  std::unique_ptr<manual_node> node = std::make_unique<manual_node>(world);
  strings answers;
};

TEST_F(scheduler_close, answers_open_requests_in_call_order) {
  node->open();
  world.database->answer_after(store_verb::put, 1s);
  world.database->answer_after(store_verb::get, 1s);
  ask("a");
  read("g");
  node->advance(100ms);
  ask("b");
  ask("a");
  node->scheduler.close();
  EXPECT_EQ(answers, (strings{"a unknown", "g unavailable", "b unavailable", "a unavailable"}));
  EXPECT_EQ(node->scheduler.stats().requests, 0U);
  EXPECT_EQ(node->scheduler.stats().unavailable, 4U);
}

TEST_F(scheduler_close, before_the_join_calls_ready_with_ecanceled) {
  world.database->outage(true);
  node->open();
  node->scheduler.close();
  EXPECT_EQ(node->ready, UV_ECANCELED);
}

// The old handler must live until its call has ended.
TEST_F(scheduler_close, and_a_new_handler_may_follow_within_a_call_of_the_handler) {
  bool is_destroyed = false;
  std::shared_ptr<void> mark{nullptr, [&](void*) noexcept { is_destroyed = true; }};
  int calls = 0;
  auto& scheduler = node->scheduler;
  scheduler.on_due([&, held = mark](execution) noexcept {
    ++calls;
    scheduler.close();
    scheduler.on_due([](execution run) noexcept { run.done(); });
    EXPECT_FALSE(is_destroyed);
    EXPECT_EQ(scheduler.open([](int) noexcept {}), 0);
    EXPECT_FALSE(is_destroyed);
  });
  mark.reset();
  node->open();
  node->schedule("a", 0s);
  node->advance(1s);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(is_destroyed);
}

TEST_F(scheduler_close, open_may_follow) {
  node->open();
  node->schedule("a", 1s);
  node->scheduler.close();
  node->ready.reset();
  EXPECT_EQ(node->open(), 0);
  node->advance(2s);
  EXPECT_EQ(node->started, strings{"a"});
}

TEST_F(scheduler_close, makes_executions_inert_and_recovers_their_tasks) {
  node->open();
  std::optional<execution> kept;
  node->on_start = [&](execution run) { kept = std::move(run); };
  node->schedule("a", 10ms);
  node->advance(100ms);
  ASSERT_TRUE(kept);
  node->scheduler.close();
  EXPECT_EQ(kept->id(), "a");
  kept->done([&](durable::finish_result) noexcept { answers.emplace_back("confirmed"); });
  kept.reset();
  node->on_start = nullptr;
  EXPECT_EQ(node->open(), 0);
  node->advance(3s);
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(node->started, (strings{"a", "a"}));
  EXPECT_EQ(node->get("a")->state, durable::task_state::finished);
}

TEST_F(scheduler_close, answers_unknown_for_a_finish_that_is_open) {
  node->open();
  world.database->answer_after(store_verb::finish, 1s);
  node->on_start = [&](execution run) {
    run.done([&](durable::finish_result r) noexcept { answers.emplace_back(to_string(r)); });
  };
  node->schedule("a", 10ms);
  node->advance(100ms);
  node->scheduler.close();
  EXPECT_EQ(answers, strings{"unknown"});
}

// A thread of the store may be reading the call.
TEST_F(scheduler_close, leaves_an_open_release_as_it_was) {
  node->open();
  const durable::release_call* sent = nullptr;
  world.database->on_call([&](store_verb v, const durable::store_call& c) {
    if (v == store_verb::release) sent = &static_cast<const durable::release_call&>(c);
  });
  world.database->answer_after(store_verb::release, 1h);
  EXPECT_EQ(node->scheduler.drain([]() noexcept {}), 0);
  node->advance(10ms);
  ASSERT_NE(sent, nullptr);
  node->scheduler.close();
  EXPECT_EQ(sent->partitions.size(), 4U);
  EXPECT_EQ(node->open(), 0);
  EXPECT_EQ(node->scheduler.stats().partitions, 4U);
}

TEST_F(scheduler_close, in_a_callable_leaves_the_rest_to_close) {
  node->open();
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_EQ(node->scheduler.schedule({id, world.database->now() + 1h, {}, {}},
                                       [this, id](schedule_result r) noexcept {
                                         answers.push_back(std::string{id} + ' ' + to_string(r));
                                         node->scheduler.close();
                                       }),
              0);
  }
  node->advance(10ms);
  EXPECT_EQ(answers, (strings{"a scheduled", "b scheduled", "c scheduled"}));
}

TEST_F(scheduler_close, destroyed_in_its_own_callables) {
  node->open();
  ask("b");
  EXPECT_EQ(node->scheduler.cancel("x", [this](durable::cancel_result) noexcept { node.reset(); }), 0);
  ask("c");
  world.manual.advance(10ms);
  EXPECT_EQ(node, nullptr);
  EXPECT_EQ(answers, (strings{"b scheduled", "c scheduled"}));
}

TEST_F(scheduler_close, destroyed_in_its_handler) {
  node->open();
  for (int i = 0; i != 5; ++i) node->schedule("t" + std::to_string(i), 10ms);
  std::optional<execution> kept;
  node->on_start = [&](execution run) {
    kept = std::move(run);
    auto last = std::move(node);
  };
  world.manual.advance(100ms);
  EXPECT_EQ(node, nullptr);
  ASSERT_TRUE(kept);
  kept->fail("too late");
}

TEST_F(scheduler_close, destroyed_in_ready) {
  EXPECT_EQ(node->scheduler.open([this](int) noexcept { node.reset(); }), 0);
  world.manual.advance(10ms);
  EXPECT_EQ(node, nullptr);
}

TEST_F(scheduler_close, follows_the_close_of_the_service) {
  node->open();
  ask("a");
  world.manual.timers.close();
  EXPECT_EQ(answers, strings{"a unavailable"});
  EXPECT_EQ(node->scheduler.cancel("a", [](durable::cancel_result) noexcept {}), UV_ECANCELED);
  EXPECT_EQ(node->scheduler.open([](int) noexcept {}), UV_ECANCELED);
}

TEST_F(scheduler_close, is_noticed_later_without_a_reference) {
  node->open();
  node->scheduler.unref();
  world.manual.timers.close();
  EXPECT_EQ(node->scheduler.cancel("a", [](durable::cancel_result) noexcept {}), UV_ECANCELED);
}

// The queue of posted calls has no place for the watch of the second one.
TEST(scheduler_close_of_a_service, closes_each_of_two_that_were_opened_together) {
  manual_world world{{.max_queued = 1}};
  manual_node first{world, {.name = "first"}}, second{world, {.name = "second"}};
  int answered = 0;
  for (manual_node* const each : {&first, &second})
    EXPECT_EQ(each->scheduler.open([&, each](int error) noexcept { each->ready = error; }), 0);
  world.manual.advance(10ms);
  world.database->answer_after(store_verb::put, 1h);
  for (manual_node* const each : {&first, &second}) {
    EXPECT_EQ(each->ready, 0);
    EXPECT_EQ(each->scheduler.schedule({"a", world.database->now() + 1h, {}, {}},
                                       [&](schedule_result) noexcept { ++answered; }),
              0);
  }
  world.manual.advance(10ms);
  world.manual.timers.close();
  EXPECT_EQ(answered, 2);
}

// Another owner of the service may close it, and open it again at once.
class scheduler_reopened_service : public scheduler_close {
 protected:
  void reopen_service() {
    world.manual.timers.close();
    ASSERT_EQ(world.manual.timers.open(world.manual.time), 0);
  }
};

TEST_F(scheduler_reopened_service, closes_an_unreferenced_scheduler_at_its_next_call) {
  node->open();
  node->scheduler.unref();
  reopen_service();
  EXPECT_EQ(node->scheduler.store_now(), std::nullopt);
  EXPECT_EQ(node->scheduler.latest_store_now(), std::nullopt);
  EXPECT_EQ(node->scheduler.cancel("a", [](durable::cancel_result) noexcept {}), UV_ECANCELED);
}

TEST_F(scheduler_reopened_service, leaves_an_unreferenced_scheduler_valid) {
  node->open();
  node->scheduler.unref();
  node->schedule("a", 1s);
  ASSERT_EQ(node->scheduler.stats().loaded, 1U);
  reopen_service();
  std::string why;
  EXPECT_TRUE(node->scheduler.validate(&why)) << why;
}

TEST_F(scheduler_reopened_service, lets_an_unreferenced_scheduler_open_again) {
  node->open();
  node->scheduler.unref();
  node->schedule("a", 1s);
  ask("b");
  reopen_service();
  EXPECT_EQ(node->open(), 0);
  EXPECT_EQ(answers, strings{"b unavailable"});
  node->advance(2s);
  EXPECT_EQ(node->started, strings{"a"});
}

TEST_F(scheduler_reopened_service, closes_an_unreferenced_scheduler_that_is_referenced_again) {
  node->open();
  node->scheduler.unref();
  ask("a");
  reopen_service();
  node->scheduler.ref();
  EXPECT_EQ(answers, strings{"a unavailable"});
  world.manual.advance(0ns);
  EXPECT_FALSE(world.manual.time.alive());
}

TEST_F(scheduler_reopened_service, closes_an_unreferenced_scheduler_when_an_execution_ends) {
  node->open();
  node->scheduler.unref();
  std::optional<execution> kept;
  node->on_start = [&](execution run) { kept = std::move(run); };
  node->schedule("a", 10ms);
  node->advance(100ms);
  ASSERT_TRUE(kept);
  reopen_service();
  kept->done([&](durable::finish_result r) noexcept { answers.emplace_back(to_string(r)); });
  node->advance(10ms);
  EXPECT_EQ(answers, strings{"unknown"});
}

TEST_F(scheduler_close, keeps_the_loop_alive_until_then) {
  EXPECT_FALSE(world.manual.time.alive());
  node->open();
  EXPECT_TRUE(world.manual.time.alive());
  node->scheduler.unref();
  world.manual.advance(0ns);
  EXPECT_FALSE(world.manual.time.alive());
  node->scheduler.ref();
  EXPECT_TRUE(world.manual.time.alive());
  node->scheduler.close();
  world.manual.advance(0ns);
  EXPECT_FALSE(world.manual.time.alive());
}

// Nobody tells an unreferenced scheduler that its service has closed. The handler still has an execution.
TEST_F(scheduler_close, of_the_service_lets_an_unreferenced_scheduler_end_its_executions) {
  node->scheduler.unref();
  node->open();
  std::vector<execution> kept;
  node->on_start = [&](execution run) { kept.push_back(std::move(run)); };
  for (const char* id : {"a", "b", "c", "d"}) node->schedule(id, 10ms);
  node->advance(100ms);
  ASSERT_EQ(kept.size(), 4U);
  world.manual.timers.close();
  kept[0].retry_after(1s);
  kept[1].fail("broken");
  kept[2].bury("broken");
  kept.clear();
  EXPECT_EQ(node->scheduler.cancel("a", [](durable::cancel_result) noexcept {}), UV_ECANCELED);
  EXPECT_EQ(node->scheduler.stats().running, 0U);
}

TEST_F(scheduler_close, of_the_service_in_a_callable_of_an_unreferenced_scheduler) {
  node->scheduler.unref();
  node->open();
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_EQ(node->scheduler.schedule({id, world.database->now() + 1h, {}, {}},
                                       [this, id](schedule_result r) noexcept {
                                         answers.push_back(std::string{id} + ' ' + to_string(r));
                                         world.manual.timers.close();
                                       }),
              0);
  }
  world.manual.advance(10ms);
  node.reset();
  EXPECT_EQ(answers, (strings{"a scheduled", "b scheduled", "c scheduled"}));
}

// A call that notices the close answers what is open, and a callable may destroy the scheduler.
TEST_F(scheduler_reopened_service, lets_a_callable_destroy_the_scheduler) {
  using call = int (*)(durable::scheduler&);
  const call calls[] = {
      [](durable::scheduler& s) {
        return s.schedule({"b", {}, "", {}}, [](durable::schedule_result) noexcept {});
      },
      [](durable::scheduler& s) { return s.cancel("b", [](durable::cancel_result) noexcept {}); },
      [](durable::scheduler& s) { return s.get("b", [](durable::read_result, durable::task_info) noexcept {}); },
      [](durable::scheduler& s) { return s.finish("b", 3, [](durable::finish_result) noexcept {}); },
      [](durable::scheduler& s) { return s.drain([]() noexcept {}); },
      [](durable::scheduler& s) { return s.open([](int) noexcept {}); },
      [](durable::scheduler& s) {
        s.ref();
        return static_cast<int>(UV_ECANCELED);
      },
  };
  for (const call& ask : calls) {
    for (const bool opens_again : {false, true}) {
      manual_world another;
      auto only = std::make_unique<manual_node>(another);
      only->open();
      only->scheduler.unref();
      EXPECT_EQ(only->scheduler.cancel("a", [&](durable::cancel_result) noexcept { only.reset(); }), 0);
      another.manual.timers.close();
      if (opens_again) {
        ASSERT_EQ(another.manual.timers.open(another.manual.time), 0);
      }
      EXPECT_EQ(ask(only->scheduler), UV_ECANCELED) << &ask - calls;
      EXPECT_EQ(only, nullptr);
    }
  }
}

}  // namespace
