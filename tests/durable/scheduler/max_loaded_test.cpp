// A scheduler whose memory is full holds the earliest tasks.
#include "../../support/long_runs.hpp"
#include "../support/manual_node.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <random>
#include <utility>

using namespace tickwheel_test;
using durable::execution;
using durable::on_conflict;
using durable::store_verb;

namespace {

using strings = std::vector<std::string>;
using std::chrono::nanoseconds;

// One round trip to the memory_database, and one pass more.
constexpr nanoseconds most_late = 3ms;

class max_loaded : public testing::Test {
 protected:
  // Notes how late each task is started.
  void watch(manual_node& n) {
    n.on_start = [this](execution run) {
      const std::string id{run.id()};
      late[id] = world.database->now() - run.due();
      run.done();
    };
  }
  std::string number(std::size_t n) const { return std::to_string(n); }

  manual_world world;
  manual_node producer{world, {.name = "producer", .seed = 9}, false};
  std::map<std::string, nanoseconds> late;
};

TEST_F(max_loaded, earlier_task_takes_the_place_of_the_latest) {
  manual_node small{world, {.name = "small", .max_loaded = 2}};
  watch(small);
  small.open();
  small.schedule("later", 1700ms);
  small.schedule("latest", 1900ms);
  small.schedule("earliest", 1000ms);
  EXPECT_EQ(small.scheduler.stats().loaded, 2U);
  small.advance(2s);
  EXPECT_EQ(small.started, (strings{"earliest", "later", "latest"}));
  for (const auto& [id, by] : late) EXPECT_LE(by, most_late) << id;
}

TEST_F(max_loaded, task_of_another_node_takes_the_place_of_the_latest) {
  manual_node small{world, {.name = "small", .max_loaded = 2}};
  watch(small);
  small.open();
  producer.open();
  small.schedule("later", 1700ms);
  small.schedule("latest", 1900ms);
  producer.schedule("earliest", 600ms);
  small.advance(2s);
  EXPECT_EQ(small.started, (strings{"earliest", "later", "latest"}));
  for (const auto& [id, by] : late) EXPECT_LE(by, most_late) << id;
}

TEST_F(max_loaded, older_task_takes_the_place_of_one_that_is_due) {
  manual_node small{world, {.name = "small", .max_running = 1, .max_loaded = 4}};
  std::optional<execution> first;
  small.on_start = [&](execution run) { first ? run.done() : void(first = std::move(run)); };
  small.open();
  small.schedule("first", 0s);
  for (std::size_t i = 0; i != 20; ++i) small.schedule(number(i), 0s);
  small.schedule("oldest", -1h);
  first->done();
  small.advance(100ms);
  ASSERT_EQ(small.started.size(), 22U);
  EXPECT_EQ(small.started[1], "oldest");
}

TEST_F(max_loaded, older_task_takes_the_place_of_a_waiting_one_first) {
  manual_node small{world, {.name = "small", .max_running = 1, .max_loaded = 3}};
  std::optional<execution> first;
  small.on_start = [&](execution run) { first ? run.done() : void(first = std::move(run)); };
  small.open();
  small.schedule("first", 0s);
  for (const char* id : {"due", "due as well"}) small.schedule(id, 0s);
  small.schedule("waits", 1500ms);
  small.schedule("oldest", -1h);
  world.database->answer_after(store_verb::load, 1s);
  first->done();
  small.advance(10ms);
  EXPECT_EQ(small.started, (strings{"first", "oldest", "due", "due as well"})) << "those that were due had stayed";
}

// As many come as are done: those that were left out must not wait for the last of them, also while a look takes long.
TEST_F(max_loaded, new_tasks_do_not_overtake_those_that_were_left_out) {
  constexpr std::size_t backlog = 40;
  constexpr std::size_t all = 4 * backlog;
  for (const std::size_t most : {1U, 2U, 8U, 39U}) {
    for (const auto look : {0ms, 20ms}) {
      manual_world another;
      another.database->answer_after(store_verb::load, look);
      manual_node small{another, {.name = "small", .max_running = 1, .max_loaded = most}};
      small.open(1s);
      small.scheduler.pause();
      for (std::size_t i = 0; i != backlog; ++i) small.schedule(number(i), 0s);
      std::size_t next = backlog;
      small.on_start = [&](execution run) {
        run.done();
        if (next == all) return;
        durable::task task{number(next++), another.database->now(), "", {}};
        EXPECT_EQ(small.scheduler.schedule(std::move(task), [](durable::schedule_result) noexcept {}), 0);
      };
      small.scheduler.resume();
      small.advance(10s);
      ASSERT_EQ(small.started.size(), all) << most;
      for (std::size_t i = 0; i != all; ++i) {
        const auto place = std::find(small.started.begin(), small.started.end(), number(i)) - small.started.begin();
        // it is behind those that were scheduled before, but for those whose answers were under way
        EXPECT_LE(static_cast<std::size_t>(place), i + most + 2) << i << " of " << most << ", " << look.count();
      }
    }
  }
}

// Another program asks for a look more often than one of many pages ends.
TEST_F(max_loaded, tasks_begin_while_looks_are_asked_for_often) {
  constexpr std::size_t most = 2000;
  constexpr std::size_t backlog = 5 * most;
  manual_node busy{world, {.name = "busy", .max_loaded = most}};
  busy.open();
  producer.open();
  world.manual.advance(10s);
  busy.scheduler.pause();
  for (std::size_t i = 0; i != backlog; ++i) {
    durable::task task{number(i), world.database->now(), "", {}};
    ASSERT_EQ(producer.scheduler.schedule(std::move(task), [](durable::schedule_result) noexcept {}), 0);
    if (i % 1000 == 999) world.manual.advance(5ms);
  }
  busy.advance(1s);
  world.database->answer_after(store_verb::load, 5ms);
  world.database->answer_after(store_verb::begin, 5ms);
  busy.scheduler.resume();
  for (int i = 0; i != 1000 && busy.started.size() < backlog; ++i) {
    world.database->tell_of(static_cast<durable::partition_number>(i % world.database->partitions()));
    world.manual.advance(5ms);
  }
  EXPECT_EQ(busy.started.size(), backlog);
}

// The process was stopped, or the store was slow. Later looks are quick.
TEST_F(max_loaded, one_slow_look_pauses_looks_for_a_limited_time) {
  manual_node small{world, {.name = "small", .window = 10min, .max_loaded = 8}};
  small.open();
  producer.open();
  for (std::size_t i = 0; i != 20; ++i) small.schedule(number(i), 5min);
  world.database->answer_after(store_verb::load, 8s);
  small.advance(1s);
  world.database->answer_after(store_verb::load, 0s);
  small.advance(8s);
  producer.schedule("soon", 0s);
  small.advance(20s);
  EXPECT_EQ(small.started, strings{"soon"});
}

// Nothing was left out. A look takes long, and more than half of the places are taken.
TEST_F(max_loaded, polls_look_while_memory_is_not_full) {
  manual_node busy{world, {.name = "busy", .window = 1min, .max_loaded = 30}};
  busy.open();
  for (std::size_t i = 0; i != 20; ++i) busy.schedule(number(i), 50s);
  world.database->answer_after(store_verb::load, 200ms);
  busy.advance(2s);
  const std::size_t before = world.database->calls(store_verb::load);
  busy.advance(20s);
  EXPECT_GE(world.database->calls(store_verb::load) - before, 80U);
}

// How often a scheduler looks that can start nothing of what it reads.
class looks_in_vain : public max_loaded {};

TEST_F(looks_in_vain, are_none_while_memory_is_full_of_due_tasks) {
  manual_node small{world, {.name = "small", .max_loaded = 8}};
  small.open();
  small.scheduler.pause();
  for (std::size_t i = 0; i != 20; ++i) small.schedule(number(i), 0s);
  const std::size_t before = world.database->calls(store_verb::load);
  small.advance(1s);
  EXPECT_EQ(world.database->calls(store_verb::load), before);
}

TEST_F(looks_in_vain, take_a_tenth_of_the_time_while_memory_is_full_of_waiting_tasks) {
  for (const auto takes : {0ms, 10ms, 50ms, 100ms}) {
    manual_world another;
    another.database->answer_after(store_verb::load, takes);
    manual_node small{another, {.name = "small", .window = 1min, .max_loaded = 8}};
    small.open(1s);
    for (std::size_t i = 0; i != 20; ++i) small.schedule(number(i), 50s);
    small.advance(2s);
    const std::size_t before = another.database->calls(store_verb::load);
    small.advance(20s);
    const std::size_t looks = another.database->calls(store_verb::load) - before;
    // a poll in vain delays the next look by up to a poll; a look of a round is two calls
    EXPECT_GE(looks, 20s / std::max<nanoseconds>(250ms, 10 * takes + 250ms)) << takes.count();
    EXPECT_LE(looks, 2 * 20s / std::max<nanoseconds>(250ms, 10 * takes) + 2) << takes.count();
  }
}

TEST_F(looks_in_vain, are_few_while_a_task_is_in_doubt) {
  for (const std::size_t most : {1U, 2U, 4U}) {
    manual_world another;
    manual_node small{another, {.name = "small", .max_loaded = most}};
    small.open();
    small.scheduler.pause();
    for (std::size_t i = 0; i != 40; ++i) small.schedule(number(i), 0s);
    another.database->fail_next(store_verb::begin, durable::memory_fault::unknown_not_done, 1);
    another.database->fail_next(store_verb::recover, durable::memory_fault::unavailable, 8);
    small.scheduler.resume();
    small.advance(100ms);
    const std::size_t before = another.database->calls(store_verb::load);
    small.advance(1s);
    EXPECT_LE(another.database->calls(store_verb::load) - before, 60U) << most;
    EXPECT_GE(small.started.size(), 40 - most) << most;  // the others do not wait
    small.advance(5s);
    EXPECT_EQ(small.started.size(), 40U) << most;
  }
}

TEST_F(looks_in_vain, are_few_while_the_store_refuses_each_begin) {
  for (const std::size_t most : {1U, 2U, 8U}) {
    manual_world another;
    manual_node small{another, {.name = "small", .max_loaded = most}};
    small.open();
    small.scheduler.pause();
    for (std::size_t i = 0; i != 40; ++i) small.schedule(number(i), 0s);
    small.advance(2500ms);
    another.database->bury(another.database->session_of("small"));
    small.scheduler.resume();
    std::size_t looks = 0;
    for (int i = 0; i != 300; ++i) {
      const std::size_t before = another.database->calls(store_verb::load);
      small.advance(10ms);
      if (small.started.empty()) looks += another.database->calls(store_verb::load) - before;
    }
    EXPECT_LE(looks, 40U) << most;
    EXPECT_EQ(small.started.size(), 40U) << most;
  }
}

// It is older than two windows: a look that begins at a mark would pass it over.
TEST_F(max_loaded, task_that_was_left_out_is_read_by_the_look_after_a_failed_one) {
  manual_node small{world, {.name = "small", .max_running = 1, .max_loaded = 1}};
  std::optional<execution> first;
  small.on_start = [&](execution run) { first ? run.done() : void(first = std::move(run)); };
  small.open();
  small.schedule("first", -3h);
  small.schedule("second", -2h);
  small.schedule("third", -1h);
  bool fails = true;
  world.database->on_call([&](store_verb verb, const durable::store_call&) {
    if (verb == store_verb::load && fails) world.database->fail_next(verb, durable::memory_fault::unavailable);
  });
  const std::size_t loads = world.database->calls(store_verb::load);
  first->done();
  small.advance(100ms);
  EXPECT_GT(world.database->calls(store_verb::load), loads);
  EXPECT_EQ(small.started, (strings{"first", "second"}));
  fails = false;
  small.advance(250ms);
  EXPECT_EQ(small.started, (strings{"first", "second", "third"}));
}

// A task that has lost two nodes is fragile: only one of them runs at a time.
TEST_F(max_loaded, fragile_tasks_that_wait_take_no_place_of_others) {
  for (const std::size_t most : {2U, 3U, 4U, 8U}) {
    manual_world another;
    const auto name_in = [&](std::string name, durable::partition_number p) {
      while (another.database->partition_of(name) != p) name += '+';
      return name;
    };
    std::vector<execution> kept;
    for (const bool is_first : {true, false}) {
      manual_node dies{another, {.name = is_first ? "first" : "second"}};
      dies.on_start = [&](execution run) { kept.push_back(std::move(run)); };
      dies.open();
      for (std::size_t i = 0; is_first && i != 4 * most; ++i) dies.schedule(name_in("fragile" + number(i), 3), 0s);
      dies.advance(20s);
      ASSERT_EQ(kept.size(), 4 * most);
      another.database->crash(false);
      kept.clear();
    }
    manual_node small{another, {.name = "small", .max_loaded = most}};
    manual_node other{another, {.name = "producer"}, false};
    std::size_t on_time = 0;
    small.on_start = [&](execution run) {
      if (run.id().starts_with("fragile")) return kept.push_back(std::move(run));
      EXPECT_LE(another.database->now() - run.due(), most_late) << run.id() << ", max_loaded " << most;
      ++on_time;
      run.done();
    };
    small.open(20s);
    other.open(1s);
    for (std::size_t i = 0; i != 9; ++i) {
      other.schedule(name_in(number(i), 0), 1s);
      small.advance(100ms);
    }
    small.advance(5s);
    EXPECT_EQ(on_time, 9U) << most;
    EXPECT_EQ(kept.size(), 1U) << most;
  }
}

TEST_F(max_loaded, task_that_moves_behind_one_that_was_left_out_gives_up_its_place) {
  for (const std::size_t most : {1U, 2U, 4U}) {
    for (const auto look : {0ms, 200ms, 2000ms}) {
      manual_world another;
      manual_node small{another, {.name = "small", .window = 20s, .max_loaded = most}};
      small.open(5s);
      another.database->answer_after(store_verb::load, look);
      small.advance(5s);
      for (std::size_t i = 0; i != most; ++i) small.schedule(number(i), 5s);
      small.schedule("left out", 6s);
      for (std::size_t i = 0; i != most; ++i) small.schedule(number(i), 7s, on_conflict::replace);
      small.on_start = [&](execution run) {
        EXPECT_LE(another.database->now() - run.due(), most_late) << run.id() << " of " << most << ", " << look.count();
        run.done();
      };
      small.advance(6500ms);
      EXPECT_EQ(small.started, strings{"left out"}) << most << ", " << look.count();
    }
  }
}

// The store's clock was set back during a begin: the task that was begun is no longer the earliest.
TEST_F(max_loaded, task_that_waits_again_gives_up_its_place_to_one_that_was_left_out) {
  manual_node small{world, {.name = "small", .window = 1min, .max_loaded = 1}};
  small.open(5s);
  world.database->answer_after(store_verb::load, 1s);
  small.advance(15s);
  small.schedule("begun", 1s);
  world.database->carry_out_after(store_verb::begin, 100ms);
  small.advance(1010ms);
  ASSERT_EQ(world.database->open_calls(store_verb::begin), 1U);
  world.database->shift_clock(-50s);
  small.schedule("left out", -1h);
  small.advance(2500ms);
  EXPECT_EQ(small.started, strings{"left out"});
}

// All pending tasks are of one time, and a look takes long: any of them may begin meanwhile.
TEST_F(max_loaded, tasks_of_one_time_begin_during_a_look) {
  constexpr std::size_t most = 500;
  manual_node small{world, {.name = "small", .max_running = 10, .max_loaded = most}};
  small.open();
  producer.open();
  world.manual.advance(5s);
  const auto due = world.database->now() + 3s;
  for (std::size_t i = 0; i != 3 * most; ++i)
    ASSERT_EQ(producer.scheduler.schedule({number(i), due, "", {}}, [](durable::schedule_result) noexcept {}), 0);
  small.advance(due - world.database->now() - 1ms);
  world.database->answer_after(store_verb::load, 100ms);
  world.database->answer_after(store_verb::begin, 5ms);
  for (std::size_t before = 0; before != 3 * most; before = small.started.size()) {
    small.advance(50ms);
    ASSERT_GT(small.started.size(), before) << "none has begun in 50 ms";
  }
}

// The look finds a task of the same time that it leaves out, before it finds those that are in memory.
TEST_F(max_loaded, tasks_of_one_time_follow_a_clock_that_was_set_forward) {
  for (const std::size_t most : {1U, 2U, 4U}) {
    manual_world another;
    manual_node small{another, {.name = "small", .window = 10min, .max_loaded = most}};
    small.open(5s);
    const auto name_in_first = [&](std::string name) {
      while (another.database->partition_of(name) != 0) name += '+';
      return name;
    };
    const auto due = another.database->now() + 9min;
    for (std::size_t i = 0; i != most; ++i) small.schedule({name_in_first("loaded" + number(i)), due, "", {}});
    small.schedule({name_in_first("first by id"), due, "", {}});
    small.advance(1s);
    another.database->shift_clock(10min);
    small.advance(1s);
    EXPECT_EQ(small.started.size(), most + 1) << most;
  }
}

// A look ends before it has read the task in memory, because it leaves out a page of others of the same time.
TEST_F(max_loaded, task_behind_a_page_of_its_time_follows_a_clock_that_was_set_forward) {
  manual_node small{world, {.name = "small", .window = 10min, .max_loaded = 1}};
  small.open(5s);
  const auto name_in_first = [&](std::string name) {
    while (world.database->partition_of(name) != 0) name += '+';
    return name;
  };
  const auto due = world.database->now() + 9min;
  small.schedule({name_in_first("loaded"), due, "", {}});
  for (std::size_t i = 0; i != 500; ++i) small.schedule({name_in_first("first by id" + number(i)), due, "", {}});
  world.database->shift_clock(10min);
  small.advance(1s);
  EXPECT_FALSE(small.started.empty());
}

// All places are taken by due tasks, of which one at a time runs for 20 ms.
class full_of_due : public max_loaded {
 protected:
  static constexpr std::size_t most = 64;

  // Takes 20 ms.
  void work() {
    for (int i = 0; i != 4; ++i) {
      small.advance(4ms);
      brings_more ? (void)small.schedule(owned_by("small", number(next++)), 0s) : small.advance(1ms);
    }
    if (run) run->done();
    run.reset();
  }
  // Returns how long it takes until `id` starts.
  nanoseconds wait_for(const std::string& id) {
    const auto begin = world.database->now();
    while (std::find(small.started.begin(), small.started.end(), id) == small.started.end()) {
      if (world.database->now() - begin > 10s) break;
      work();
    }
    return world.database->now() - begin;
  }
  std::string owned_by(const char* node, std::string name) const {
    while (world.database->owner_of(world.database->partition_of(name)) != world.database->session_of(node))
      name += '+';
    return name;
  }
  void fill() {
    while (next != 2 * most) small.schedule(owned_by("small", number(next++)), 0s);
  }
  // Another node dies. The look for its task, which is the oldest, fails after `took`. Returns how long the task then waits.
  nanoseconds wait_after_failed_look(nanoseconds took) {
    manual_node other{world, {.name = "other", .lease = 1s, .seed = 4}};
    small.open();
    other.open(3s);
    small.scheduler.pause();
    other.scheduler.pause();
    const std::string oldest = owned_by("other", "oldest");
    other.schedule(oldest, -1h);
    fill();
    bool has_failed = false;
    world.database->on_call([&](store_verb verb, const durable::store_call& call) {
      if (verb != store_verb::load || has_failed) return;
      for (const durable::load_range& range : static_cast<const durable::load_call&>(call).ranges)
        has_failed = has_failed || range.partition == world.database->partition_of(oldest);
      if (!has_failed) return;
      world.database->answer_after(store_verb::load, took);
      world.database->fail_next(store_verb::load, durable::memory_fault::unavailable, 1);
    });
    world.database->crash("other", true);
    other.scheduler.close();
    small.scheduler.resume();
    brings_more = true;
    while (!has_failed) work();
    world.database->answer_after(store_verb::load, 0ms);
    const nanoseconds waited = wait_for(oldest);
    world.database->on_call(nullptr);
    return waited;
  }
  void SetUp() override {
    small.on_start = [this](execution started) { run.emplace(std::move(started)); };
  }
  void TearDown() override { run.reset(); }

  std::size_t next = 0;
  bool brings_more = false;
  std::optional<execution> run;
  manual_node small{world, {.name = "small", .lease = 1s, .max_running = 1, .max_loaded = most}};
};

TEST_F(full_of_due, task_that_is_replaced_while_it_is_begun_waits_for_a_poll) {
  small.open(1s);
  small.scheduler.pause();
  small.schedule("replaced", -1h);
  fill();
  world.database->carry_out_after(store_verb::begin, 5ms);
  small.scheduler.resume();
  small.advance(1ms);
  ASSERT_EQ(world.database->open_calls(store_verb::begin), 1U);
  small.schedule("replaced", -1h, on_conflict::replace);
  EXPECT_LE(wait_for("replaced"), 500ms);
}

// Another node dies, whose task is the oldest. The look for it fails, and then memory is short of room again.
TEST_F(full_of_due, task_that_a_failed_look_left_out_waits_for_a_poll) {
  EXPECT_LE(wait_after_failed_look(0ms), 500ms);
}

// The look after it leaves out what has failed, because the failure took longer than a poll.
TEST_F(full_of_due, task_that_a_slow_failed_look_left_out_waits_for_a_second_look) {
  EXPECT_LE(wait_after_failed_look(300ms), 300ms + 300ms + 500ms);
}

// The next period of each waits for the end of the execution, not for a place.
TEST_F(max_loaded, kept_executions_that_were_finished_by_token_take_no_place) {
  for (const std::size_t most : {1U, 2U, 3U, 8U}) {
    manual_world another;
    manual_node small{another, {.name = "small", .max_loaded = most}};
    std::vector<execution> kept;
    small.on_start = [&](execution run) {
      if (run.period() == 0s) return run.done();
      EXPECT_EQ(small.scheduler.finish(run.id(), run.token(), [](durable::finish_result) noexcept {}), 0);
      kept.push_back(std::move(run));
    };
    small.open();
    for (std::size_t i = 0; i != most; ++i) small.schedule(number(i), 0s, on_conflict::keep, 1s);
    small.advance(10s);
    EXPECT_EQ(kept.size(), most);
    small.started.clear();
    small.schedule("other", 1s);
    small.advance(2s);
    EXPECT_EQ(small.started, strings{"other"}) << most;

    small.started.clear();
    for (execution& run : std::exchange(kept, {})) run.done();
    small.advance(10ms);
    EXPECT_EQ(small.started.size(), most);
    kept.clear();
  }
}

// Tasks come, are moved and cancelled on two nodes, all of them two polls ahead. Each is started on time.
TEST_F(max_loaded, random_tasks_are_on_time_in_any_size) {
  constexpr nanoseconds ahead = 600ms;   // more than two polls
  constexpr nanoseconds between = 30ms;  // two tasks, so that the smallest memory can hold each in its turn
  for (const std::size_t most : {1U, 2U, 3U, 7U, 16U}) {
    for (unsigned seed = 0; seed != by_run_length(3, 60); ++seed) {
      std::mt19937 random{seed};
      const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>{0, n - 1}(random); };
      manual_world another;
      manual_node small{another, {.name = "small", .max_loaded = most, .seed = 1 + seed}};
      manual_node other{another, {.name = "producer", .seed = 100 + seed}, false};
      std::map<std::string, durable::clock::time_point> due;
      const auto is_near = [&](const std::string& id) { return due[id] - another.database->now() < ahead; };
      small.on_start = [&](execution run) {
        const std::string id{run.id()};
        EXPECT_EQ(run.due(), due[id]) << id;
        EXPECT_LE(another.database->now() - run.due(), most_late) << id << " of " << most << ", seed " << seed;
        due.erase(id);
        run.done();
      };
      small.open();
      other.open();
      std::size_t next = 0;
      for (std::size_t i = 0; i != 150; ++i) {
        manual_node& through = below(2) == 0 ? small : other;
        const bool is_new = due.empty() || below(3) != 0;
        const std::string id =
            is_new ? number(next++) : std::next(due.begin(), static_cast<std::ptrdiff_t>(below(due.size())))->first;
        const auto at = another.database->now() + ahead + between * below(100);
        const durable::clock::time_point rounded{at.time_since_epoch() / between * between + between};
        const bool is_taken = std::any_of(due.begin(), due.end(), [&](const auto& t) { return t.second == rounded; });
        if (!is_new && is_near(id)) continue;
        if (!is_new && below(3) == 0) {
          EXPECT_EQ(through.cancel(id), durable::cancel_result::cancelled);
          due.erase(id);
        } else if (!is_taken) {
          due[id] = rounded;
          EXPECT_EQ(through.schedule({id, rounded, "", {}}, on_conflict::replace),
                    is_new ? durable::schedule_result::scheduled : durable::schedule_result::replaced);
        }
        small.advance(1ms * below(60));
      }
      small.advance(5s);
      EXPECT_TRUE(due.empty()) << due.size() << " tasks were not started, max_loaded " << most << ", seed " << seed;
    }
  }
}

}  // namespace
