// Nodes: sessions, leases, partitions, and the recovery of what a lost node ran.
#include "conformance.hpp"

#include <set>

using namespace conformance;
using durable::partition_number;
using durable::revision;
using durable::session_number;
using durable::task_state;

namespace {

using partitions = std::vector<partition_number>;

class store_join : public store_test {};
TICKWHEEL_CONFORMANCE(store_join);

TEST_P(store_join, answers_session_and_partitions) {
  EXPECT_NE(own.session(), 0U);
  EXPECT_GE(own.partitions(), 1U);
}

TEST_P(store_join, sessions_are_never_given_again) {
  std::set<session_number> given{own.session()};
  for (int joins = 0; joins < 5; ++joins) {
    own.lose();
    EXPECT_TRUE(given.insert(own.session()).second);
  }
}

TEST_P(store_join, number_of_partitions_stays) {
  const auto before = own.partitions();
  own.lose();
  EXPECT_EQ(own.partitions(), before);
}

TEST_P(store_join, again_while_joined_gives_a_new_session) {
  const session_number former = own.session();
  const revision token = make_running();
  asked<durable::join_call> c;
  c.name = "a";
  c.lease = c.keep_finished = 1h;
  own.run(c);
  ASSERT_EQ(c.error, 0);
  EXPECT_NE(c.session, former);
  asked<durable::renew_call> renew;
  own.renew(renew);  // as the former one
  EXPECT_TRUE(renew.is_buried);
  EXPECT_EQ(state_of(), task_state::running);
  EXPECT_EQ(own.done("t", token), durable::finish_result::finished);
}

class store_renew : public store_test {};
TICKWHEEL_CONFORMANCE(store_renew);

TEST_P(store_renew, answers_this_node) {
  asked<durable::renew_call> c;
  own.renew(c);
  EXPECT_FALSE(c.is_buried);
  ASSERT_EQ(c.nodes.size(), 1U);
  EXPECT_EQ(c.nodes[0].session, own.session());
  EXPECT_EQ(c.nodes[0].partitions, own.partitions());
  EXPECT_EQ(c.nodes[0].expires, c.now + 1h);
  EXPECT_EQ(c.nodes[0].lease, 1h);
  EXPECT_TRUE(c.nodes[0].is_starting);
  auto owned = c.partitions;
  std::sort(owned.begin(), owned.end());
  EXPECT_EQ(owned, own.owned());
  EXPECT_EQ(c.free_partitions, 0U);
}

TEST_P(store_renew, changes_the_beat) {
  const auto first = own.member(own.session()), second = own.member(own.session());
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->beat, second->beat);
}

TEST_P(store_renew, answers_whether_a_node_starts_tasks) {
  asked<durable::renew_call> c;
  c.is_starting = false;
  own.renew(c);
  ASSERT_EQ(c.nodes.size(), 1U);
  EXPECT_FALSE(c.nodes[0].is_starting);
}

TEST_P(store_renew, counts_dead_tasks) {
  const auto dead = [&] {
    asked<durable::renew_call> c;
    own.renew(c);
    return c.dead;
  };
  EXPECT_EQ(dead(), 0U);
  make_dead("a");
  make_dead("b");
  make_cancelled("c");
  EXPECT_EQ(dead(), 2U);
  own.revive("a");
  EXPECT_EQ(dead(), 1U);
  own.cancel("b");
  EXPECT_EQ(dead(), 0U);
}

TEST_P(store_renew, stops_counting_dead_tasks_at_a_bound) {
  std::size_t made = 0;
  const auto make_more_dead = [&](std::size_t count) {
    asked<durable::put_call> put;
    for (std::size_t i = 0; i != count; ++i) put.items.push_back({due_now(std::to_string(made++))});
    own.run(put);
    asked<durable::begin_call> begin;
    begin.session = own.session();
    for (std::size_t i = 0; i != count; ++i) begin.items.push_back({put.items[i].what.id, put.results[i].rev});
    own.run(begin);
    ASSERT_EQ(begin.starts.size(), count);
    asked<durable::finish_call> finish;
    for (const auto& s : begin.starts)
      finish.items.push_back({.id = begin.items[s.index].id, .token = s.token, .how = durable::outcome::dead});
    own.run(finish);
  };
  const auto counted = [&] {
    asked<durable::renew_call> c;
    own.renew(c);
    return c.dead;
  };
  constexpr std::size_t most = durable::most_dead_counted, batch = 1000;
  static_assert(most % batch == 0);
  while (made != most - batch) make_more_dead(batch);
  make_more_dead(batch - 1);
  EXPECT_EQ(counted(), most - 1);
  make_more_dead(1);
  EXPECT_EQ(counted(), most);
  make_more_dead(1);
  EXPECT_EQ(counted(), most);
}

TEST_P(store_renew, counts_free_partitions) {
  own.release({own.owned().front()});
  asked<durable::renew_call> c;
  own.renew(c);
  EXPECT_EQ(c.free_partitions, 1U);
  EXPECT_EQ(c.partitions.size(), own.partitions() - 1U);
  ASSERT_EQ(c.nodes.size(), 1U);
  EXPECT_EQ(c.nodes[0].partitions, own.partitions() - 1U);
}

TEST_P(store_renew, of_a_former_session_answers_buried) {
  const session_number former = own.session();
  own.lose();
  asked<durable::renew_call> c;
  own.renew(c, former);
  EXPECT_TRUE(c.is_buried);
  EXPECT_TRUE(c.nodes.empty());
  EXPECT_TRUE(c.partitions.empty());
  EXPECT_FALSE(own.member(former));
}

class store_partitions : public store_test {};
TICKWHEEL_CONFORMANCE(store_partitions);

TEST_P(store_partitions, are_free_after_a_rejoin) {
  own.close();
  ASSERT_EQ(own.join(), 0);
  asked<durable::renew_call> c;
  own.renew(c);
  EXPECT_EQ(c.free_partitions, own.partitions());
  EXPECT_TRUE(c.partitions.empty());
}

TEST_P(store_partitions, acquire_takes_at_most_its_limit) {
  own.release(own.owned());
  EXPECT_EQ(own.acquire(0).size(), 0U);
  EXPECT_EQ(own.acquire(1).size(), 1U);
  EXPECT_EQ(own.acquire().size(), own.partitions() - 1U);
  EXPECT_EQ(own.acquire().size(), 0U) << "owned ones are not free";
}

TEST_P(store_partitions, acquire_of_a_former_session_takes_none) {
  const session_number former = own.session();
  own.close();
  ASSERT_EQ(own.join(), 0);
  asked<durable::acquire_call> c;
  c.session = former;
  c.limit = 1000;
  own.run(c);
  EXPECT_TRUE(c.partitions.empty());
  EXPECT_EQ(own.acquire().size(), own.partitions());
}

TEST_P(store_partitions, release_of_a_former_session_frees_none) {
  const session_number former = own.session();
  own.lose();
  asked<durable::release_call> c;
  c.session = former;
  c.partitions = own.owned();
  own.run(c);
  EXPECT_TRUE(own.acquire().empty());
}

TEST_P(store_partitions, release_to_no_member_frees_them) {
  own.release(own.owned(), own.session() + 1'000'000'000'000);
  EXPECT_EQ(own.acquire().size(), own.partitions());
}

class store_recover : public store_test {};
TICKWHEEL_CONFORMANCE(store_recover);

TEST_P(store_recover, leaves_partitions_of_nobody) {
  make_running();
  own.close();
  ASSERT_EQ(own.join(), 0);
  EXPECT_EQ(own.recover(), node::recovery{});
  EXPECT_EQ(state_of(), task_state::running);
  own.acquire();
  EXPECT_EQ(own.recover(), (node::recovery{.recovered = 1, .died = 0}));
}

TEST_P(store_recover, of_a_former_session_does_nothing) {
  const session_number former = own.session();
  make_running();
  own.lose();
  asked<durable::recover_call> c;
  c.session = former;
  c.max_attempts = 8;
  c.doubted = {"t"};
  own.run(c);
  EXPECT_EQ(c.recovered + c.died, 0U);
  EXPECT_EQ(state_of(), task_state::running);
}

TEST_P(store_recover, counts_those_of_a_batch) {
  for (int i = 0; i < 30; ++i) make_running("t" + std::to_string(i));
  for (int i = 0; i < 10; ++i) own.cancel("t" + std::to_string(i));
  own.put({.id = "tired", .due = past});
  for (int attempt = 0; attempt < 4; ++attempt)
    EXPECT_EQ(own.again("tired", own.begin("tired").token, past), durable::finish_result::finished);
  own.begin("tired");
  own.lose();
  EXPECT_EQ(own.recover(5), (node::recovery{.recovered = 20, .died = 1}));
  EXPECT_EQ(own.recover(5), node::recovery{});
  EXPECT_EQ(own.list(task_state::pending).size(), 20U);
  EXPECT_EQ(own.list(task_state::cancelled).size(), 10U);
  EXPECT_EQ(own.list(task_state::dead), std::vector<std::string>{"tired"});
}

TEST_P(store_recover, doubts_only_the_ids_it_names) {
  const revision kept = make_running("kept");
  make_running("doubted");
  own.recover(8, {"doubted"});
  EXPECT_EQ(state_of("kept"), task_state::running);
  EXPECT_EQ(state_of("doubted"), task_state::pending);
  EXPECT_EQ(own.done("kept", kept), durable::finish_result::finished);
  EXPECT_EQ(own.begin("doubted").attempt, 1U);
}

TEST_P(store_recover, doubted_of_a_lost_session_counts_as_lost) {
  make_running();
  own.lose();
  EXPECT_EQ(own.recover(8, {"t"}), (node::recovery{.recovered = 1, .died = 0}));
  EXPECT_EQ(own.get("t")->lost, 1U);
  EXPECT_EQ(own.get("t")->attempts, 1U);
}

TEST_P(store_recover, gives_doubted_back_without_their_partition) {
  make_running();
  own.release(own.owned());
  EXPECT_EQ(own.recover(8, {"t"}), node::recovery{});
  EXPECT_EQ(state_of(), task_state::pending);
  EXPECT_EQ(own.get("t")->attempts, 0U);
}

TEST_P(store_recover, leaves_doubted_of_a_lost_session_elsewhere) {
  make_orphan();
  own.release(own.owned());
  EXPECT_EQ(own.recover(8, {"t"}), node::recovery{});
  EXPECT_EQ(state_of(), task_state::running);
}

/// Two nodes, `own` ("a") and `other` ("b"). `own` has all partitions.
class store_cluster : public store_test {
 protected:
  void SetUp() override {
    if (!fixture->can_share()) GTEST_SKIP() << "one node at a time";
    store_test::SetUp();
    other.start(1h, "b");
  }
  node other{*fixture};
};
TICKWHEEL_CONFORMANCE(store_cluster);

TEST_P(store_cluster, node_takes_no_partition_of_another) { EXPECT_TRUE(other.owned().empty()); }

TEST_P(store_cluster, name_of_a_living_node_is_rejected) {
  node third{*fixture};
  EXPECT_EQ(third.join(1h, "b"), UV_EEXIST);
  EXPECT_FALSE(third.store().problem().empty());
  EXPECT_TRUE(own.member(other.session())) << "the living node was harmed";
}

TEST_P(store_cluster, name_of_a_buried_node_may_join) {
  own.bury(other.session());
  node third{*fixture};
  EXPECT_EQ(third.join(1h, "b"), 0);
}

TEST_P(store_cluster, name_of_an_expired_node_may_join) {
  node third{*fixture}, fourth{*fixture};
  ASSERT_EQ(third.join(1h, "c", 5ms), 0);
  fixture->advance(6ms);
  EXPECT_EQ(fourth.join(1h, "c"), 0);
  EXPECT_FALSE(own.member(third.session()));
}

TEST_P(store_cluster, renew_answers_all_nodes_by_session) {
  asked<durable::renew_call> c;
  own.renew(c);
  ASSERT_EQ(c.nodes.size(), 2U);
  EXPECT_LT(c.nodes[0].session, c.nodes[1].session);
  const std::set<session_number> sessions{c.nodes[0].session, c.nodes[1].session};
  EXPECT_EQ(sessions, (std::set{own.session(), other.session()}));
}

TEST_P(store_cluster, renew_answers_the_lease_of_each_node) {
  node third{*fixture};
  ASSERT_EQ(third.join(1h, "c", 5min), 0);
  EXPECT_EQ(own.member(other.session())->lease, 1h);
  EXPECT_EQ(own.member(third.session())->lease, 5min) << "as it has joined";
  asked<durable::renew_call> c;
  third.renew(c);
  EXPECT_EQ(own.member(third.session())->lease, 1h) << "as it has renewed";
}

TEST_P(store_cluster, renew_extends_only_its_own_lease) {
  const auto before = own.member(other.session());
  fixture->advance(2ms);
  EXPECT_EQ(own.member(other.session())->expires, before->expires);
  EXPECT_EQ(own.member(other.session())->beat, before->beat);
  other.member(other.session());
  EXPECT_GT(own.member(other.session())->expires, before->expires);
  EXPECT_NE(own.member(other.session())->beat, before->beat);
}

TEST_P(store_cluster, bury_spares_a_renewed_session) {
  const auto before = own.member(other.session());
  other.member(other.session());
  EXPECT_FALSE(own.bury(other.session(), before->beat));
  EXPECT_TRUE(own.member(other.session()));
}

TEST_P(store_cluster, bury_of_a_buried_session_answers_buried) {
  own.bury(other.session());
  EXPECT_TRUE(own.bury(other.session(), 1));
}

TEST_P(store_cluster, buried_node_has_nothing) {
  const revision rev = make_pending();
  make_running("running");
  other.bury(own.session());
  asked<durable::renew_call> c;
  own.renew(c);
  EXPECT_TRUE(c.is_buried);
  EXPECT_TRUE(c.nodes.empty());
  EXPECT_FALSE(own.begin("t", rev));
  EXPECT_TRUE(own.acquire().empty());
  EXPECT_EQ(other.acquire().size(), other.partitions());
  EXPECT_TRUE(other.begin("t", rev));
}

TEST_P(store_cluster, buried_node_is_recovered_after_acquire) {
  make_running();
  other.bury(own.session());
  EXPECT_EQ(other.recover(), node::recovery{});
  other.acquire();
  EXPECT_EQ(other.recover(), (node::recovery{.recovered = 1, .died = 0}));
  EXPECT_EQ(other.begin("t").attempt, 2U);
}

TEST_P(store_cluster, buried_node_finishes_what_nobody_recovered) {
  const revision first = make_running("first"), second = make_running("second");
  other.bury(own.session());
  EXPECT_EQ(own.done("first", first), durable::finish_result::finished);
  other.acquire();
  other.recover();
  EXPECT_EQ(own.done("second", second), durable::finish_result::stale);
  EXPECT_EQ(own.done("first", first), durable::finish_result::finished);
}

TEST_P(store_cluster, recover_leaves_tasks_of_living_nodes) {
  const revision token = make_running();
  own.release(own.owned(), other.session());
  EXPECT_EQ(other.recover(), node::recovery{}) << "it runs on a living node, in a partition of another";
  EXPECT_EQ(own.done("t", token), durable::finish_result::finished);
}

TEST_P(store_cluster, release_hands_partitions_over) {
  const revision rev = make_pending();
  own.release(own.owned(), other.session());
  asked<durable::renew_call> c;
  other.renew(c);
  EXPECT_EQ(c.partitions.size(), other.partitions());
  EXPECT_EQ(c.free_partitions, 0U);
  EXPECT_FALSE(own.begin("t", rev));
  EXPECT_TRUE(other.begin("t", rev));
}

TEST_P(store_cluster, release_of_partitions_of_others_does_nothing) {
  other.release(own.owned());
  other.release(own.owned(), other.session());
  EXPECT_EQ(own.member(own.session())->partitions, own.partitions());
}

TEST_P(store_cluster, release_to_a_buried_node_frees) {
  own.bury(other.session());
  own.release(own.owned(), other.session());
  EXPECT_EQ(own.acquire().size(), own.partitions());
}

TEST_P(store_cluster, release_to_a_node_that_starts_nothing_frees) {
  asked<durable::renew_call> c;
  c.is_starting = false;
  other.renew(c);
  own.release(own.owned(), other.session());
  EXPECT_EQ(own.acquire().size(), own.partitions());
}

struct release_listener final : durable::store_listener {
  void on_scheduled(durable::partition_number) noexcept override {}
  void on_released() noexcept override { ++notices; }
  int notices = 0;
};

void renew(node& n, bool is_starting = true) {
  asked<durable::renew_call> c;
  c.is_starting = is_starting;
  n.renew(c);
}

TEST_P(store_cluster, burial_tells_the_others) {
  renew(other);
  own.release(own.owned(), other.session());
  release_listener listener;
  own.store().listen(listener);
  node third{*fixture};
  third.join(1h, "third");
  renew(third);
  for (int turns = 0; turns != 1000 && listener.notices == 0; ++turns) renew(own);
  const int before = listener.notices;
  EXPECT_EQ(before, 1);
  third.bury(other.session());
  for (int turns = 0; turns != 1000 && listener.notices == before; ++turns) renew(own);
  EXPECT_EQ(listener.notices, before + 1);
  own.close();  // the listener ends
}

TEST_P(store_cluster, renewal_tells_the_others_that_a_node_starts_tasks_or_no_longer) {
  release_listener listener;
  own.store().listen(listener);
  renew(other);
  for (int turns = 0; turns != 1000 && listener.notices == 0; ++turns) renew(own);
  EXPECT_EQ(listener.notices, 1);
  for (int renewals = 0; renewals != 5; ++renewals) {
    renew(other);
    renew(own);
  }
  EXPECT_EQ(listener.notices, 1);
  renew(other, false);
  for (int turns = 0; turns != 1000 && listener.notices == 1; ++turns) renew(own);
  for (int renewals = 0; renewals != 5; ++renewals) {
    renew(other, false);
    renew(own);
  }
  EXPECT_EQ(listener.notices, 2);
  own.close();  // the listener ends
}

TEST_P(store_cluster, each_node_starts_only_its_partitions) {
  own.release(own.owned());
  if (own.partitions() < 2) GTEST_SKIP() << "one partition cannot be shared";
  const auto half = static_cast<std::uint16_t>(own.partitions() / 2);
  const auto of_own = own.acquire(half), of_other = other.acquire();
  EXPECT_EQ(of_own.size() + of_other.size(), own.partitions());
  const std::set<partition_number> mine{of_own.begin(), of_own.end()};
  int started = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string id = "t" + std::to_string(i);
    const auto put = own.put(due_now(id));
    EXPECT_EQ(mine.contains(put.partition) ? !other.begin(id, put.rev) : !own.begin(id, put.rev), true);
    started += (mine.contains(put.partition) ? own : other).begin(id, put.rev).has_value();
  }
  EXPECT_EQ(started, 40);
}

TEST_P(store_cluster, one_of_two_begins_starts_a_task) {
  const revision rev = make_pending();
  asked<durable::begin_call> first, second;
  for (auto* const c : {&first, &second}) {
    c->session = own.session();
    c->items.push_back({"t", rev});
  }
  call(own.store(), first);
  call(other.store(), second);  // a store of another node: the fence is in the database
  call_runner{*fixture}.wait_for(first);
  call_runner{*fixture}.wait_for(second);
  EXPECT_EQ(first.starts.size() + second.starts.size(), 1U);
}

TEST_P(store_cluster, nodes_see_the_tasks_of_each_other) {
  other.put(due_now("t", "of other"));
  EXPECT_EQ(own.get("t")->what.payload, "of other");
  EXPECT_EQ(own.put(due_now()).result, durable::schedule_result::exists);
  EXPECT_EQ(own.begin("t").payload, "of other");
  EXPECT_EQ(other.cancel("t"), durable::cancel_result::running);
}

TEST_P(store_cluster, tokens_are_unique_over_nodes) {
  own.release(own.owned());
  std::set<revision> given;
  for (int i = 0; i < 12; ++i) {
    node& by = i % 2 == 0 ? own : other;
    by.acquire();
    const std::string id = "t" + std::to_string(i);
    by.put(due_now(id));
    EXPECT_TRUE(given.insert(by.begin(id).token).second);
    asked<durable::renew_call> c;
    by.renew(c);
    by.release(c.partitions);
  }
}

TEST_P(store_cluster, longest_keep_finished_counts) {
  own.bury(other.session());
  node short_memory{*fixture};
  other.close();
  ASSERT_EQ(short_memory.join(0ns, "c"), 0);
  make_finished();
  fixture->advance(2ms);
  EXPECT_TRUE(short_memory.get("t")) << "another node remembers it for an hour";
  short_memory.bury(own.session());
  EXPECT_FALSE(short_memory.get("t")) << "no living node remembers it";
}

}  // namespace
