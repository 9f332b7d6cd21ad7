// Schedulers on one database: they share its tasks, and outlive its connections.
#include "postgres_fixture.hpp"

#include <tickwheel/durable/durable.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace conformance;
using durable::execution;
using durable::schedule_result;
using durable::scheduler;

namespace {

class postgres_cluster : public testing::Test {
 protected:
  struct member {
    member(postgres_fixture& on, durable::scheduler_options o) : of{on.timers(), on.make_store(), std::move(o)} {}
    scheduler of;
    int ready = 1;
    std::map<std::string, int> started;
  };
  std::unique_ptr<member> make(const std::string& name, std::chrono::nanoseconds lease = 10s,
                               std::chrono::nanoseconds poll = 20ms) {
    auto m = std::make_unique<member>(on, durable::scheduler_options{.name = name,
                                                                     .lease = lease,
                                                                     .poll = poll,
                                                                     .window = 100 * poll,
                                                                     .max_attempts = 100,
                                                                     .retry = {20ms, 50ms}});
    member& self = *m;
    m->of.on_due([&self](execution run) noexcept {
      ++self.started[std::string{run.id()}];
      run.done();
    });
    return m;
  }
  void open(member& m) {
    m.ready = 1;
    ASSERT_EQ(m.of.open([&m](int error) noexcept { m.ready = error; }), 0);
    wait_until([&] { return m.ready != 1; });
  }
  void wait_until(const std::function<bool()>& holds) {
    for (const auto deadline = std::chrono::steady_clock::now() + 20s; !holds();) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      on.turn();
    }
  }
  void schedule(member& by, const std::string& id, std::chrono::nanoseconds in) {
    ++asked_;
    ASSERT_EQ(by.of.schedule({.id = id, .due = durable::clock::now() + in},
                             [&](schedule_result r) noexcept {
                               --asked_;
                               confirmed_ += r == schedule_result::scheduled || r == schedule_result::exists;
                             }),
              0);
  }

  postgres_fixture on;
  int asked_ = 0, confirmed_ = 0;
};

TEST_F(postgres_cluster, two_nodes_share_the_tasks) {
  const auto a = make("a"), b = make("b");
  open(*a);
  open(*b);
  ASSERT_EQ(a->ready, 0);
  ASSERT_EQ(b->ready, 0);
  wait_until([&] { return a->of.stats().partitions == 2 && b->of.stats().partitions == 2; });
  for (int i = 0; i < 200; ++i) schedule(i % 2 == 0 ? *a : *b, "t" + std::to_string(i), 100ms);
  wait_until([&] { return a->started.size() + b->started.size() == 200; });
  EXPECT_GT(a->started.size(), 20U);
  EXPECT_GT(b->started.size(), 20U);
  for (const auto& m : {a.get(), b.get()})
    for (const auto& [id, times] : m->started) EXPECT_EQ(times, 1) << id;
  a->of.close();
  b->of.close();
}

TEST_F(postgres_cluster, rows_that_others_hold_delay_no_other_request) {
  on.options.repeat_timeout = 1h;
  const auto a = make("a");
  open(*a);
  ASSERT_EQ(a->ready, 0);
  std::map<std::string, durable::cancel_result> cancelled;
  const auto cancel = [&](const std::string& id) {
    ASSERT_EQ(a->of.cancel(id, [&cancelled, id](durable::cancel_result r) noexcept { cancelled[id] = r; }), 0);
  };
  for (const char* id : {"held 1", "held 2", "free 1", "free 2", "free 3"}) schedule(*a, id, 1h);
  wait_until([&] { return asked_ == 0; });
  on.other().run("begin; select * from tasks where id in ('held 1', 'held 2') for update");
  for (const char* id : {"held 1", "free 1"}) cancel(id);
  for (int turns = 0; turns < 3; ++turns) on.turn();
  for (const char* id : {"held 2", "free 2"}) cancel(id);
  for (int turns = 0; turns < 3; ++turns) on.turn();
  cancel("free 3");
  wait_until([&] { return cancelled.size() == 3; });
  for (const char* id : {"free 1", "free 2", "free 3"}) EXPECT_EQ(cancelled[id], durable::cancel_result::cancelled);
  on.other().run("rollback");
  wait_until([&] { return cancelled.size() == 5; });
  for (const char* id : {"held 1", "held 2"}) EXPECT_EQ(cancelled[id], durable::cancel_result::cancelled);
  a->of.close();
}

TEST_F(postgres_cluster, an_id_that_another_client_is_inserting_delays_no_other_request) {
  on.options.repeat_timeout = 1h;
  const auto a = make("a");
  open(*a);
  ASSERT_EQ(a->ready, 0);
  on.other().run("begin; select tickwheel_schedule('theirs', now() + interval '1 hour', '')");
  std::map<std::string, schedule_result> answers;
  for (const char* id : {"theirs", "ours 1", "ours 2", "ours 3"})
    ASSERT_EQ(a->of.schedule({.id = id, .due = durable::clock::now() + 1h},
                             [&answers, id](schedule_result r) noexcept { answers[id] = r; }),
              0);
  wait_until([&] { return answers.size() == 3; });
  EXPECT_FALSE(answers.contains("theirs"));
  on.other().run("commit");
  wait_until([&] { return answers.size() == 4; });
  for (const auto& [id, answer] : answers)
    EXPECT_EQ(answer, id == "theirs" ? schedule_result::exists : schedule_result::scheduled) << id;
  a->of.close();
}

// Each client that may connect can ask. A lock keeps the node from answering meanwhile.
TEST_F(postgres_cluster, many_questions_for_a_sign_of_life_get_few_answers) {
  const auto a = make("a", 1min);
  open(*a);
  ASSERT_EQ(a->ready, 0);
  const auto beat = [&] { return std::stoi(on.other().run("select beat from nodes")); };
  const std::string session = on.other().run("select session from nodes");
  const psql holder{on.conninfo}, asker{on.conninfo};
  for (const psql* const each : {&holder, &asker}) each->run("set search_path = " + on.schema());
  holder.run("begin");
  holder.run("lock table nodes in share mode");
  const int before = beat();
  asker.run("do $$ begin for i in 1 .. 1000 loop perform pg_notify(current_schema()::text, '" + session +
            "'); commit; end loop; end $$");
  for (int turns = 0; turns < 100; ++turns) on.turn();
  holder.run("commit");
  wait_until([&] { return beat() > before; });
  for (int turns = 0; turns < 100; ++turns) on.turn();
  EXPECT_LE(beat(), before + 2);
  a->of.close();
}

TEST_F(postgres_cluster, lost_connections_lose_no_task) {
  const auto a = make("a");
  open(*a);
  ASSERT_EQ(a->ready, 0);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 40; ++i)
      schedule(*a, std::to_string(round) + "." + std::to_string(i), std::chrono::milliseconds{i * 5});
    for (int turns = 0; turns < 5; ++turns) on.turn();
    on.other().run("select pg_terminate_backend(pid::integer) from links");
  }
  wait_until([&] { return asked_ == 0; });
  wait_until([&] { return on.other().run("select count(*) from tasks where state < 2") == "0"; });
  EXPECT_GE(static_cast<int>(a->started.size()), confirmed_);
  EXPECT_EQ(on.other().run("select count(*) from tasks where state <> 3"), "0");
  a->of.close();
}

TEST_F(postgres_cluster, role_that_loses_rights_goes_on_when_it_has_them_again) {
  const auto maker = make("maker");  // of the tables
  open(*maker);
  maker->of.close();
  const std::string rights = "select, insert, update, delete on all tables in schema " + on.schema();
  on.other().run("drop role if exists worker; create role worker login; grant usage on schema " + on.schema() +
                 " to worker; grant " + rights + " to worker; grant usage, update, select on all sequences in schema " +
                 on.schema() + " to worker");
  const std::string owner = std::exchange(on.conninfo, on.server.conninfo("user=worker"));
  const auto a = make("a");
  on.conninfo = owner;
  open(*a);
  ASSERT_EQ(a->ready, 0);
  schedule(*a, "before", 0ms);
  wait_until([&] { return a->started.contains("before"); });
  schedule(*a, "meanwhile", 1s);
  wait_until([&] { return asked_ == 0; });
  on.other().run("revoke " + rights + " from worker");
  const auto told = [&](const char* what) {
    return std::any_of(on.log.begin(), on.log.end(), [=](const std::string& l) { return l.find(what) != l.npos; });
  };
  wait_until([&] { return told("a begin failed: permission denied"); });
  schedule(*a, "refused", 0ms);
  wait_until([&] { return asked_ == 0; });
  EXPECT_EQ(confirmed_, 2);
  EXPECT_FALSE(a->started.contains("meanwhile"));
  on.other().run("grant " + rights + " to worker");
  wait_until([&] { return a->started.contains("meanwhile"); });
  EXPECT_FALSE(a->started.contains("refused"));
  for (const std::string& line : on.log) EXPECT_EQ(std::count(on.log.begin(), on.log.end(), line), 1) << line;
  a->of.close();
  on.other().run("drop owned by worker; drop role worker");
}

// Nobody else would end the start, because its node lives.
TEST_F(postgres_cluster, end_that_a_trigger_refuses_is_sent_again) {
  const auto a = make("a");
  open(*a);
  ASSERT_EQ(a->ready, 0);
  on.other().run(
      "create function refuse() returns trigger language plpgsql as $$ begin if new.id = 'bad' and new.state = 3 then "
      "raise exception 'not now'; end if; return new; end $$; "
      "create trigger refuse before update on tasks for each row execute function refuse()");
  schedule(*a, "bad", 0ms);
  wait_until([&] { return a->started.contains("bad"); });
  for (int i = 0; i < 20; ++i) schedule(*a, "good " + std::to_string(i), 0ms);
  wait_until([&] { return a->of.stats().finished == 20; });
  EXPECT_EQ(a->of.stats().stale, 0U);
  EXPECT_EQ(a->of.stats().running, 1U);
  on.other().run("drop trigger refuse on tasks");
  wait_until([&] { return a->of.stats().running == 0; });
  EXPECT_EQ(on.other().run("select state from tasks where id = 'bad'"), "3");
  EXPECT_EQ(a->started["bad"], 1);
  a->of.close();
}

TEST_F(postgres_cluster, broken_trigger_keeps_no_other_task_from_starting) {
  const auto a = make("a");
  open(*a);
  ASSERT_EQ(a->ready, 0);
  on.other().run(
      "create function refuse() returns trigger language plpgsql as $$ begin if new.id = 'bad' and new.state = 1 then "
      "insert into dropped values (new.id); end if; return new; end $$; "
      "create trigger refuse before update on tasks for each row execute function refuse()");
  schedule(*a, "bad", 0ms);
  for (int i = 0; i < 20; ++i) schedule(*a, "good " + std::to_string(i), 0ms);
  wait_until([&] { return a->of.stats().finished == 20; });
  EXPECT_FALSE(a->started.contains("bad"));
  EXPECT_NE(a->of.problem().find("dropped"), std::string_view::npos) << a->of.problem();
  on.other().run("drop trigger refuse on tasks");
  wait_until([&] { return a->started.contains("bad"); });
  a->of.close();
}

TEST_F(postgres_cluster, client_function_wakes_the_owner) {
  const auto a = make("a", 10s, 1h);
  open(*a);
  ASSERT_EQ(a->ready, 0);
  wait_until([&] { return a->of.stats().partitions == 4; });
  for (int i = 0; i < 20; ++i) {
    const std::string id = "t" + std::to_string(i);
    const std::string due = i % 2 == 0 ? "now()" : "now() - interval '1 hour'";
    EXPECT_EQ(on.other().run("select tickwheel_schedule('" + id + "', " + due + ", 'data', wake => true)"),
              "scheduled");
    wait_until([&] { return a->started.contains(id); });
  }
  a->of.close();
}

TEST_F(postgres_cluster, buried_node_is_replaced_and_its_tasks_start) {
  const auto b = make("b", 400ms);
  {
    // a node that joins, starts a task, and is not heard of again
    node silent{on};
    silent.start(1h, "a", 400ms);
    silent.put({.id = "t", .due = durable::clock::time_point{1s}});
    silent.begin("t");
    open(*b);
    ASSERT_EQ(b->ready, 0);
    wait_until([&] { return b->started.contains("t"); });
    EXPECT_EQ(b->of.stats().partitions, 4U);
  }
  b->of.close();
}

TEST_F(postgres_cluster, restarted_node_takes_its_name) {
  {
    node killed{on};
    killed.start(1h, "a", 600ms);
    killed.put({.id = "t", .due = durable::clock::time_point{1s}});
    killed.begin("t");
    on.other().run("create temp table n as select * from nodes; create temp table p as select * from parts");
  }
  // `close` has freed the name and the partitions. A process that is killed leaves them.
  on.other().run(
      "insert into nodes select * from n; update parts set session = p.session from p where p.part = parts.part");
  const auto again = make("a", 600ms);
  open(*again);
  ASSERT_EQ(again->ready, 0) << again->of.problem();
  wait_until([&] { return again->started.contains("t"); });
  again->of.close();
}

TEST_F(postgres_cluster, name_of_a_living_scheduler_is_refused) {
  const auto first = make("a"), second = make("a");
  open(*first);
  ASSERT_EQ(first->ready, 0);
  open(*second);
  EXPECT_EQ(second->ready, UV_EEXIST);
  first->of.close();
  open(*second);
  EXPECT_EQ(second->ready, 0) << second->of.problem();
  second->of.close();
}

TEST_F(postgres_cluster, open_waits_for_the_server) {
  test_server late;
  late.stop();
  postgres_fixture other{late};
  scheduler s{other.timers(), other.make_store(), {.name = "a"}};
  int ready = 1;
  ASSERT_EQ(s.open([&](int error) noexcept { ready = error; }), 0);
  for (int turns = 0; turns < 10; ++turns) other.turn();
  EXPECT_EQ(ready, 1);
  late.start();
  for (int turns = 0; ready == 1 && turns < 500; ++turns) other.turn();
  EXPECT_EQ(ready, 0) << s.problem();
  s.close();
}

}  // namespace
