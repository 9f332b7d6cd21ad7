#include "../support/manual_node.hpp"

#include <uv.h>

using namespace tickwheel_test;
using durable::cancel_result;
using durable::memory_fault;
using durable::on_conflict;
using durable::read_result;
using durable::schedule_result;
using durable::store_verb;

namespace {

class request : public testing::Test {
 protected:
  /// Schedules without waiting. The answer goes to `answers`, as the id and its name.
  int schedule(const std::string& id, on_conflict conflict = on_conflict::keep) {
    return node.scheduler.schedule(
        {id, world.database->now() + 1h, "x", {}},
        [this, id](schedule_result r) noexcept { answers.push_back(id + ' ' + to_string(r)); }, conflict);
  }
  int cancel(const std::string& id) {
    return node.scheduler.cancel(id,
                                 [this, id](cancel_result r) noexcept { answers.push_back(id + ' ' + to_string(r)); });
  }
  using strings = std::vector<std::string>;

  manual_world world;
  manual_node node{world};
  strings answers;
};

TEST_F(request, is_refused_if_the_scheduler_is_not_open) {
  EXPECT_EQ(schedule("a"), UV_ECANCELED);
  EXPECT_EQ(cancel("a"), UV_ECANCELED);
  EXPECT_EQ(node.scheduler.drain([]() noexcept {}), UV_ECANCELED);
  node.open();
  node.scheduler.close();
  EXPECT_EQ(schedule("a"), UV_ECANCELED);
  EXPECT_TRUE(answers.empty());
}

TEST_F(request, is_refused_if_it_is_invalid) {
  node.open();
  const auto asks = [&](durable::task what) {
    return node.scheduler.schedule(std::move(what), [&](schedule_result) noexcept { answers.emplace_back("called"); });
  };
  const auto due = world.database->now();
  EXPECT_EQ(asks({"", due, {}, {}}), UV_EINVAL);
  EXPECT_EQ(asks({std::string(256, 'x'), due, {}, {}}), UV_EINVAL);
  EXPECT_EQ(asks({"\xff", due, {}, {}}), UV_EINVAL);
  EXPECT_EQ(asks({"a", durable::clock::time_point{}, {}, {}}), UV_EINVAL);
  EXPECT_EQ(asks({"a", durable::clock::time_point{-1ns}, {}, {}}), UV_EINVAL);
  EXPECT_EQ(asks({"a", std::chrono::sys_days{std::chrono::year{2200} / 1 / 1}, {}, {}}), UV_EINVAL);
  EXPECT_EQ(asks({"a", due, std::string(65'537, 'x'), {}}), UV_EINVAL);
  EXPECT_EQ(asks({"a", due, {}, -1ns}), UV_EINVAL);
  EXPECT_EQ(asks({"a", due, {}, 999us}), UV_EINVAL);
  EXPECT_EQ(cancel("a\n"), UV_EINVAL);
  EXPECT_EQ(node.scheduler.get("", [](read_result, const durable::task_info&) noexcept {}), UV_EINVAL);
  EXPECT_EQ(node.scheduler.revive("\xff", [](durable::revive_result) noexcept {}), UV_EINVAL);
  EXPECT_EQ(node.scheduler.finish(std::string(256, 'x'), 1, [](durable::finish_result) noexcept {}), UV_EINVAL);
  const auto list = [&](std::size_t limit) {
    return node.scheduler.list(durable::task_state::dead, "", limit,
                               [](read_result, std::vector<durable::task_info>) noexcept {});
  };
  EXPECT_EQ(list(0), UV_EINVAL);
  EXPECT_EQ(list(10'001), UV_EINVAL);
  EXPECT_EQ(list(10'000), 0);
  node.advance(10ms);
  EXPECT_TRUE(answers.empty());
}

TEST_F(request, beyond_max_requests_is_refused) {
  manual_node small{world, {.name = "small", .max_requests = 2}};
  small.open();
  const auto ask = [&](const std::string& id) { return small.scheduler.cancel(id, [](cancel_result) noexcept {}); };
  EXPECT_EQ(ask("a"), 0);
  EXPECT_EQ(ask("b"), 0);
  EXPECT_EQ(ask("c"), UV_EAGAIN);
  EXPECT_EQ(small.scheduler.stats().requests, 2U);
  small.advance(10ms);
  EXPECT_EQ(ask("c"), 0);
}

TEST_F(request, beyond_max_request_bytes_is_refused_unless_single) {
  manual_node small{world, {.name = "small", .max_request_bytes = 100}};
  small.open();
  const auto ask = [&](const std::string& id, std::size_t bytes) {
    return small.scheduler.schedule({id, world.database->now() + 1h, std::string(bytes, 'x'), {}},
                                    [](schedule_result) noexcept {});
  };
  EXPECT_EQ(ask("a", 60'000), 0);
  EXPECT_EQ(ask("b", 1), UV_EAGAIN);
  small.advance(10ms);
  EXPECT_EQ(ask("a", 49), 0);
  EXPECT_EQ(ask("b", 49), 0);
  EXPECT_EQ(ask("c", 0), UV_EAGAIN);
  small.advance(10ms);
}

TEST_F(request, of_one_id_takes_effect_in_call_order) {
  node.open();
  world.database->answer_after(store_verb::put, 50ms);
  EXPECT_EQ(schedule("a"), 0);
  EXPECT_EQ(cancel("a"), 0);
  EXPECT_EQ(schedule("a", on_conflict::replace), 0);
  EXPECT_EQ(cancel("b"), 0);
  node.advance(10ms);
  EXPECT_EQ(answers, strings{"b not_found"});
  node.advance(200ms);
  EXPECT_EQ(answers, (strings{"b not_found", "a scheduled", "a cancelled", "a replaced"}));
}

TEST_F(request, waits_for_the_join_and_is_answered) {
  world.database->outage(true);
  node.open();
  EXPECT_FALSE(node.ready);
  EXPECT_EQ(schedule("a"), 0);
  node.advance(1s);
  EXPECT_TRUE(answers.empty());
  world.database->outage(false);
  node.advance(2s);
  EXPECT_EQ(node.ready, 0);
  EXPECT_EQ(answers, strings{"a scheduled"});
}

TEST_F(request, is_unavailable_if_it_was_not_sent_in_time) {
  world.database->outage(true);
  node.open();
  EXPECT_EQ(schedule("a"), 0);
  node.advance(5s - 1ms - 10ms);
  EXPECT_TRUE(answers.empty());
  node.advance(20ms);
  EXPECT_EQ(answers, strings{"a unavailable"});
  EXPECT_EQ(node.scheduler.stats().unavailable, 1U);
}

TEST_F(request, is_unknown_if_it_was_sent_and_not_answered_in_time) {
  node.open();
  world.database->answer_after(store_verb::put, 7s);
  EXPECT_EQ(schedule("a"), 0);
  EXPECT_EQ(cancel("a"), 0);
  node.advance(5s + 10ms);
  // the second one waits for the first, so it was not sent
  EXPECT_EQ(answers, (strings{"a unknown", "a unavailable"}));
  node.advance(3s);
  EXPECT_EQ(answers.size(), 2U);
  EXPECT_EQ(node.state("a"), durable::task_state::pending);
}

TEST_F(request, is_answered_as_the_store_fails) {
  node.open();
  world.database->fail_next(store_verb::put, memory_fault::unavailable);
  EXPECT_EQ(node.schedule("a"), schedule_result::unavailable);
  world.database->fail_next(store_verb::put, memory_fault::unknown_done);
  EXPECT_EQ(node.schedule("a"), schedule_result::unknown);
  EXPECT_EQ(node.schedule("a"), schedule_result::exists);
  world.database->fail_next(store_verb::cancel, memory_fault::unknown_not_done);
  EXPECT_EQ(node.cancel("a"), cancel_result::unknown);
  EXPECT_EQ(node.cancel("a"), cancel_result::cancelled);
}

TEST_F(request, refused_element_does_not_disturb_its_batch) {
  node.open();
  world.database->refuse([](const durable::task& t) { return t.id == "b"; });
  for (const char* id : {"a", "b", "c"}) EXPECT_EQ(schedule(id), 0);
  node.advance(10ms);
  EXPECT_EQ(answers, (strings{"a scheduled", "b refused", "c scheduled"}));
}

TEST_F(request, many_go_out_in_batches) {
  node.open();
  for (int i = 0; i != 2500; ++i) EXPECT_EQ(schedule(std::to_string(i)), 0);
  node.advance(50ms);
  EXPECT_EQ(answers.size(), 2500U);
  EXPECT_EQ(world.database->calls(store_verb::put), 3U);
}

TEST_F(request, list_pages_by_id) {
  node.open();
  for (const char* id : {"c", "a", "b"}) EXPECT_EQ(schedule(id), 0);
  node.advance(10ms);
  strings found;
  const auto list = [&](std::string_view after, std::size_t limit) {
    found.clear();
    EXPECT_EQ(node.scheduler.list(durable::task_state::pending, after, limit,
                                  [&](read_result r, std::vector<durable::task_info> tasks) noexcept {
                                    EXPECT_EQ(r, read_result::ok);
                                    for (const auto& t : tasks) found.push_back(t.what.id);
                                  }),
              0);
    node.advance(10ms);
    return found;
  };
  EXPECT_EQ(list("", 2), (strings{"a", "b"}));
  EXPECT_EQ(list("b", 2), strings{"c"});
  EXPECT_EQ(list("c", 2), strings{});
}

TEST_F(request, get_of_an_unknown_id_is_not_found) {
  node.open();
  EXPECT_FALSE(node.get("a"));
  EXPECT_EQ(schedule("a"), 0);
  const auto found = node.get("a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what.payload, "x");
}

TEST_F(request, finish_by_id_and_token) {
  node.open();
  std::optional<durable::execution> kept;
  node.on_start = [&](durable::execution run) { kept = std::move(run); };
  node.schedule("a", 10ms);
  node.advance(50ms);
  ASSERT_TRUE(kept);
  std::vector<durable::finish_result> results;
  const auto finish = [&](std::uint64_t token) {
    EXPECT_EQ(node.scheduler.finish("a", token, [&](durable::finish_result r) noexcept { results.push_back(r); }), 0);
    node.advance(10ms);
  };
  finish(kept->token() + 1);
  finish(kept->token());
  finish(kept->token());
  kept->done([&](durable::finish_result r) noexcept { results.push_back(r); });
  node.advance(10ms);
  using enum durable::finish_result;
  EXPECT_EQ(results, (std::vector<durable::finish_result>{stale, finished, finished, finished}));
  EXPECT_EQ(node.scheduler.stats().running, 0U);
}

}  // namespace
