// A round looks into all partitions from the beginning, in steps, and recovers.
#include "../../support/long_runs.hpp"
#include "../support/manual_node.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>

using namespace tickwheel_test;
using durable::load_call;
using durable::memory_fault;
using durable::on_conflict;
using durable::store_call;
using durable::store_verb;

namespace {

using strings = std::vector<std::string>;

class rounds : public testing::Test {
 protected:
  rounds() {
    world.database->on_call([this](store_verb verb, const store_call& call) {
      if (verb != store_verb::load) return;
      for (const durable::load_range& r : static_cast<const load_call&>(call).ranges)
        looks += r.at == durable::clock::time_point{};
    });
  }
  static constexpr std::size_t partitions = 4;

  std::size_t looks_in(std::chrono::nanoseconds time) {
    const std::size_t before = looks;
    a.advance(time);
    return looks - before;
  }

  std::size_t looks = 0;  // into a partition, from the beginning
  manual_world world;
  manual_node a{world, {.name = "a", .seed = 1}};
};

TEST_F(rounds, come_with_each_tenth_poll) {
  a.open();
  a.advance(1s);
  EXPECT_EQ(looks_in(100s), 40U * partitions);
}

TEST_F(rounds, look_into_few_partitions_at_once) {
  a.open();
  a.advance(1s);
  for (int poll = 0; poll != 100; ++poll) EXPECT_LE(looks_in(250ms), 1U);
}

TEST_F(rounds, take_a_fiftieth_of_the_stores_time) {
  a.open();
  world.database->answer_after(store_verb::load, 200ms);
  a.advance(20s);
  EXPECT_EQ(looks_in(100s), 10U);
  world.database->answer_after(store_verb::load, 0ns);
  a.advance(20s);
  EXPECT_EQ(looks_in(100s), 40U * partitions);
}

TEST_F(rounds, come_again_after_an_outage) {
  a.open();
  a.advance(1s);
  world.database->outage(true);
  a.advance(60s);
  world.database->outage(false);
  a.advance(20s);
  EXPECT_EQ(looks_in(100s), 40U * partitions);
}

TEST_F(rounds, last_until_a_lost_answer_is_known_to_be_lost) {
  a.open();
  world.database->fail_next(store_verb::load, memory_fault::lost_done);
  a.advance(2s);
  EXPECT_EQ(looks_in(20s), 0U);
  world.database->answer_lost();
  a.advance(20min);
  EXPECT_EQ(looks_in(100s), 40U * partitions);
}

// A round would come to its task only after fifty times as long as the lost answer took.
TEST_F(rounds, are_not_waited_for_if_the_first_look_has_failed) {
  manual_node producer{world, {.name = "producer"}, false};
  producer.open();
  producer.schedule("late comer", -1h);
  world.database->fail_next(store_verb::load, memory_fault::lost_not_done);
  a.open();
  a.advance(3s);
  EXPECT_TRUE(a.started.empty());
  world.database->answer_lost();
  a.advance(3s);  // a look that failed is repeated after two seconds at most, at a poll
  EXPECT_EQ(a.started, strings{"late comer"});
}

TEST_F(rounds, find_what_is_long_overdue) {
  manual_node producer{world, {.name = "producer"}, false};
  producer.open();
  a.open();
  a.advance(10s);
  producer.schedule("late comer", -1h);
  a.advance(3s);
  EXPECT_EQ(a.started, strings{"late comer"});
}

// Another client holds its row for a moment. It is older than two windows, so that a look that begins at a mark passes it over.
TEST_F(rounds, are_not_waited_for_by_a_task_that_a_begin_left_out) {
  a.open();
  world.database->answer_after(store_verb::load, 20ms);
  a.advance(60s);
  a.scheduler.pause();
  a.schedule("held", 0s);
  a.advance(10s);
  int holds = 1;
  world.database->on_call([&](store_verb verb, const store_call& call) {
    if (verb != store_verb::begin || holds-- == 0) return;
    const auto& begin = static_cast<const durable::begin_call&>(call);
    const_cast<durable::begin_call&>(begin).items.front().rev += 1;
  });
  a.scheduler.resume();
  a.advance(300ms);
  EXPECT_EQ(a.started, strings{"held"});
}

TEST_F(rounds, are_not_waited_for_by_a_task_that_is_replaced_while_it_is_begun) {
  a.open();
  world.database->answer_after(store_verb::load, 20ms);
  a.advance(60s);
  a.schedule("t", 1s);
  world.database->carry_out_after(store_verb::begin, 40ms);
  a.advance(1005ms);
  ASSERT_EQ(world.database->open_calls(store_verb::begin), 1U);
  EXPECT_EQ(a.schedule("t", -1h, on_conflict::replace), durable::schedule_result::replaced);
  a.advance(400ms);
  EXPECT_EQ(a.started, strings{"t"});
}

// The look under way has passed over it.
TEST_F(rounds, are_not_waited_for_by_a_task_that_is_revived_during_a_look) {
  bool is_buried = false;
  a.on_start = [&](durable::execution run) { std::exchange(is_buried, true) ? run.done() : run.bury("why"); };
  a.open();
  a.schedule("t", 0s);
  a.advance(10ms);
  ASSERT_TRUE(is_buried);
  world.database->answer_after(store_verb::load, 20ms);
  while (world.database->open_calls(store_verb::load) == 0) a.advance(1ms);
  EXPECT_EQ(a.revive("t"), durable::revive_result::revived);
  a.advance(50ms);
  EXPECT_EQ(a.started, (strings{"t", "t"}));
}

// A slow server, and a long way to the next round.
class slow_rounds : public rounds {
 protected:
  static constexpr auto slow = 10s;

  void SetUp() override {
    a.open();
    a.advance(10s);
    producer.open();
  }
  void put(int count, std::chrono::nanoseconds in) {
    for (int i = 0; i != count; ++i) producer.schedule("t" + std::to_string(++put_), in);
  }
  // Returns how long it takes until all have started.
  std::chrono::nanoseconds time_until_all_started(std::chrono::nanoseconds most) {
    std::chrono::nanoseconds took{};
    for (; took < most && a.started.size() < static_cast<std::size_t>(put_); took += 10ms) a.advance(10ms);
    return took;
  }

  int put_ = 0;
  manual_node producer{world, {.name = "producer"}, false};
};

TEST_F(slow_rounds, last_less_than_two_minutes) {
  world.database->answer_after(store_verb::load, slow);
  a.advance(5min);
  EXPECT_GE(looks_in(1h), partitions * 60U / 3U);
}

TEST_F(slow_rounds, are_not_waited_for_after_an_outage) {
  // with a step of a round right before
  world.database->answer_after(store_verb::load, slow);
  a.advance(1min);
  const auto before = looks;
  while (looks == before) a.advance(10ms);
  world.database->answer_after(store_verb::load, 0s);
  a.advance(slow);
  world.database->outage("a", true);
  put(8, 3s);
  a.advance(7900ms);
  world.database->outage("a", false);
  EXPECT_LE(time_until_all_started(5min), 3s);
}

TEST_F(slow_rounds, are_not_waited_for_if_a_look_after_a_gain_has_failed) {
  put(8, 1h);
  bool has_failed = false;
  world.database->on_call([&](store_verb verb, const store_call&) {
    if (verb != store_verb::acquire || std::exchange(has_failed, true)) return;
    world.database->fail_next(store_verb::load, memory_fault::unavailable);
    world.database->answer_after(store_verb::load, slow);
  });
  ASSERT_TRUE(world.database->bury(world.database->session_of("a")));
  world.database->shift_clock(2h);
  while (!has_failed || world.database->open_calls(store_verb::load) == 0) a.advance(1ms);
  world.database->answer_after(store_verb::load, 0s);
  EXPECT_LE(time_until_all_started(5min), slow + 3s);
}

TEST_F(slow_rounds, are_not_waited_for_by_a_task_whose_begin_was_in_doubt) {
  put(1, 1s);
  a.advance(2s);
  ASSERT_EQ(a.started.size(), 1U);
  put(1, 1s);
  world.database->fail_next(store_verb::begin, memory_fault::lost_done);
  a.advance(2s);
  ASSERT_EQ(world.database->size(durable::task_state::running), 1U);
  // a step of a round right before the answer
  world.database->answer_after(store_verb::load, slow);
  const auto before = looks;
  while (looks == before) a.advance(10ms);
  world.database->answer_after(store_verb::load, 0s);
  a.advance(slow);
  world.database->answer_lost();
  EXPECT_LE(time_until_all_started(5min), 3s);
}

// The look of the gain reads few partitions at a time. One that cannot be read holds up no other.
TEST_F(slow_rounds, hold_up_no_other_partition_if_one_cannot_be_read) {
  put(40, 1h);
  const auto broken = world.database->partition_of("t1");
  world.database->on_call([&](store_verb verb, const store_call& call) {
    if (verb != store_verb::load) return;
    for (const durable::load_range& r : static_cast<const load_call&>(call).ranges)
      if (r.partition == broken) return world.database->fail_next(verb, memory_fault::unavailable);
  });
  ASSERT_TRUE(world.database->bury(world.database->session_of("a")));
  world.database->shift_clock(2h);
  a.advance(20s);
  for (int i = 1; i <= put_; ++i) {
    const std::string id = "t" + std::to_string(i);
    EXPECT_EQ(a.state(id) == durable::task_state::finished, world.database->partition_of(id) != broken) << id;
  }
}

// One partition cannot be read, from the time when the node gains it, or from later on.
class rounds_beside_a_failure : public rounds {
 protected:
  void SetUp() override {
    world.database->on_call([this](store_verb verb, const store_call& call) {
      if (verb != store_verb::load) return;
      for (const durable::load_range& r : static_cast<const load_call&>(call).ranges)
        if (broken.contains(r.partition)) return world.database->fail_next(verb, memory_fault::unavailable);
    });
    producer.open();
    a.open();
    a.advance(20s);
  }
  // Puts new tasks of the other partitions that are due at `at`.
  void put(int count, durable::clock::time_point at) {
    while (count != 0) {
      std::string id = "t" + std::to_string(++named_);
      if (broken.contains(world.database->partition_of(id))) continue;
      EXPECT_EQ(producer.scheduler.schedule({std::move(id), at, "", {}}, [](durable::schedule_result) noexcept {}), 0);
      if (--count % 1000 == 0) a.advance(2ms);
    }
  }

  std::set<durable::partition_number> broken{2};
  int named_ = 0;
  manual_node producer{world, {.name = "producer"}, false};
};

TEST_F(rounds_beside_a_failure, find_what_is_long_overdue) {
  for (const auto took : {0ms, 20ms, 300ms}) {
    world.database->answer_after(store_verb::load, took);
    a.advance(5min);
    a.started.clear();
    put(20, world.database->now() - 1h);
    a.advance(took == 0ms ? 4s : 4min);
    EXPECT_EQ(a.started.size(), 20U) << took.count();
  }
}

TEST_F(rounds_beside_a_failure, find_many_tasks_that_come_ahead_of_their_time) {
  const auto due = world.database->now() + 10s;
  put(6000, due);
  std::chrono::nanoseconds latest{};
  a.on_start = [&](durable::execution run) {
    latest = world.database->now() - due;
    run.done();
  };
  a.advance(20s);
  EXPECT_EQ(a.started.size(), 6000U);
  EXPECT_LE(latest, 50ms);
}

// Some can be read at first.
TEST_F(rounds_beside_a_failure, find_new_tasks_wherever_the_failure_is) {
  using set = std::set<durable::partition_number>;
  for (const set& fails : {set{0}, set{1}, set{2}, set{3}, set{0, 1}, set{0, 2}, set{1, 2, 3}, set{0, 1, 2}}) {
    broken = {};
    a.advance(30s);
    broken = fails;
    a.started.clear();
    std::chrono::nanoseconds latest{};
    a.on_start = [&](durable::execution run) {
      latest = std::max(latest, std::chrono::nanoseconds{world.database->now() - run.due()});
      run.done();
    };
    put(50, world.database->now() + 5s);
    a.advance(10s);
    EXPECT_EQ(a.started.size(), 50U);
    EXPECT_LE(latest, 10ms);
  }
}

TEST_F(rounds_beside_a_failure, read_what_was_never_read_while_all_others_fail) {
  a.advance(20s);
  broken = {0, 1, 3};
  put(20, world.database->now() - 1h);
  a.advance(4s);
  EXPECT_EQ(a.started.size(), 20U);
}

// The failing partition can be read from the beginning, so that it fails again and again at its mark.
TEST_F(rounds_beside_a_failure, go_on_while_a_mark_fails) {
  world.database->on_call([this](store_verb verb, const store_call& call) {
    if (verb != store_verb::load) return;
    for (const durable::load_range& r : static_cast<const load_call&>(call).ranges)
      if (broken.contains(r.partition) && r.at != durable::clock::time_point{})
        return world.database->fail_next(verb, memory_fault::unavailable);
  });
  for (int i = 0; i != 100; ++i) {
    put(1, world.database->now() - 1h);
    a.advance(1777ms);
  }
  a.advance(10s);
  EXPECT_EQ(a.started.size(), 100U);
}

// A node of 64 partitions, whose loads the test makes fail. Each task is put five seconds before it is due.
class rounds_of_many_partitions : public testing::Test {
 protected:
  using predicate = std::function<bool(const load_call&)>;

  rounds_of_many_partitions() {
    world.database = std::make_shared<durable::memory_database>(std::uint16_t{64});
    producer.emplace(world, durable::scheduler_options{.name = "producer"}, false);
    a.emplace(world, durable::scheduler_options{.name = "a", .seed = 1});
    a->on_start = [this](durable::execution run) {
      late.push_back(world.database->now() - run.due());
      run.done();
    };
    producer->open();
    a->open();
    a->advance(20s);
  }

  void each_load(predicate fail, std::chrono::nanoseconds failure_takes, std::chrono::nanoseconds takes = 0ms) {
    world.database->on_call([=, this](store_verb verb, const store_call& call) {
      if (verb != store_verb::load) return;
      const bool does_fail = fail(static_cast<const load_call&>(call));
      world.database->answer_after(verb, does_fail ? failure_takes : takes);
      if (does_fail) world.database->fail_next(verb, memory_fault::unavailable);
    });
  }
  static bool reads(const load_call& call, durable::partition_number p) {
    return std::any_of(call.ranges.begin(), call.ranges.end(),
                       [=](const durable::load_range& r) { return r.partition == p; });
  }
  // Puts tasks of other partitions than `broken`, one each 200 ms.
  void put(int count, int broken = -1) {
    for (; count != 0; ++named_) {
      const std::string id = std::to_string(named_);
      if (world.database->partition_of(id) == broken) continue;
      producer->schedule(id, 5s);
      a->advance(200ms);
      --count;
    }
  }
  // Returns the number of tasks that started more than `limit` after they were due.
  std::ptrdiff_t later_than(std::chrono::nanoseconds limit) const {
    return std::count_if(late.begin(), late.end(), [=](std::chrono::nanoseconds each) { return each > limit; });
  }

  manual_world world;
  std::optional<manual_node> producer, a;
  std::vector<std::chrono::nanoseconds> late;
  std::mt19937 random{1};

 private:
  int named_ = 0;
};

// Whatever is read.
TEST_F(rounds_of_many_partitions, find_new_tasks_of_a_store_that_fails_now_and_then) {
  for (const unsigned one_of : {10U, 5U, 4U}) {
    late.clear();
    each_load([=, this](const load_call&) { return random() % one_of == 0; }, 20ms, 20ms);
    put(500);
    a->advance(10s);
    EXPECT_EQ(late.size(), 500U);
    EXPECT_EQ(later_than(30ms), 0) << one_of;
  }
}

TEST_F(rounds_of_many_partitions, find_new_tasks_if_one_partition_always_fails) {
  for (const int broken : {63, 0, 31}) {
    late.clear();
    each_load(
        [=, this](const load_call& call) {
          return random() % 5 == 0 || reads(call, static_cast<durable::partition_number>(broken));
        },
        50ms, 50ms);
    put(1000, broken);
    a->advance(10s);
    EXPECT_EQ(late.size(), 1000U);
    EXPECT_LE(later_than(60ms), 10) << broken;
  }
}

// Each second load fails, and so on: none of them may always be that of the same partition.
TEST_F(rounds_of_many_partitions, find_what_is_long_overdue_if_loads_fail_in_turns) {
  for (const int turns : {2, 3, 4, 5, 7}) {
    late.clear();
    each_load([turns, n = 0](const load_call&) mutable { return ++n % turns == 0; }, 0ms);
    for (int i = 0; i != 200; ++i) {
      producer->schedule("late comer" + std::to_string(turns * 1000 + i), -1h);
      a->advance(97ms);
    }
    a->advance(20s);
    EXPECT_EQ(late.size(), 200U) << turns;
  }
}

// The server cancels a statement after ten seconds. A try of the partition then takes so long, and comes seldom.
TEST_F(rounds_of_many_partitions, find_new_tasks_while_a_partition_fails_slowly) {
  for (const auto takes : {1000ms, 10000ms}) {
    each_load([](const load_call& call) { return reads(call, 7); }, takes);
    put(300, 7);
    late.clear();
    put(1000, 7);
    a->advance(30s);
    EXPECT_GE(late.size(), 1000U);
    EXPECT_LE(later_than(10ms), 100) << takes.count();
  }
}

TEST_F(rounds_of_many_partitions, find_new_tasks_while_half_of_all_partitions_fail_slowly) {
  each_load(
      [](const load_call& call) {
        return std::any_of(call.ranges.begin(), call.ranges.end(), [](const auto& r) { return r.partition < 32; });
      },
      1s);
  const auto put_readable = [&](int count, std::string names) {
    for (int i = 0; count != 0; ++i) {
      const std::string id = names + std::to_string(i);
      if (world.database->partition_of(id) < 32) continue;
      producer->schedule(id, 5s);
      a->advance(200ms);
      --count;
    }
  };
  put_readable(300, "at first");
  late.clear();
  put_readable(600, "later");
  a->advance(60s);
  EXPECT_GE(late.size(), 600U);
  EXPECT_LE(later_than(1s), 60);
}

TEST_F(rounds_of_many_partitions, find_tasks_of_a_partition_soon_after_it_can_be_read_again) {
  bool fails = true;
  each_load([&](const load_call& call) { return fails && reads(call, 7); }, 1s);
  std::string id;
  for (int i = 0; world.database->partition_of(id) != 7; ++i) id = "seven" + std::to_string(i);
  a->advance(3min);
  producer->schedule(id, 5s);
  a->advance(1min);
  EXPECT_TRUE(late.empty());
  fails = false;
  a->advance(10s);  // at most nine times as long as the failure took, and a poll
  EXPECT_EQ(late.size(), 1U);
}

TEST_F(rounds_of_many_partitions, make_few_loads_while_the_store_answers_for_nothing) {
  bool fails = true;
  each_load([&](const load_call&) { return fails; }, 0ms);
  a->advance(1min);
  const std::size_t before = world.database->calls(store_verb::load);
  a->advance(10s);
  EXPECT_LE(world.database->calls(store_verb::load) - before, 40U * 30);
  fails = false;
  put(100);
  a->advance(10s);
  EXPECT_EQ(later_than(1ms), 0);
}

// Each second the answer of a begin is lost. Looks from the beginning follow each other, and each begins before the last one has read all.
TEST_F(rounds_of_many_partitions, give_each_partition_its_turn_while_looks_start_over) {
  auto last = world.database->now();
  world.database->answer_after(store_verb::load, 200ms);
  world.database->on_call([&](store_verb verb, const store_call&) {
    if (verb != store_verb::begin || world.database->now() - last < 1s) return;
    last = world.database->now();
    world.database->fail_next(verb, memory_fault::unknown_not_done);
  });
  put(600);
  a->advance(10s);
  EXPECT_EQ(late.size(), 600U);
  EXPECT_EQ(later_than(10s), 0);
}

// Partitions fail at random: always or only from the beginning, from the start or later, at once or after a while.
TEST(rounds_beside_failures, find_all_that_can_be_read) {
  for (unsigned seed = 1; seed <= by_run_length(60, 2000); ++seed) {
    std::mt19937 random{seed};
    const auto any = [&](auto... of) { return std::array{of...}[random() % sizeof...(of)]; };
    manual_world world;
    const auto count = static_cast<std::uint16_t>(any(2, 4, 8, 9, 16, 64));
    world.database = std::make_shared<durable::memory_database>(count);
    const auto fails_after = any(0ms, 0ms, 20ms, 300ms, 1000ms);
    const bool fails_always = any(true, false);
    const bool fails_from_the_start = any(true, false);
    const bool is_overdue = any(true, false);
    std::set<durable::partition_number> broken;
    const auto breaks = [&] {
      for (auto n = any(1, 1, 2, 1 + count / 4, count / 2); n != 0; --n)
        broken.insert(static_cast<durable::partition_number>(random() % count));
    };
    if (fails_from_the_start) breaks();
    world.database->on_call([&](store_verb verb, const store_call& call) {
      if (verb != store_verb::load) return;
      bool fails = false;
      for (const durable::load_range& r : static_cast<const load_call&>(call).ranges)
        fails |= broken.contains(r.partition) && (fails_always || r.at == durable::clock::time_point{});
      world.database->answer_after(verb, fails ? fails_after : 0ms);
      if (fails) world.database->fail_next(verb, memory_fault::unavailable);
    });
    manual_node producer{world, {.name = "producer"}, false};
    manual_node a{world, {.name = "a", .seed = seed}};
    producer.open();
    a.open();
    a.advance(20s);
    if (!fails_from_the_start) breaks();
    a.advance(20s);
    const auto due = world.database->now() + (is_overdue ? -1h : 5s);
    std::size_t put = 0;
    for (int i = 0; i != 100; ++i) {
      const std::string id = std::to_string(i);
      if (broken.contains(world.database->partition_of(id))) continue;
      producer.schedule({id, due, "", {}});
      ++put;
    }
    for (int i = 0; i != 400 && a.started.size() != put; ++i) a.advance(1s);
    EXPECT_EQ(a.started.size(), put) << "seed " << seed << ": " << broken.size() << " of " << count
                                     << " partitions fail";
  }
}

// `a` runs tasks of partitions that `b` owns by now, and whose rounds are rare.
class rare_rounds : public rounds {
 protected:
  void SetUp() override {
    a.on_start = [this](durable::execution run) { kept.push_back(std::move(run)); };
    a.open();
    for (int i = 0; i != 8; ++i) a.schedule(std::to_string(i), 0s);
    a.advance(1s);
    ASSERT_EQ(kept.size(), 8U);
    b.open();
    b.advance(20s);
    ASSERT_EQ(b.scheduler.stats().partitions, 2U);
    world.database->answer_after(store_verb::load, 2s);
    b.advance(200s);
  }
  void bury_a() {
    world.database->outage("a", true);
    ASSERT_TRUE(world.database->bury(world.database->session_of("a")));
  }
  std::size_t running() const { return world.database->size(durable::task_state::running); }

  std::vector<durable::execution> kept;
  manual_node b{world, {.name = "b", .seed = 2}};
};

TEST_F(rare_rounds, are_not_waited_for_after_a_burial) {
  bury_a();
  b.advance(4s);
  EXPECT_EQ(running(), 0U);
}

TEST_F(rare_rounds, are_not_waited_for_if_a_recovery_is_under_way) {
  world.database->answer_after(store_verb::recover, 1s);
  bury_a();
  b.advance(6s);  // the first recovery began before the partitions of `a` were there
  EXPECT_EQ(running(), 0U);
}

TEST_F(rare_rounds, are_not_waited_for_while_the_former_session_is_recovered) {
  world.database->answer_after(store_verb::recover, 4s);
  while (world.database->open_calls(store_verb::recover) == 0) b.advance(1ms);
  bury_a();
  ASSERT_TRUE(world.database->bury(world.database->session_of("b")));
  while (b.scheduler.stats().partitions != 4) b.advance(1ms);
  world.database->answer_after(store_verb::recover, 0s);
  while (world.database->open_calls(store_verb::recover) != 0) b.advance(1ms);
  b.advance(10ms);
  EXPECT_EQ(running(), 0U);
}

TEST_F(rare_rounds, are_not_waited_for_if_a_recovery_has_failed) {
  bury_a();
  world.database->fail_next(store_verb::recover, memory_fault::unavailable, 2);
  b.advance(10s);
  EXPECT_EQ(running(), 0U);
}

}  // namespace
