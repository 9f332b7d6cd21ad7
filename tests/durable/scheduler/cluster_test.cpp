#include "../support/manual_node.hpp"

#include <algorithm>
#include <deque>
#include <random>

using namespace tickwheel_test;
using durable::execution;
using durable::memory_fault;
using durable::store_verb;

namespace {

using strings = std::vector<std::string>;

class cluster : public testing::Test {
 protected:
  void advance(std::chrono::nanoseconds by) { a.advance(by); }
  std::size_t partitions(const manual_node& n) const { return n.scheduler.stats().partitions; }

  manual_world world;
  manual_node a{world, {.name = "a", .seed = 1}};
  manual_node b{world, {.name = "b", .seed = 2}};
};

TEST_F(cluster, shares_partitions_evenly_as_nodes_come) {
  a.open();
  EXPECT_EQ(partitions(a), 4U);
  advance(11s);
  b.open();
  advance(10ms);  // the new node has told of itself
  EXPECT_EQ(partitions(a), 2U);
  EXPECT_EQ(partitions(b), 2U);
}

TEST_F(cluster, producer_that_joins_is_handed_nothing) {
  a.open();
  advance(11s);
  const durable::session_number owner = world.database->session_of("a");
  world.database->answer_after(store_verb::join, 20ms);  // until then the others may take it for one that starts tasks
  manual_node producer{world, {.name = "producer"}, false};
  producer.open();
  for (int i = 0; i != 100; ++i) {
    advance(1ms);
    for (durable::partition_number p = 0; p != 4; ++p) ASSERT_EQ(world.database->owner_of(p), owner);
  }
}

// The others look four times in its lease once they know it.
TEST_F(cluster, node_with_a_short_lease_that_dies_soon_is_buried_in_time) {
  manual_world another;
  manual_node living{another, {.name = "a", .lease = 40s}}, dying{another, {.name = "b", .lease = 1s}};
  living.open();
  living.advance(21s);
  dying.open();
  living.advance(1s);
  ASSERT_EQ(partitions(dying), 2U);
  another.database->outage("b", true);
  living.advance(1s + 2 * 250ms);
  EXPECT_EQ(partitions(living), 4U);
}

TEST_F(cluster, shares_partitions_among_many_at_once) {
  manual_world another;
  another.database = std::make_shared<durable::memory_database>(std::uint16_t{64});
  std::deque<manual_node> nodes;
  nodes.emplace_back(another, durable::scheduler_options{.name = "first"}).open();
  nodes.front().advance(11s);
  for (int i = 0; i != 11; ++i)
    nodes
        .emplace_back(another,
                      durable::scheduler_options{.name = std::to_string(i), .seed = 2U + static_cast<unsigned>(i)})
        .open();
  nodes.front().advance(3s);  // until the next renewal of the first
  std::size_t sum = 0;
  for (const manual_node& n : nodes) {
    EXPECT_LE(partitions(n), 6U);
    sum += partitions(n);
  }
  EXPECT_EQ(sum, 64U);
}

TEST_F(cluster, producer_takes_no_partition) {
  manual_node producer{world, {.name = "producer"}, false};
  producer.open();
  a.open();
  advance(10s);
  EXPECT_EQ(partitions(producer), 0U);
  EXPECT_EQ(partitions(a), 4U);
  producer.schedule("t", 1s);
  advance(2s);
  EXPECT_EQ(a.started, strings{"t"});
}

TEST_F(cluster, looks_at_once_if_another_program_asks_for_it) {
  manual_node producer{world, {.name = "producer"}, false};
  producer.open();
  a.open();
  advance(10s);
  std::size_t asked_in_time = 0;
  for (int phase = 0; phase != 25; ++phase) {  // of the polls
    advance(10ms);
    const std::string id = std::to_string(phase);
    producer.schedule(id, 0s);
    const bool was_seen = !a.started.empty() && a.started.back() == id;
    world.database->tell_of(world.database->row(id)->partition);
    advance(1ms);
    EXPECT_EQ(a.started.back(), id);
    asked_in_time += !was_seen;
  }
  EXPECT_GT(asked_in_time, 20U);
}

TEST_F(cluster, partitions_are_never_without_owner_for_long) {
  // whenever the node that gains partitions has renewed
  for (auto phase = 0ms; phase < 2500ms; phase += 300ms) {
    manual_world another;
    manual_node first{another, {.name = "a"}}, second{another, {.name = "b"}};
    first.open();
    first.advance(phase);
    second.open();
    std::size_t without = 0;  // moments
    for (auto time = 0ms; time != 6s; time += 10ms) {
      first.advance(10ms);
      without += partitions(first) + partitions(second) != 4;
    }
    EXPECT_LE(without, 1U) << phase.count();
    ASSERT_EQ(partitions(first), 2U);
    ASSERT_EQ(partitions(second), 2U);
    EXPECT_EQ(first.scheduler.drain([]() noexcept {}), 0);
    first.advance(10ms);
    EXPECT_EQ(partitions(second), 4U) << phase.count();
  }
}

TEST_F(cluster, more_nodes_than_partitions_own_one_or_none) {
  std::vector<std::unique_ptr<manual_node>> nodes;
  for (int i = 0; i != 7; ++i) {
    nodes.push_back(std::make_unique<manual_node>(
        world, durable::scheduler_options{.name = "n" + std::to_string(i), .seed = 1U + static_cast<unsigned>(i)}));
    nodes.back()->open();
  }
  const auto owns_one = [this](const auto& n) { return partitions(*n) == 1; };
  const auto owners = [&] { return std::count_if(nodes.begin(), nodes.end(), owns_one); };
  nodes[0]->advance(10s);
  EXPECT_EQ(owners(), 4);
  for (int i = 0; i != 40; ++i) nodes[6]->schedule("t" + std::to_string(i), 1s);
  nodes[0]->advance(2s);
  EXPECT_EQ(world.database->size(durable::task_state::finished), 40U);
  // the owners die, one after the other, and those without a partition take over
  for (int i = 0; i != 3; ++i) {
    const auto owner = std::find_if(nodes.begin(), nodes.end(), owns_one);
    ASSERT_NE(owner, nodes.end());
    (*owner)->scheduler.close();
    nodes.erase(owner);
    nodes[0]->advance(20s);
    EXPECT_EQ(owners(), 4) << i;
  }
}

TEST_F(cluster, looks_seldom_although_others_ask_often) {
  a.open();
  advance(1s);
  const auto before = world.database->calls(store_verb::load);
  for (int i = 0; i != 1000; ++i) {
    for (durable::partition_number p = 0; p != 4; ++p) world.database->tell_of(p);
    advance(100us);
  }
  EXPECT_LE(world.database->calls(store_verb::load) - before, 10U + 1U) << "a look in 10 ms, and a poll";
  b.open();
  advance(10s);
  const auto then = world.database->calls(store_verb::load);
  for (durable::partition_number p = 0; p != 4; ++p) world.database->tell_of(p);
  world.database->tell_of(4);
  advance(1ms);
  EXPECT_EQ(world.database->calls(store_verb::load) - then, 2U) << "each owner looks once";
  advance(10ms);
  const auto later = world.database->calls(store_verb::load);
  world.database->tell_of(0);
  advance(1ms);
  EXPECT_EQ(world.database->calls(store_verb::load) - later, 1U) << "only the owner looks";
}

TEST_F(cluster, producer_whose_first_renewal_is_late_is_handed_nothing) {
  a.open();
  world.database->on_call([&](store_verb v, const durable::store_call&) {
    if (v == store_verb::renew && world.database->session_of("producer") != 0) world.database->outage("producer", true);
  });
  manual_node producer{world, {.name = "producer"}, false};
  producer.open();
  advance(5s);
  EXPECT_EQ(partitions(a), 4U);
  world.database->on_call(nullptr);
  world.database->outage("producer", false);
  advance(6s);
  EXPECT_EQ(partitions(producer), 0U);
  EXPECT_EQ(partitions(a), 4U);
}

TEST_F(cluster, starts_each_task_once_among_two_nodes) {
  a.open();
  b.open();
  advance(10s);
  for (int i = 0; i != 200; ++i) a.schedule("t" + std::to_string(i), 5s);
  advance(7s);
  EXPECT_EQ(a.started.size() + b.started.size(), 200U);
  EXPECT_GT(a.started.size(), 50U);
  EXPECT_GT(b.started.size(), 50U);
  EXPECT_EQ(world.database->size(durable::task_state::finished), 200U);
}

TEST_F(cluster, buries_a_dead_node_and_recovers_its_tasks) {
  a.open();
  b.open();
  advance(10s);
  std::vector<execution> kept;
  b.on_start = [&](execution run) { kept.push_back(std::move(run)); };
  a.on_start = [&](execution run) { run.done(); };
  for (int i = 0; i != 40; ++i) a.schedule("t" + std::to_string(i), 1s);
  advance(2s);
  ASSERT_FALSE(kept.empty());
  world.database->outage("b", true);
  // its lease and two polls
  advance(10s + 2 * 2500ms + 500ms);
  EXPECT_EQ(partitions(a), 4U);
  advance(3s);
  EXPECT_EQ(world.database->size(durable::task_state::finished), 40U);
  EXPECT_EQ(a.scheduler.stats().recovered, kept.size());
  world.database->outage("b", false);
  std::vector<durable::finish_result> late;
  for (execution& run : kept) run.done([&](durable::finish_result r) noexcept { late.push_back(r); });
  advance(15s);
  EXPECT_EQ(late, std::vector<durable::finish_result>(kept.size(), durable::finish_result::stale));
  EXPECT_EQ(partitions(b), 2U);
}

TEST_F(cluster, burial_follows_within_lease_and_two_polls) {
  // whenever the dead node has renewed, and whenever the other one does
  for (const auto phase : {0ms, 600ms, 1300ms, 1900ms, 2400ms}) {
    for (const auto death : {0ms, 700ms, 1600ms, 2300ms}) {
      manual_world another;
      manual_node living{another, {.name = "a"}}, dying{another, {.name = "b"}};
      dying.open();
      dying.advance(phase);
      living.open();
      living.advance(12500ms + death);
      ASSERT_EQ(partitions(living), 2U);
      another.database->outage("b", true);
      living.advance(10s + 2 * 250ms);
      EXPECT_EQ(partitions(living), 4U) << phase.count() << " ms, " << death.count() << " ms";
    }
  }
}

// The next look of the living node would be a quarter of its own lease away.
TEST_F(cluster, burial_that_fails_once_is_repeated_soon) {
  for (const store_verb failing : {store_verb::bury, store_verb::acquire}) {
    manual_world another;
    manual_node living{another, {.name = "a", .lease = 10min}}, dying{another, {.name = "b"}};
    dying.open();
    living.open();
    living.advance(5min);
    ASSERT_EQ(partitions(living), 2U);
    another.database->fail_next(failing, memory_fault::unavailable);
    another.database->outage("b", true);
    living.advance(10s + 2 * 250ms);
    EXPECT_EQ(partitions(living), 4U) << durable::to_string(failing);
  }
}

TEST_F(cluster, burial_that_always_fails_holds_up_no_other) {
  manual_node c{world, {.name = "c", .seed = 3}};
  a.open();
  b.open();
  c.open();
  advance(15s);
  const durable::session_number never = world.database->session_of("a");
  world.database->on_call([&](store_verb v, const durable::store_call& call) {
    if (v == store_verb::bury && static_cast<const durable::bury_call&>(call).session == never)
      world.database->fail_next(v, memory_fault::unavailable);
  });
  world.database->outage("a", true);
  world.database->outage("b", true);
  const durable::session_number dead = world.database->session_of("b");
  advance(10s + 2 * 250ms);
  for (const auto& node : world.database->nodes()) EXPECT_NE(node.session, dead);
  EXPECT_LE(world.database->calls(store_verb::bury), 100U);
}

// Two nodes that run tasks for long. Both must stay members, whatever silences them.
struct silenced_nodes {
  explicit silenced_nodes(std::chrono::nanoseconds phase) {
    a.on_start = b.on_start = [&](execution run) { kept.push_back(std::move(run)); };
    a.open();
    a.advance(phase);
    b.open();
    a.advance(12500ms);
    for (int i = 0; i != 20; ++i) a.schedule("t" + std::to_string(i), 100ms);
    a.advance(1s);
    EXPECT_EQ(kept.size(), 20U);
  }
  void expect_members() {
    EXPECT_EQ(kept.size(), 20U);
    EXPECT_EQ(a.scheduler.stats().recovered + b.scheduler.stats().recovered, 0U);
    EXPECT_EQ(a.scheduler.stats().partitions, 2U);
    EXPECT_EQ(b.scheduler.stats().partitions, 2U);
  }

  manual_world world;
  manual_node a{world, {.name = "a", .seed = 1}}, b{world, {.name = "b", .seed = 2}};
  std::vector<execution> kept;
};

// The node that the store answers first must not take the others for dead.
TEST_F(cluster, burial_spares_nodes_that_an_outage_has_silenced) {
  for (const auto phase : {0ms, 900ms, 1700ms, 2400ms}) {
    for (const auto length : {4s, 6s, 8s, 10s, 11s, 13s, 20s, 60s}) {
      SCOPED_TRACE(std::to_string(phase.count()) + " ms, " + std::to_string(length.count()) + " s");
      silenced_nodes nodes{phase};
      nodes.world.database->outage(true);
      nodes.a.advance(length);
      nodes.world.database->outage(false);
      nodes.a.advance(30s);
      nodes.expect_members();
    }
  }
}

// No renewal fails: the store answers them late, and those of one node later than those of the other.
TEST_F(cluster, burial_spares_nodes_whose_renewals_are_held_back) {
  for (const auto phase : {0ms, 900ms, 1700ms, 2400ms}) {
    for (const auto length : {4s, 6s, 8s, 10s, 12s, 14s, 60s}) {
      for (const char* const last : {"a", "b"}) {
        SCOPED_TRACE(std::to_string(phase.count()) + " ms, " + std::to_string(length.count()) + " s, " + last);
        silenced_nodes nodes{phase};
        durable::memory_database& database = *nodes.world.database;
        bool are_held = true;
        database.on_call([&](store_verb v, const durable::store_call& c) {
          if (v != store_verb::renew) return;
          const bool is_last = static_cast<const durable::renew_call&>(c).session == database.session_of(last);
          database.carry_out_after(v, !are_held ? 0s : is_last ? length + 3s : length);
        });
        nodes.a.advance(2600ms);
        are_held = false;
        nodes.a.advance(length + 30s);
        nodes.expect_members();
        database.on_call(nullptr);
      }
    }
  }
}

// One that connects last may have tried a host that was dead.
TEST_F(cluster, burial_spares_nodes_that_come_back_late_after_an_outage) {
  for (const auto late : {1s, 4s, 7s}) {
    silenced_nodes nodes{900ms};
    nodes.world.database->outage(true);
    nodes.world.database->outage("b", true);
    nodes.a.advance(20s);
    nodes.world.database->outage(false);
    nodes.a.advance(late);
    nodes.world.database->outage("b", false);
    nodes.a.advance(30s);
    nodes.expect_members();
  }
}

TEST_F(cluster, burial_follows_a_lease_after_an_outage) {
  for (const auto phase : {0ms, 600ms, 1300ms, 1900ms, 2400ms}) {
    manual_world another;
    manual_node living{another, {.name = "a"}}, dying{another, {.name = "b"}};
    dying.open();
    dying.advance(phase);
    living.open();
    living.advance(12500ms);
    ASSERT_EQ(partitions(living), 2U);
    another.database->outage(true);
    another.database->outage("b", true);
    living.advance(20s);
    another.database->outage(false);
    living.advance(2500ms + 10s + 2 * 250ms);
    EXPECT_EQ(partitions(living), 4U) << phase.count() << " ms";
  }
}

// Each renewal takes so long that half a lease lies between two looks.
TEST_F(cluster, burial_follows_also_in_a_slow_store) {
  for (const auto slow : {2s, 3s, 5s, 7s}) {
    manual_world another;
    manual_node living{another, {.name = "a"}}, dying{another, {.name = "b"}};
    dying.open();
    living.open();
    living.advance(12500ms);
    ASSERT_EQ(partitions(living), 2U);
    another.database->carry_out_after(store_verb::renew, slow);
    living.advance(30s);
    ASSERT_EQ(partitions(living), 2U) << slow.count() << " s";
    another.database->outage("b", true);
    living.advance(10s + 6 * (2500ms + slow));
    EXPECT_EQ(partitions(living), 4U) << slow.count() << " s";
  }
}

// Its first look finds the leases of all others run out.
TEST_F(cluster, burial_spares_nodes_that_come_back_after_a_new_one) {
  for (const auto late : {1s, 4s, 7s, 9s}) {
    for (const auto opened : {-5s, 0s, 1s}) {
      SCOPED_TRACE(std::to_string(late.count()) + " s, " + std::to_string(opened.count()) + " s");
      silenced_nodes nodes{900ms};
      manual_node fresh{nodes.world, {.name = "c"}, false};
      durable::memory_database& database = *nodes.world.database;
      for (const char* const name : {"a", "b"}) database.outage(name, true);
      nodes.a.advance(20s);
      if (opened < 0s) database.outage("c", true);
      if (opened <= 0s) fresh.open(0s);
      nodes.a.advance(-std::min(opened, 0s));
      database.outage("c", false);
      nodes.a.advance(std::max(opened, 0s));
      if (opened > 0s) fresh.open(0s);
      nodes.a.advance(late - std::max(opened, 0s));
      for (const char* const name : {"a", "b"}) database.outage(name, false);
      nodes.a.advance(30s);
      nodes.expect_members();
    }
  }
}

// The store answers late twice, one time after the other.
TEST_F(cluster, burial_spares_nodes_between_two_outages) {
  for (const auto late : {1s, 4s, 7s}) {
    silenced_nodes nodes{900ms};
    durable::memory_database& database = *nodes.world.database;
    database.on_call([&](store_verb v, const durable::store_call& c) {
      if (v != store_verb::renew) return;
      const bool is_b = static_cast<const durable::renew_call&>(c).session == database.session_of("b");
      database.carry_out_after(v, is_b ? 19s + late : 9500ms);
    });
    nodes.a.advance(19s);
    database.on_call([&](store_verb v, const durable::store_call&) { database.carry_out_after(v, 0s); });
    nodes.a.advance(45s);
    database.on_call(nullptr);
    nodes.expect_members();
  }
}

// A checkpoint of the store, for instance.
TEST_F(cluster, burial_follows_also_between_late_answers) {
  for (const auto every : {6s, 8s, 10s, 12s, 13s}) {
    for (const auto late : {2600ms, 3000ms, 4000ms}) {
      manual_world another;
      manual_node living{another, {.name = "a"}}, dying{another, {.name = "b"}};
      dying.open();
      living.open();
      living.advance(12500ms);
      another.database->outage("b", true);
      for (std::chrono::nanoseconds passed{}; passed < 60s; passed += 500ms) {
        another.database->carry_out_after(store_verb::renew, passed % every < 2500ms ? late : 0ms);
        living.advance(500ms);
      }
      EXPECT_EQ(partitions(living), 4U) << every.count() << " s, " << late.count() << " ms";
    }
  }
}

// The store is slower than the short lease allows, and quick enough for the node that lives.
TEST_F(cluster, burial_follows_the_shorter_lease_in_a_slow_store) {
  for (const auto slow : {100ms, 500ms, 760ms, 900ms, 1500ms, 3000ms}) {
    manual_world another;
    manual_node living{another, {.name = "a"}}, dying{another, {.name = "b", .lease = 1s}};
    dying.open();
    living.open();
    living.advance(12500ms);
    another.database->carry_out_after(store_verb::renew, slow);
    another.database->outage("b", true);
    living.advance(30s);
    EXPECT_EQ(partitions(living), 4U) << slow.count() << " ms";
  }
}

TEST_F(cluster, burial_spares_a_node_with_a_longer_lease) {
  manual_world another;
  manual_node patient{another, {.name = "patient", .lease = 10s}};
  manual_node hasty{another, {.name = "hasty", .lease = 1s}};
  std::vector<execution> kept;
  patient.on_start = hasty.on_start = [&](execution run) { kept.push_back(std::move(run)); };
  patient.open();
  const auto session = another.database->session_of("patient");
  for (int i = 0; i != 8; ++i) patient.schedule("t" + std::to_string(i), 100ms);
  patient.advance(200ms);
  ASSERT_EQ(kept.size(), 8U);
  hasty.open();
  hasty.advance(1min);
  EXPECT_EQ(another.database->session_of("patient"), session);
  EXPECT_EQ(hasty.scheduler.stats().recovered, 0U);
  EXPECT_EQ(kept.size(), 8U);
  EXPECT_EQ(patient.scheduler.stats().partitions, 2U);
  EXPECT_EQ(hasty.scheduler.stats().partitions, 2U);
}

TEST_F(cluster, burial_follows_the_lease_of_the_dead_node) {
  const std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds> leases[] = {{10s, 1s}, {1s, 10s}};
  for (const auto& [of_living, of_dead] : leases) {
    for (auto phase = 0ms; phase < 2500ms; phase += 130ms) {
      manual_world another;
      manual_node living{another, {.name = "living", .lease = of_living}};
      manual_node dead{another, {.name = "dead", .lease = of_dead}};
      dead.open();
      living.open();
      living.advance(12500ms + phase);
      ASSERT_EQ(living.scheduler.stats().partitions, 2U);
      another.database->outage("dead", true);
      living.advance(of_dead * 7 / 10);
      EXPECT_NE(another.database->session_of("dead"), 0U) << phase.count() << " ms: its lease has not run out";
      living.advance(of_dead * 3 / 10 + 2 * 250ms);
      EXPECT_EQ(living.scheduler.stats().partitions, 4U) << phase.count() << " ms";
    }
  }
}

// A memory_store stops the process if a call is made again before its answer.
TEST_F(cluster, slow_calls_are_made_one_at_a_time) {
  for (int i = 0; i != 2; ++i) {
    a.open();
    b.open();
    advance(10s);
    ASSERT_EQ(partitions(a), 2U);
    world.database->answer_after(store_verb::renew, 500ms);
    world.database->answer_after(store_verb::bury, 2600ms);  // a renewal is sent after 2500 ms
    world.database->answer_after(store_verb::recover, 6s);
    world.database->outage("b", true);
    advance(30s);
    EXPECT_EQ(partitions(a), 4U);
    a.scheduler.close();
    b.scheduler.close();
    world.database->outage("b", false);
    for (const auto verb : {store_verb::renew, store_verb::bury, store_verb::recover})
      world.database->answer_after(verb, 0s);
  }
}

TEST_F(cluster, node_that_cannot_renew_drops_what_it_has_begun) {
  a.open();
  a.schedule("t", 5s);
  world.database->answer_after(store_verb::renew, 1h);
  world.database->answer_after(store_verb::begin, 6s);
  advance(5500ms);
  EXPECT_EQ(a.state("t"), durable::task_state::running);
  advance(10s);
  EXPECT_EQ(a.started, strings{}) << "another node may have recovered it";
  world.database->answer_after(store_verb::renew, 0s);
  world.database->answer_after(store_verb::begin, 0s);
  world.database->answer_lost();
  a.scheduler.close();
  a.open();
  advance(5s);
  EXPECT_EQ(a.started, strings{"t"});
}

TEST_F(cluster, node_that_cannot_renew_stops_starting) {
  a.open();
  advance(5s);
  world.database->fail_next(store_verb::renew, memory_fault::unavailable, 1'000'000);
  for (int i = 0; i != 30; ++i) a.schedule("t" + std::to_string(i), std::chrono::seconds{i});
  advance(40s);
  EXPECT_LT(a.started.size(), 12U);
}

TEST_F(cluster, drained_node_hands_its_partitions_over) {
  a.open();
  b.open();
  advance(10s);
  std::optional<execution> kept;
  a.on_start = [&](execution run) { kept = std::move(run); };
  for (int i = 0; i != 20; ++i) a.schedule("t" + std::to_string(i), 100ms);
  advance(200ms);
  ASSERT_TRUE(kept);
  bool drained = false;
  EXPECT_EQ(a.scheduler.drain([&]() noexcept { drained = true; }), 0);
  EXPECT_EQ(a.scheduler.drain([]() noexcept {}), UV_EALREADY);
  advance(1s);
  EXPECT_FALSE(drained);
  kept->done();
  advance(100ms);
  EXPECT_TRUE(drained);
  EXPECT_EQ(partitions(a), 0U);
  EXPECT_EQ(a.schedule("later", 1s), durable::schedule_result::scheduled);
  advance(10s);
  EXPECT_EQ(partitions(b), 4U);
  EXPECT_EQ(b.started.back(), "later");
}

// Returns for how long the most neglected partition had no owner while `step` moved time by `steps` milliseconds.
template <class Step>
std::chrono::milliseconds longest_without_owner(const manual_world& world, int steps, Step step) {
  std::vector<int> without(world.database->partitions());
  int longest = 0;
  for (int i = 0; i != steps; ++i) {
    step();
    for (std::size_t p = 0; p != without.size(); ++p) {
      const bool is_owned = world.database->owner_of(static_cast<durable::partition_number>(p)) != 0;
      without[p] = is_owned ? 0 : without[p] + 1;
      longest = std::max(longest, without[p]);
    }
  }
  return std::chrono::milliseconds{longest};
}

// A renewal that was sent before says that the node starts tasks: the others would leave it its share.
TEST_F(cluster, node_that_drains_during_a_renewal_hands_over_at_once) {
  a.open();
  b.open();
  advance(10s);
  world.database->answer_after(store_verb::renew, 100ms);
  while (world.database->open_calls(store_verb::renew) == 0) advance(1ms);
  EXPECT_EQ(a.scheduler.drain([]() noexcept {}), 0);
  EXPECT_LE(longest_without_owner(world, 3000, [&] { advance(1ms); }), 500ms);
  EXPECT_EQ(partitions(b), 4U);
}

TEST_F(cluster, nodes_that_drain_shortly_after_each_other_hand_over_at_once) {
  for (const auto answer : {2ms, 10ms, 50ms}) {
    for (auto gap = 0ms; gap <= 6 * answer; gap += std::max(answer / 2, 1ms)) {
      manual_world another;
      another.database = std::make_shared<durable::memory_database>(std::uint16_t{12});
      manual_node one{another, {.name = "1", .seed = 1}}, two{another, {.name = "2", .seed = 2}};
      manual_node three{another, {.name = "3", .seed = 3}}, four{another, {.name = "4", .seed = 4}};
      for (manual_node* n : {&one, &two, &three, &four}) n->open();
      one.advance(15s);
      another.database->on_call([&](store_verb v, const durable::store_call&) {
        another.database->carry_out_after(v, answer / 2);
        another.database->answer_after(v, answer);
      });
      EXPECT_EQ(one.scheduler.drain([]() noexcept {}), 0);
      const auto first = longest_without_owner(another, static_cast<int>(gap / 1ms), [&] { one.advance(1ms); });
      EXPECT_EQ(two.scheduler.drain([]() noexcept {}), 0);
      const auto second = longest_without_owner(another, 1200, [&] { one.advance(1ms); });
      EXPECT_LE(std::max(first, second), 500ms) << answer.count() << " ms, " << gap.count() << " ms";
      EXPECT_EQ(partitions(three) + partitions(four), 12U);
    }
  }
}

TEST_F(cluster, release_that_fails_once_is_repeated_soon) {
  for (const bool drains : {false, true}) {
    for (const auto fault : {memory_fault::unavailable, memory_fault::unknown_not_done, memory_fault::unknown_done}) {
      manual_world another;
      manual_node giving{another, {.name = "a", .seed = 1}}, taking{another, {.name = "b", .seed = 2}};
      giving.open();
      giving.advance(11s);
      if (drains) {
        taking.open();
        giving.advance(11s);
      }
      another.database->fail_next(store_verb::release, fault, 2);
      bool drained = false;
      if (drains)
        EXPECT_EQ(giving.scheduler.drain([&]() noexcept { drained = true; }), 0);
      else
        taking.open();
      std::chrono::milliseconds without{}, longest{};
      for (int i = 0; i != 5000; ++i) {
        giving.advance(1ms);
        without = partitions(giving) + partitions(taking) == 4 ? 0ms : without + 1ms;
        longest = std::max(longest, without);
      }
      EXPECT_LE(longest, 500ms) << "drains " << drains << ", fault " << static_cast<int>(fault);
      EXPECT_EQ(partitions(taking), drains ? 4U : 2U);
      EXPECT_EQ(drained, drains);
    }
  }
}

// The others would hand it partitions, and it may be gone.
TEST_F(cluster, node_that_drains_before_its_first_share_is_handed_nothing) {
  for (const auto drains_after : {0ms, 50ms, 99ms, 100ms, 101ms, 150ms}) {
    for (const auto carried_out_after : {0ms, 50ms, 100ms}) {
      manual_world another;
      manual_node staying{another, {.name = "a"}}, leaving{another, {.name = "b"}};
      staying.open();
      staying.advance(11s);
      another.database->on_call([&](store_verb v, const durable::store_call&) {
        another.database->carry_out_after(v, carried_out_after);
        another.database->answer_after(v, 100ms);
      });
      leaving.open();
      staying.advance(100ms + drains_after);
      bool drained = false;
      EXPECT_EQ(leaving.scheduler.drain([&]() noexcept { drained = true; }), 0);
      for (int i = 0; i != 1000 && !drained; ++i) staying.advance(1ms);
      EXPECT_TRUE(drained);
      leaving.scheduler.close();
      const durable::session_number owner = another.database->session_of("a");
      staying.advance(500ms);
      for (int i = 0; i != 5000; ++i) {
        staying.advance(1ms);
        for (durable::partition_number p = 0; p != 4; ++p)
          ASSERT_EQ(another.database->owner_of(p), owner)
              << i << " ms, " << drains_after / 1ms << ", " << carried_out_after / 1ms;
      }
    }
  }
}

// Its share counts until the others know that it leaves.
TEST_F(cluster, node_that_owns_nothing_drains_while_another_hands_over) {
  for (auto gap = 0ms; gap <= 8ms; gap += 1ms) {
    manual_world another;
    manual_node one{another, {.name = "1", .seed = 1}}, two{another, {.name = "2", .seed = 2}},
        three{another, {.name = "3", .seed = 3}};
    another.database->on_call([&](store_verb v, const durable::store_call&) {
      another.database->carry_out_after(v, 1ms);
      another.database->answer_after(v, 2ms);
    });
    for (manual_node* n : {&one, &two, &three}) n->open(100ms);
    one.advance(1s);
    ASSERT_EQ(partitions(three), 0U);
    EXPECT_EQ(two.scheduler.drain([]() noexcept {}), 0);
    one.advance(gap);
    EXPECT_EQ(three.scheduler.drain([]() noexcept {}), 0);
    one.advance(200ms);
    EXPECT_EQ(partitions(one), 4U) << gap.count() << " ms";
  }
}

// Nodes that join and drain at any time, while a call takes up to 30 ms. A drained node owns nothing, and no partition is without an
// owner for long while a node is there to take it.
TEST_F(cluster, nodes_that_join_and_drain_at_any_time_hand_over_all) {
  std::chrono::milliseconds longest{};
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    manual_world another;
    another.database = std::make_shared<durable::memory_database>(static_cast<std::uint16_t>(1U << below(6)));
    const unsigned slowest = 1 + below(20), slowest_answer = 1 + below(10);
    another.database->on_call([&](store_verb v, const durable::store_call&) {
      const auto carried_out = std::chrono::milliseconds{below(slowest)};
      another.database->carry_out_after(v, carried_out);
      another.database->answer_after(v, carried_out + std::chrono::milliseconds{below(slowest_answer)});
    });
    struct member {
      member(manual_world& in, unsigned number) : node{in, {.name = std::to_string(number), .seed = number + 1}} {}
      manual_node node;
      bool drains = false, has_drained = false;
    };
    std::deque<member> members;
    const auto join = [&] { members.emplace_back(another, static_cast<unsigned>(members.size())).node.open(0ms); };
    const auto drain = [&](member& m) {
      m.drains = true;
      EXPECT_EQ(m.node.scheduler.drain([&m]() noexcept { m.has_drained = true; }), 0);
    };
    join();  // it stays
    std::chrono::milliseconds without{};
    for (int ms = 0; ms != 1500; ++ms) {
      another.manual.advance(1ms);
      if (ms < 1000 && members.size() < 7 && below(40) == 0) {
        join();
        if (below(8) == 0) drain(members.back());
      }
      if (ms < 1000 && members.size() > 1 && below(60) == 0) {
        member& m = members[1 + below(static_cast<unsigned>(members.size()) - 1)];
        if (!m.drains && m.node.ready) drain(m);
      }
      std::size_t owned = 0;
      for (durable::partition_number p = 0; p != another.database->partitions(); ++p) {
        const durable::session_number owner = another.database->owner_of(p);
        if (owner == 0) continue;
        ++owned;
        for (std::size_t i = 0; i != members.size(); ++i) {
          if (!members[i].has_drained || !members[i].node.ready) continue;
          ASSERT_NE(owner, another.database->session_of(std::to_string(i))) << ms;
        }
      }
      const bool is_whole = owned == another.database->partitions();
      without = is_whole || !members.front().node.ready ? 0ms : without + 1ms;
      longest = std::max(longest, without);
    }
    for (const member& m : members) EXPECT_EQ(m.drains, m.has_drained);
  }
  EXPECT_LE(longest, 400ms);
}

TEST_F(cluster, node_drains_although_it_never_joined) {
  world.database->outage(true);
  bool drained = false;
  EXPECT_EQ(a.scheduler.open([](int) noexcept {}), 0);
  EXPECT_EQ(a.scheduler.drain([&]() noexcept { drained = true; }), 0);
  advance(1s);
  EXPECT_TRUE(drained);
}

TEST_F(cluster, node_drains_at_once_during_an_acquire_that_finds_nothing) {
  manual_world another;
  another.database = std::make_shared<durable::memory_database>(std::uint16_t{1});
  manual_node x{another, {.name = "x", .seed = 1}}, y{another, {.name = "y", .seed = 2}},
      z{another, {.name = "z", .seed = 3}};
  for (manual_node* n : {&x, &y, &z}) {
    n->open();
    n->advance(11s);
  }
  ASSERT_EQ(partitions(x), 1U);
  std::vector<durable::session_number> acquiring;
  another.database->on_call([&](store_verb v, const durable::store_call& call) {
    if (v != store_verb::acquire) return;
    acquiring.push_back(static_cast<const durable::acquire_call&>(call).session);
    another.database->carry_out_after(v, 50ms);
    another.database->answer_after(v, 100ms);
  });
  another.database->outage("x", true);
  for (int i = 0; i != 20000 && acquiring.size() != 2; ++i) y.advance(1ms);
  ASSERT_EQ(acquiring.size(), 2U);
  manual_node& second = acquiring[1] == another.database->session_of("z") ? z : y;
  bool drained = false;
  EXPECT_EQ(second.scheduler.drain([&]() noexcept { drained = true; }), 0);
  y.advance(500ms);
  EXPECT_TRUE(drained);
}

// The store would let it, as long as it has not carried the release out.
TEST_F(cluster, node_starts_nothing_of_partitions_that_it_gives_up) {
  a.open();
  advance(1s);
  world.database->carry_out_after(store_verb::release, 5s);
  std::vector<durable::partition_number> given_up;
  std::vector<std::string> begun;
  world.database->on_call([&](store_verb v, const durable::store_call& c) {
    if (v == store_verb::release) given_up = static_cast<const durable::release_call&>(c).partitions;
    if (v != store_verb::begin) return;
    for (const auto& item : static_cast<const durable::begin_call&>(c).items) begun.push_back(std::string{item.id});
  });
  b.open();
  a.scheduler.pause();
  while (given_up.empty()) advance(10ms);
  for (int i = 0; i != 40; ++i) a.schedule(std::to_string(i), 0s);
  a.scheduler.resume();
  advance(1s);
  ASSERT_EQ(given_up.size(), 2U);
  EXPECT_GT(begun.size(), 5U);
  for (const std::string& id : begun)
    EXPECT_EQ(std::count(given_up.begin(), given_up.end(), world.database->partition_of(id)), 0) << id;
  advance(20s);
  EXPECT_EQ(a.started.size() + b.started.size(), 40U);
}

TEST_F(cluster, recovers_only_with_each_tenth_poll_while_no_node_goes) {
  a.open();
  b.open();
  advance(10s);
  const auto before = world.database->calls(store_verb::recover);
  advance(100s);
  const auto calls = world.database->calls(store_verb::recover) - before;
  EXPECT_GE(calls, 2U * 39U);
  EXPECT_LE(calls, 2U * 40U);
}

// A thread of the store may be reading the call.
TEST_F(cluster, rejoin_leaves_an_open_release_as_it_was) {
  a.open();
  const durable::release_call* sent = nullptr;
  world.database->on_call([&](store_verb v, const durable::store_call& c) {
    if (v == store_verb::release) sent = &static_cast<const durable::release_call&>(c);
  });
  world.database->answer_after(store_verb::release, 10s);
  bool drained = false;
  EXPECT_EQ(a.scheduler.drain([&]() noexcept { drained = true; }), 0);
  advance(10ms);
  ASSERT_NE(sent, nullptr);
  const auto former = world.database->session_of("a");
  ASSERT_TRUE(world.database->bury(former));
  advance(5s);
  ASSERT_NE(world.database->session_of("a"), 0U);
  EXPECT_EQ(sent->session, former);
  EXPECT_EQ(sent->partitions.size(), 4U);
  EXPECT_FALSE(drained);
  advance(10s);
  EXPECT_TRUE(drained);
}

TEST_F(cluster, node_that_has_its_share_acquires_nothing) {
  world.database->on_call([](store_verb v, const durable::store_call& c) {
    if (v != store_verb::acquire) return;
    EXPECT_NE(static_cast<const durable::acquire_call&>(c).limit, 0U);
  });
  manual_node c{world, {.name = "c", .seed = 3}};
  for (manual_node* node : {&a, &b, &c}) node->open();
  for (const char* name : {"a", "b", "c", "a", "b", "c", "a", "b", "c"}) {
    advance(7s);
    EXPECT_EQ(partitions(a) + partitions(b) + partitions(c), 4U);
    EXPECT_TRUE(world.database->bury(world.database->session_of(name)));  // its partitions are free, and it joins again
  }
}

// It may own them again by then.
TEST_F(cluster, failed_release_of_a_former_session_is_not_repeated) {
  a.open();
  world.database->answer_after(store_verb::release, 10s);
  world.database->fail_next(store_verb::release, memory_fault::unavailable);
  b.open();
  advance(3s);
  ASSERT_EQ(world.database->open_calls(store_verb::release), 1U);
  ASSERT_TRUE(world.database->bury(world.database->session_of("a")));
  std::vector<durable::session_number> releasing;
  world.database->on_call([&](store_verb v, const durable::store_call& call) {
    if (v == store_verb::release) releasing.push_back(static_cast<const durable::release_call&>(call).session);
  });
  advance(30s);
  EXPECT_EQ(world.database->open_calls(store_verb::release), 0U);
  for (const durable::session_number s : releasing) EXPECT_EQ(s, world.database->session_of("b"));
  EXPECT_EQ(partitions(a), 2U);
  EXPECT_EQ(partitions(b), 2U);
}

TEST_F(cluster, node_without_a_session_asks_only_for_one) {
  a.open();
  ASSERT_TRUE(world.database->bury(world.database->session_of("a")));
  world.database->fail_next(store_verb::join, memory_fault::unavailable, 1000);
  advance(10s);  // its next renewal has found out
  const auto others = [&] {
    std::size_t sum = 0;
    for (const auto verb :
         {store_verb::renew, store_verb::acquire, store_verb::load, store_verb::recover, store_verb::purge})
      sum += world.database->calls(verb);
    return sum;
  };
  const std::size_t before = others();
  const std::size_t joins = world.database->calls(store_verb::join);
  advance(10s);
  EXPECT_EQ(others(), before);
  EXPECT_GT(world.database->calls(store_verb::join), joins);
}

TEST_F(cluster, node_that_drains_during_an_acquire_hands_over_what_it_gains_at_once) {
  a.open();
  b.open();
  advance(10s);
  world.database->answer_after(store_verb::acquire, 100ms);
  EXPECT_EQ(b.scheduler.drain([]() noexcept {}), 0);
  for (int i = 0; i != 5000 && world.database->open_calls(store_verb::acquire) == 0; ++i) advance(1ms);
  ASSERT_EQ(world.database->open_calls(store_verb::acquire), 1U);
  world.database->answer_after(store_verb::release, 200ms);
  bool drained = false;
  EXPECT_EQ(a.scheduler.drain([&]() noexcept { drained = true; }), 0);
  advance(250ms);
  EXPECT_FALSE(drained) << "the release of all waits for the acquire";
  EXPECT_EQ(world.database->open_calls(store_verb::release), 1U);
  advance(60ms);
  EXPECT_TRUE(drained);
  EXPECT_EQ(partitions(a), 0U);
  for (durable::partition_number p = 0; p != 4; ++p) EXPECT_EQ(world.database->owner_of(p), 0U);
}

TEST_F(cluster, starts_in_doubt_count_among_those_that_run) {
  manual_node small{world, {.name = "small", .max_running = 10}};
  small.open();
  small.scheduler.pause();
  for (int i = 0; i != 100; ++i) small.schedule(std::to_string(i), 0s);
  world.database->fail_next(store_verb::begin, memory_fault::unknown_done, 20);
  world.database->fail_next(store_verb::recover, memory_fault::unavailable, 50);
  small.scheduler.resume();
  for (int i = 0; i != 50; ++i) {
    small.advance(100ms);
    EXPECT_LE(world.database->size(durable::task_state::running), 10U);
  }
  small.advance(60s);
  EXPECT_EQ(small.started.size(), 100U);
}

TEST_F(cluster, drain_waits_until_doubted_starts_are_given_back) {
  a.open();
  a.schedule("t", 1s);
  world.database->fail_next(store_verb::begin, memory_fault::unknown_done);
  advance(900ms);
  for (int i = 0; i != 200 && a.state("t") != durable::task_state::running; ++i) advance(1ms);
  ASSERT_EQ(a.state("t"), durable::task_state::running);
  bool drained = false;
  EXPECT_EQ(a.scheduler.drain([&]() noexcept {
    drained = true;
    a.scheduler.close();
  }),
            0);
  advance(1s);
  EXPECT_TRUE(drained);
  EXPECT_EQ(a.state("t"), durable::task_state::pending);
  EXPECT_EQ(world.database->info("t")->attempts, 0U);
}

TEST_F(cluster, task_that_kills_its_node_dies_alone) {
  std::vector<std::unique_ptr<manual_node>> nodes;
  std::vector<execution> kept;
  const auto next_node = [&] {
    nodes.push_back(
        std::make_unique<manual_node>(world, durable::scheduler_options{.name = "n" + std::to_string(nodes.size())}));
    nodes.back()->on_start = [&](execution run) {
      if (run.id() == "t3")
        world.database->crash(false);
      else if (run.attempt() < 3)
        kept.push_back(std::move(run));
      else
        run.done();
    };
    nodes.back()->open();
  };
  next_node();
  for (int i = 0; i != 5; ++i) nodes.back()->schedule("t" + std::to_string(i), 100ms);
  for (int restart = 0; restart != 5; ++restart) {
    advance(20s);
    nodes.back()->scheduler.close();
    kept.clear();
    next_node();
  }
  nodes.back()->on_start = nullptr;
  advance(30s);
  EXPECT_EQ(world.database->size(durable::task_state::dead), 1U);
  EXPECT_EQ(nodes.back()->state("t3"), durable::task_state::dead);
  EXPECT_EQ(world.database->size(durable::task_state::finished), 4U);
}

// Loses two nodes while `tasks` run. The last node has `most` in memory.
void tasks_that_run_one_by_one_hold_up_no_others(std::size_t tasks, std::size_t most) {
  manual_world world;
  std::vector<std::unique_ptr<manual_node>> nodes;
  std::vector<execution> kept;
  std::size_t others = 0;
  const auto next_node = [&](std::size_t loaded) {
    durable::scheduler_options options{.name = "n" + std::to_string(nodes.size()), .max_running = tasks + 100};
    options.max_loaded = loaded;
    nodes.push_back(std::make_unique<manual_node>(world, options));
    nodes.back()->on_start = [&](execution run) {
      if (run.id().starts_with("other")) {
        ++others;
        run.done();
      } else {
        kept.push_back(std::move(run));
      }
    };
    nodes.back()->open();
  };
  next_node(tasks);
  for (std::size_t i = 0; i != tasks; ++i) {
    durable::task task{std::to_string(i), world.database->now(), "", {}};
    ASSERT_EQ(nodes.back()->scheduler.schedule(std::move(task), [](durable::schedule_result) noexcept {}), 0);
  }
  for (const std::size_t loaded : {tasks, most}) {
    nodes.back()->advance(20s);
    EXPECT_EQ(kept.size(), tasks);
    world.database->crash(false);
    nodes.back()->scheduler.close();
    kept.clear();
    next_node(loaded);
  }
  manual_node& last = *nodes.back();
  last.advance(20s);
  EXPECT_EQ(kept.size(), 1U);
  for (int i = 0; i != 50; ++i) last.schedule("other " + std::to_string(i), 0s);
  last.advance(300ms);
  EXPECT_EQ(others, 50U) << tasks << ", " << most;
  EXPECT_EQ(kept.size(), 1U);
  EXPECT_GT(last.scheduler.stats().oldest_overdue, 40s);
  const std::size_t loads = world.database->calls(store_verb::load);
  last.advance(1s);
  EXPECT_LE(world.database->calls(store_verb::load) - loads, 30U) << tasks << ", " << most;
  last.on_start = nullptr;
  kept.front().done();
  last.advance(10s + 300ms * tasks);
  EXPECT_EQ(last.started.size(), tasks + 50) << tasks << ", " << most;
  EXPECT_EQ(world.database->size(durable::task_state::pending), 0U) << tasks << ", " << most;
}

TEST_F(cluster, tasks_that_run_one_by_one_hold_up_no_others) {
  tasks_that_run_one_by_one_hold_up_no_others(4100, 100'000);  // more than a begin looks at
  for (const std::size_t most : {2U, 3U, 8U, 50U})
    for (const std::size_t tasks : {most / 2 + 1, most / 2 + 2, most, most + 1, 3 * most})
      tasks_that_run_one_by_one_hold_up_no_others(tasks, most);
}

TEST_F(cluster, same_name_of_a_living_node_is_refused) {
  a.open();
  manual_node twin{world, {.name = "a"}};
  EXPECT_EQ(twin.open(1s), UV_EEXIST);
}

TEST_F(cluster, buried_node_joins_again_also_after_an_error) {
  a.open();
  world.database->fail_join(UV_EEXIST);
  ASSERT_TRUE(world.database->bury(world.database->session_of("a")));
  advance(10s);
  EXPECT_EQ(partitions(a), 0U);
  world.database->fail_join(0);
  advance(5s);
  EXPECT_EQ(partitions(a), 4U);
  a.schedule("t", 1s);
  advance(2s);
  EXPECT_EQ(a.started, strings{"t"});
}

// The node has joined again meanwhile. The next poll is far away.
TEST_F(cluster, answer_to_a_begin_of_a_lost_session_lets_due_tasks_begin) {
  manual_node slow{world, {.name = "slow", .lease = 20s, .poll = 10s, .window = 21s, .seed = 3}};
  slow.open(1s);
  world.database->answer_after(store_verb::begin, 6333ms);
  slow.schedule("first", 0s);
  slow.advance(2ms);
  ASSERT_TRUE(world.database->bury(world.database->session_of("slow")));
  world.database->answer_after(store_verb::begin, 0ms);
  slow.advance(5100ms);
  ASSERT_NE(world.database->session_of("slow"), 0U);
  slow.schedule("second", 50ms);
  ASSERT_EQ(world.database->open_calls(store_verb::begin), 1U);
  while (world.database->open_calls(store_verb::begin) != 0) slow.advance(1ms);
  slow.advance(5ms);
  EXPECT_EQ(std::count(slow.started.begin(), slow.started.end(), "second"), 1);
}

TEST_F(cluster, lost_answer_of_begin_is_given_back) {
  a.open();
  a.schedule("t", 1s);
  world.database->fail_next(store_verb::begin, memory_fault::unknown_done);
  advance(3s);
  EXPECT_EQ(a.started, strings{"t"});
  EXPECT_EQ(world.database->info("t")->attempts, 1U);
  EXPECT_EQ(world.database->info("t")->lost, 0U);
}

TEST_F(cluster, repeated_recovery_gives_back_no_running_task) {
  a.open();
  std::vector<execution> kept;
  a.on_start = [&](execution run) { kept.push_back(std::move(run)); };
  a.schedule("t", 1s);
  world.database->fail_next(store_verb::begin, memory_fault::unknown_done);
  world.database->fail_next(store_verb::recover, memory_fault::unknown_done);
  advance(10s);
  EXPECT_EQ(kept.size(), 1U);
  EXPECT_EQ(a.state("t"), durable::task_state::running);
  EXPECT_EQ(world.database->info("t")->attempts, 1U);
}

// A look that was carried out before the begin is answered after it: its row is begun again, with an old revision.
TEST_F(cluster, lost_answer_to_an_old_row_disturbs_no_start) {
  a.open();
  std::vector<execution> kept;
  a.on_start = [&](execution run) { kept.push_back(std::move(run)); };
  world.database->answer_after(store_verb::load, 240ms);
  a.schedule("t", 1100ms);
  for (int i = 0; i != 2000 && kept.empty(); ++i) advance(1ms);
  ASSERT_EQ(kept.size(), 1U);
  ASSERT_EQ(world.database->open_calls(store_verb::load), 1U);
  world.database->fail_next(store_verb::begin, memory_fault::unknown_not_done);
  advance(2s);
  EXPECT_EQ(kept.size(), 1U);
  std::optional<durable::finish_result> result;
  kept[0].done([&](durable::finish_result r) noexcept { result = r; });
  advance(10ms);
  EXPECT_EQ(result, durable::finish_result::finished);
}

TEST_F(cluster, finish_is_repeated_until_the_store_answers) {
  a.open();
  std::vector<durable::finish_result> results;
  a.on_start = [&](execution run) { run.done([&](durable::finish_result r) noexcept { results.push_back(r); }); };
  a.schedule("t", 1s);
  world.database->fail_next(store_verb::finish, memory_fault::unavailable, 3);
  world.database->fail_next(store_verb::finish, memory_fault::unknown_done, 1);
  advance(5s);
  EXPECT_EQ(results, std::vector{durable::finish_result::finished});
  EXPECT_EQ(a.started.size(), 1U);
}

TEST_F(cluster, clock_set_back_delays_and_starts_nothing_early) {
  a.open();
  a.schedule("t", 10s);
  const auto due = world.database->info("t")->what.due;
  advance(9s);
  world.database->shift_clock(-1h);
  a.on_start = [&](execution run) {
    EXPECT_GE(world.database->now(), due);
    run.done();
  };
  advance(5s);
  EXPECT_TRUE(a.started.empty());
  advance(1h);
  EXPECT_EQ(a.started.size(), 1U);
}

TEST_F(cluster, clock_set_forward_starts_what_is_due) {
  a.open();
  a.schedule("t", 1h);
  advance(1s);
  world.database->shift_clock(1h);
  advance(1s);
  EXPECT_EQ(a.started.size(), 1U);
}

TEST_F(cluster, clock_set_back_and_forward_delays_nothing_with_full_memory) {
  manual_node small{world, {.name = "small", .max_loaded = 1, .seed = 3}};
  small.open();
  small.schedule("t", 1s);
  small.advance(500ms);
  world.database->shift_clock(-1h);
  small.advance(5s);
  EXPECT_TRUE(small.started.empty());
  world.database->shift_clock(1h);
  small.advance(5s);
  EXPECT_EQ(small.started, strings{"t"});
}

TEST_F(cluster, paused_node_starts_nothing) {
  a.open();
  a.scheduler.pause();
  a.schedule("t", 1s);
  advance(5s);
  EXPECT_TRUE(a.started.empty());
  EXPECT_EQ(partitions(a), 4U);
  EXPECT_GT(a.scheduler.stats().oldest_overdue, 3s);
  a.scheduler.resume();
  advance(10ms);
  EXPECT_EQ(a.started.size(), 1U);
}

}  // namespace
