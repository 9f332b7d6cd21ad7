// The store rejects some elements of a batch, and carries out the others.
#include "../model/counting_store.hpp"
#include "../support/manual_node.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace tickwheel_test;
using durable::execution;
using durable::finish_result;
using durable::memory_fault;
using durable::schedule_result;
using durable::store_verb;

namespace {

/// A store that rejects what it is asked for the task "bad", as a server with a trigger may.
class rejecting_store final : public durable_model::counting_store {
 public:
  explicit rejecting_store(manual_world& in) : counting_store{durable::memory_store(in.database)}, world_{in} {
    in.database->refuse([](const durable::task& t) { return t.id == "bad put"; });
  }

  void finish(durable::finish_call& c) noexcept override {
    for (auto& item : c.items) {
      if (item.id != "bad") continue;
      tries.push_back(world_.database->now());
      if (rejects) item.token = 0;  // the row stays as it is
    }
    asked_finish_ = std::exchange(c.on_answer, &answer_finish);
    counting_store::finish(c);
  }
  void begin(durable::begin_call& c) noexcept override {
    for (auto& item : c.items)
      if (rejects && item.id == "bad start") item.rev = 0;
    counting_store::begin(c);
  }
  void put(durable::put_call& c) noexcept override {
    asked_put_ = std::exchange(c.on_answer, &answer_put);
    counting_store::put(c);
  }
  /// How often the end of "bad" was asked for within `of` of that time.
  auto tries_within(std::chrono::nanoseconds of, durable::clock::time_point from) const {
    return std::count_if(tries.begin(), tries.end(), [=](auto t) { return t >= from && t < from + of; });
  }

  bool rejects = true;
  std::vector<durable::clock::time_point> tries;

 private:
  static void answer_finish(durable::store_call& call) noexcept {
    auto& c = static_cast<durable::finish_call&>(call);
    for (std::size_t i = 0; i != c.items.size() && c.status == durable::store_status::ok; ++i)
      if (c.items[i].token == 0) c.results[i] = finish_result::unknown;
    c.on_answer = asked_finish_;
    c.on_answer(c);
  }
  static void answer_put(durable::store_call& call) noexcept {
    auto& c = static_cast<durable::put_call&>(call);
    for (auto& r : c.results)
      if (r.result == schedule_result::refused) r.result = schedule_result::unavailable;
    c.on_answer = asked_put_;
    c.on_answer(c);
  }

  inline static durable::store_call::answer asked_finish_ = nullptr, asked_put_ = nullptr;
  manual_world& world_;
};

/// A node that starts the task "bad" at once, whose end is rejected, and others later.
struct rejection : testing::Test {
  explicit rejection(bool rejects = true) {
    store->rejects = rejects;
    EXPECT_EQ(node.open(), 0);
    node.on_start = [this](execution run) {
      const bool is_bad = run.id() == "bad";
      if (!is_bad) starts.push_back(world.database->now());
      run.done([this, is_bad](finish_result) noexcept {
        if (!is_bad) ends.push_back(world.database->now());
      });
    };
    node.schedule("bad", 0s);
    begun = world.database->now();
  }
  void schedule_others(int count, std::chrono::nanoseconds apart) {
    for (int i = 0; i != count; ++i)
      EXPECT_EQ(
          node.scheduler.schedule({std::to_string(i), begun + i * apart, {}, {}}, [](schedule_result) noexcept {}), 0);
  }
  void TestBody() override {}

  std::vector<durable::clock::time_point> starts, ends;  // of the others
  durable::clock::time_point begun;
  manual_world world;
  rejecting_store* store = new rejecting_store{world};
  manual_node node{world, std::unique_ptr<durable::store>{store}};  // the last one: its close answers what is open
};

TEST_F(rejection, of_a_finish_delays_nothing_else) {
  rejection without{false};
  for (rejection* const each : {static_cast<rejection*>(this), &without}) {
    each->schedule_others(100, 37ms);
    each->node.advance(10s);
  }
  EXPECT_EQ(starts.size(), 100U);
  EXPECT_EQ(ends.size(), 100U);
  EXPECT_EQ(starts, without.starts);
  EXPECT_EQ(ends, without.ends);
  EXPECT_EQ(node.scheduler.stats().running, 1U);
  EXPECT_EQ(without.node.scheduler.stats().running, 0U);
}

TEST_F(rejection, of_a_finish_is_repeated_with_pauses_that_grow) {
  schedule_others(3000, 10ms);
  node.advance(30s);
  EXPECT_EQ(ends.size(), 3000U);
  EXPECT_GE(store->tries_within(100ms, begun), 4);
  EXPECT_GE(store->tries_within(10s, begun + 20s), 20) << "pauses are at most 500 ms";
  EXPECT_LE(store->tries_within(10s, begun + 20s), 60);
  store->rejects = false;
  node.advance(500ms + 5ms);
  EXPECT_EQ(node.scheduler.stats().running, 0U);
  EXPECT_EQ(node.scheduler.stats().finished, 3001U);
}

TEST_F(rejection, of_a_finish_after_another_is_repeated_soon) {
  node.advance(10s);
  store->rejects = false;
  node.advance(500ms + 5ms);
  ASSERT_EQ(node.state("bad"), durable::task_state::finished);
  store->rejects = true;
  const auto again = world.database->now();
  node.schedule("bad", 0s, durable::on_conflict::replace);
  node.advance(1s);
  EXPECT_GE(store->tries_within(100ms, again), 4);
}

TEST_F(rejection, that_lasts_until_close_leaves_the_end_unknown) {
  std::optional<finish_result> ended;
  node.on_start = [&](execution run) { run.done([&](finish_result r) noexcept { ended = r; }); };
  store->rejects = false;
  node.advance(1s);
  store->rejects = true;
  node.schedule("bad", 0s, durable::on_conflict::replace);
  node.advance(1s);
  EXPECT_FALSE(ended);
  node.scheduler.close();
  EXPECT_EQ(ended, finish_result::unknown);
}

TEST_F(rejection, of_a_start_shows_as_overdue) {
  node.schedule("bad start", 0s);
  const auto due = world.database->now();
  for (int ms = 0; ms != 3000; ++ms) {
    node.advance(1ms);
    ASSERT_GE(node.scheduler.stats().oldest_overdue, world.database->now() - due - 3ms) << ms;
  }
  store->rejects = false;
  node.advance(1s);
  EXPECT_EQ(node.scheduler.stats().oldest_overdue, 0ns);
  EXPECT_EQ(node.state("bad start"), durable::task_state::finished);
}

struct outage : rejection {};

// The store hangs, or does not answer in time.
TEST_F(outage, of_begins_shows_as_overdue) {
  world.database->answer_after(store_verb::begin, 4s);
  schedule_others(1, 0s);
  node.advance(3s);
  EXPECT_GE(node.scheduler.stats().oldest_overdue, 3s - 10ms);
  node.advance(3s);
  EXPECT_EQ(node.scheduler.stats().oldest_overdue, 0ns);
  EXPECT_EQ(starts.size(), 1U);
}

// The start is dropped, and is not read again.
TEST_F(outage, of_reads_leaves_the_overdue_tasks_overdue) {
  node.schedule("bad start", 0s);
  node.advance(1s);
  world.database->fail_next(store_verb::load, memory_fault::unavailable, 1'000'000);
  node.advance(30s);
  EXPECT_GE(node.scheduler.stats().oldest_overdue, 30s);
}

TEST_F(outage, after_a_begin_of_unknown_outcome_leaves_the_task_overdue) {
  node.advance(100ms);
  world.database->fail_next(store_verb::begin, memory_fault::unknown_not_done, 1);
  node.schedule("t", 500ms);
  node.advance(300ms);
  for (const store_verb v : {store_verb::load, store_verb::recover})
    world.database->fail_next(v, memory_fault::unavailable, 1'000'000);
  node.advance(5s);
  EXPECT_GE(node.scheduler.stats().oldest_overdue, 4s);
}

TEST_F(outage, is_counted_by_calls) {
  const auto before = node.scheduler.stats().store_failures;
  world.database->fail_next(store_verb::load, memory_fault::unavailable, 3);
  world.database->fail_next(store_verb::renew, memory_fault::unknown_done, 1);
  node.advance(10s);
  EXPECT_EQ(node.scheduler.stats().store_failures, before + 4);
}

// The ends of one call are taken in one by one. Between them come callables that are slower than the first pauses.
TEST_F(outage, of_one_call_makes_one_pause) {
  constexpr auto too_late = 5s;  // for a read
  for (int many = 10; many <= 100; many += 10) {
    rejection of{false};
    std::vector<execution> runs;
    of.node.on_start = [&](execution run) { runs.push_back(std::move(run)); };
    of.schedule_others(many, 0s);
    of.node.advance(1s);
    durable::clock::time_point last_end, last_read;
    of.world.database->answer_after(store_verb::get, 1h);
    of.world.database->answer_after(store_verb::finish, too_late + 1ms);
    of.world.database->fail_next(store_verb::finish, memory_fault::unavailable, 1);
    for (execution& run : runs) {
      run.done([&](finish_result) noexcept { last_end = of.world.database->now(); });
      EXPECT_EQ(of.node.scheduler.get("unknown",
                                      [&](auto...) noexcept {
                                        of.world.manual.time.block(6ms);
                                        last_read = of.world.database->now();
                                      }),
                0);
    }
    of.node.advance(too_late);
    of.world.database->answer_after(store_verb::finish, 0s);
    of.node.advance(2s);
    EXPECT_LE(last_end - last_read, 50ms) << many;
    EXPECT_EQ(of.node.scheduler.stats().finished, runs.size() + 1) << "the task of the fixture";
  }
}

TEST_F(outage, of_finishes_holds_up_no_begin) {
  world.database->fail_next(store_verb::finish, memory_fault::unavailable, 100'000);
  rejection without{false};
  for (rejection* const each : {static_cast<rejection*>(this), &without}) {
    each->schedule_others(100, 37ms);
    each->node.advance(10s);
  }
  EXPECT_EQ(starts, without.starts);
  EXPECT_TRUE(ends.empty());
  EXPECT_LE(world.database->calls(store_verb::finish), 100U);
}

TEST_F(outage, of_begins_makes_them_pause) {
  world.database->fail_next(store_verb::begin, memory_fault::unavailable, 100'000);
  schedule_others(100, 37ms);
  const auto before = world.database->calls(store_verb::begin);
  node.advance(10s);
  EXPECT_GE(world.database->calls(store_verb::begin), before + 20);
  EXPECT_LE(world.database->calls(store_verb::begin), before + 60);
}

TEST_F(rejection, of_a_put_counts_as_unavailable) {
  EXPECT_EQ(node.schedule("bad put"), schedule_result::unavailable);
  EXPECT_EQ(node.scheduler.stats().unavailable, 1U);
  EXPECT_EQ(node.scheduler.stats().scheduled, 1U) << "the task of the fixture";
}

}  // namespace
