// Nodes go on with the standby when it is promoted, and do not use a server that only reads.
#include "joining.hpp"
#include "lost_standby.hpp"

#include <fstream>
#include <string>
#include <thread>

using namespace conformance;
using durable::finish_result;
using durable::revision;
using durable::store_status;
using durable::task_state;

namespace {

/// A server, and a synchronous standby of it. The node knows both.
class postgres_failover : public testing::Test {
 protected:
  void SetUp() override {
    on.conninfo = "host=" + primary.folder() + "," + standby.folder() +
                  " user=tester dbname=postgres target_session_attrs=read-write";
    const psql admin{primary.conninfo()};
    admin.run("alter system set synchronous_standby_names = '*'");
    admin.run("select pg_reload_conf()");
    while (admin.run("select count(*) from pg_stat_replication where sync_state = 'sync'") != "1")
      std::this_thread::sleep_for(10ms);
  }
  void promote() {
    EXPECT_EQ(psql{standby.conninfo()}.run("select pg_promote()"), "t");
    on.forget_other();
  }
  /// Returns the state of a task, when the node is connected again.
  task_state state_of(node& own, const std::string& id) {
    asked<durable::get_call> c;
    c.ids = {id};
    c.status = store_status::unavailable;
    for (int tries = 0; tries < 1000 && c.status != store_status::ok; ++tries) {
      c.answers = 0;
      call_runner{on}.run(own.store(), c);
      on.turn();
    }
    EXPECT_EQ(c.status, store_status::ok) << own.store().problem();
    return c.status == store_status::ok && c.results.at(0) ? c.results.at(0)->state : task_state{};
  }
  static durable::task due(const std::string& id) { return {.id = id, .due = durable::clock::time_point{1s}}; }

  test_server primary;
  test_server standby{primary, {}};
  postgres_fixture on{primary};
};

TEST_F(postgres_failover, promoted_standby_has_what_was_answered) {
  node own{on};
  own.start();
  own.put(due("running"));
  own.put(due("pending"));
  const revision token = own.begin("running").token;
  primary.kill();
  promote();
  EXPECT_EQ(state_of(own, "running"), task_state::running);
  EXPECT_EQ(state_of(own, "pending"), task_state::pending);
  EXPECT_EQ(own.done("running", token), finish_result::finished) << "the session goes on";
  EXPECT_GT(own.begin("pending").token, token);
  EXPECT_EQ(on.log.back(), "postgres_store: connected");
  own.close();
}

TEST_F(postgres_failover, server_that_turns_read_only_is_left) {
  node own{on};
  own.start();
  own.put(due("t"));
  {
    const psql admin{primary.conninfo()};
    admin.run("alter system set default_transaction_read_only = on");
    admin.run("select pg_reload_conf()");
    while (admin.run("show default_transaction_read_only") != "on") std::this_thread::sleep_for(10ms);
  }
  std::this_thread::sleep_for(200ms);  // the backends of the node read the settings when they are idle
  asked<durable::put_call> put;
  put.items.push_back({due("u"), durable::on_conflict::keep});
  call_runner{on}.run(own.store(), put);
  EXPECT_EQ(put.status, store_status::unavailable);
  ASSERT_FALSE(on.log.empty());
  EXPECT_NE(on.log[0].find("in a read-only transaction"), std::string::npos) << on.log[0];
  promote();
  EXPECT_EQ(state_of(own, "t"), task_state::pending);
  own.put(due("u"));
  EXPECT_EQ(own.get("u")->state, task_state::pending);
  own.close();
}

TEST_F(postgres_failover, hot_standby_is_an_outage) {
  const join_answer a = try_to_join(on, standby.conninfo());
  EXPECT_EQ(a.status, store_status::unavailable);
  EXPECT_NE(a.problem.find("session is read-only"), std::string::npos) << a.problem;
}

class postgres_lone_commit : public testing::Test {
 protected:
  void SetUp() override {
    on.options.repeat_timeout = 400ms;
    own.start();
  }
  void TearDown() override { own.close(); }
  /// Its answer must not come as long as the server waits for the standby.
  template <class Call>
  void run_without_standby(asked<Call>& c) {
    standby.begin();
    call(own.store(), c);
    for (int turns = 0; !standby.is_awaited() && !c.is_answered() && turns < 1000; ++turns) on.turn();
    EXPECT_FALSE(c.is_answered());
    standby.end();
    call_runner{on}.wait_for(c);
  }
  static durable::task due(const std::string& id) { return {.id = id, .due = durable::clock::time_point{1s}}; }

  test_server server;
  postgres_fixture on{server};
  lost_standby standby{on};
  node own{on};
};

TEST_F(postgres_lone_commit, is_unknown) {
  standby.begin();
  asked<durable::put_call> put;
  put.items.push_back({due("t"), durable::on_conflict::keep});
  call(own.store(), put);
  for (int turns = 0; !standby.is_awaited() && turns < 1000; ++turns) on.turn();
  standby.cancel_wait();
  call_runner{on}.wait_for(put);
  EXPECT_EQ(put.status, store_status::unknown);
  ASSERT_FALSE(on.log.empty());
  EXPECT_NE(on.log[0].find("canceling wait for synchronous replication"), std::string::npos) << on.log[0];
  standby.end();
}

// A failover would lose what it tells.
TEST_F(postgres_lone_commit, of_another_program_is_told_once_it_is_on_the_standby) {
  own.put(due("t"));
  standby.begin();
  EXPECT_TRUE(standby.commit_alone("select tickwheel_cancel('t')"));
  EXPECT_TRUE(standby.commit_alone("select tickwheel_schedule('u', now() + interval '1 hour', '')"));
  asked<durable::cancel_call> cancel;
  cancel.ids = {"t"};
  run_without_standby(cancel);
  EXPECT_EQ(cancel.results.at(0), durable::cancel_result::cancelled);
  asked<durable::put_call> put;
  put.items.push_back({due("u"), durable::on_conflict::keep});
  run_without_standby(put);
  EXPECT_EQ(put.results.at(0).result, durable::schedule_result::exists);
}

}  // namespace
