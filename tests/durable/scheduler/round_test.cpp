// A round looks into all partitions from the beginning, in steps, and recovers.
#include "../support/manual_node.hpp"

using namespace tickwheel_test;
using durable::load_call;
using durable::memory_fault;
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

TEST_F(rounds, find_what_is_long_overdue) {
  manual_node producer{world, {.name = "producer"}, false};
  producer.open();
  a.open();
  a.advance(10s);
  producer.schedule("late comer", -1h);
  a.advance(3s);
  EXPECT_EQ(a.started, strings{"late comer"});
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

TEST_F(rare_rounds, are_not_waited_for_if_a_recovery_has_failed) {
  bury_a();
  world.database->fail_next(store_verb::recover, memory_fault::unavailable, 2);
  b.advance(10s);
  EXPECT_EQ(running(), 0U);
}

}  // namespace
