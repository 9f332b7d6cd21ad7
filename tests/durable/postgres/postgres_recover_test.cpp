// The order in which a recovery reads the tasks of a lost node.
#include "postgres_fixture.hpp"

#include <chrono>
#include <fstream>
#include <optional>
#include <string>

using namespace conformance;

namespace {

class postgres_recover : public testing::Test {
 protected:
  // Tasks run. The clock is set back, so that none of the earlier ones is due any more.
  void SetUp() override {
    lost.start(1h, "lost");
    const auto now = lost.now();
    for (int i = 0; i != 20; ++i) run({.id = "early" + std::to_string(i), .due = now});
    on.shift_clock(-1h);
    for (int i = 0; i != 20; ++i) run({.id = "late" + std::to_string(i), .due = now - 2h});
    own.join();
    own.bury(lost.session());
    own.acquire();
  }
  void TearDown() override {
    own.close();
    std::string why;
    EXPECT_TRUE(on.validate(&why)) << why;
  }
  void run(durable::task what) {
    const std::string id = what.id;
    ASSERT_TRUE(lost.begin(id, lost.put(std::move(what)).rev));
  }
  // Tasks "many1" and so on run in one partition, due at 1 ns and so on. Their node is gone.
  void run_many(int count) {
    on.other().run(
        "insert into tasks(id, part, state, at, due, period, rev, session, payload) select "
        "'many' || i, 0, 1, i, i, 0, i, 999999, '' from generate_series(1, " +
        std::to_string(count) + ") i");
  }
  std::string running() { return on.other().run("select count(*) from tasks where state = 1"); }
  void wait_until_none_runs() {
    for (const auto deadline = std::chrono::steady_clock::now() + 20s; running() != "0"; on.turn())
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }

  postgres_fixture on;
  node lost{on}, own{on};
};

TEST_F(postgres_recover, answers_once_all_that_was_due_is_recovered) {
  EXPECT_EQ(own.recover(), (node::recovery{.recovered = 20, .died = 0}));
  EXPECT_NE(running(), "0");
  wait_until_none_runs();
  EXPECT_EQ(own.recover(), (node::recovery{.recovered = 20, .died = 0})) << "they were recovered meanwhile";
  EXPECT_EQ(own.recover(), node::recovery{});
}

// A statement recovers at most 1,000 tasks.
TEST_F(postgres_recover, goes_on_behind_a_row_that_another_client_holds) {
  run_many(1500);
  on.other().run("begin; select from tasks where id = 'many1' for update");
  EXPECT_EQ(own.recover().recovered, 20U + 1499U);
  on.other().run("rollback; delete from tasks where id like 'many%'");
}

TEST_F(postgres_recover, goes_on_behind_pages_that_another_client_holds) {
  run_many(3500);
  on.other().run("begin; select from tasks where id like 'many%' and at <= 2500 for update");
  EXPECT_EQ(own.recover().recovered, 20U + 1000U);
  on.other().run("rollback");
  own.recover();
  EXPECT_EQ(on.other().run("select count(*) from tasks where state = 1 and id like 'many%'"), "0");
  on.other().run("delete from tasks where id like 'many%'");
}

TEST_F(postgres_recover, answers_although_another_client_holds_all_rows) {
  on.other().run("begin; select from tasks for update");
  EXPECT_EQ(own.recover(), node::recovery{});
  on.other().run("rollback");
}

TEST_F(postgres_recover, reads_the_rest_after_the_connection_was_lost) {
  own.recover();
  on.other().run("select pg_terminate_backend(pid::integer) from links");
  asked<durable::recover_call> c;
  c.session = own.session();
  c.max_attempts = 8;
  for (c.status = durable::store_status::unknown; c.status != durable::store_status::ok;) {
    c.answers = 0;
    call_runner{on}.run(own.store(), c);
  }
  wait_until_none_runs();
}

TEST_F(postgres_recover, leaves_the_rest_to_the_next_owner) {
  own.recover();
  own.release(own.owned());
  node next{on};
  next.start(1h, "next");
  next.recover();
  wait_until_none_runs();
  next.close();
}

// The statement of a node that has released its partition meanwhile. Its snapshot does not have the node that joined since.
TEST(postgres_old_recover, takes_no_task_from_a_node_that_joined_meanwhile) {
  postgres_fixture on;
  on.options.partitions = 1;
  node leaving{on}, joined{on};
  leaving.start(1h, "leaving");
  on.other().run(
      "insert into tasks(id, part, state, at, due, period, rev, session, payload) values('held', 0, 1, 1, 1, 0, 1, "
      "999999, ''), ('t', 0, 1, 1, 1, 0, 2, 999999, '');"
      "create table go();"
      "create function wait() returns trigger language plpgsql as $$ begin while (select count(*) from go) = 0 loop "
      "perform pg_sleep(0.001); end loop; return new; end $$; create trigger wait before update on tasks for each row "
      "when (new.id = 'held') execute function wait()");
  asked<durable::recover_call> old;
  old.session = leaving.session();
  old.max_attempts = 8;
  leaving.store().recover(old);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (on.other().run("select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == "0") {
    on.turn();
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  leaving.release(leaving.owned());
  joined.start(1h, "joined");
  EXPECT_EQ(joined.recover().recovered, 1U);
  const durable::revision token = joined.begin("t").token;
  on.other().run("insert into go default values");
  while (!old.is_answered()) {
    on.turn();
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  EXPECT_EQ(joined.done("t", token), durable::finish_result::finished);
  leaving.close();
  joined.close();
}

// A recovery of two steps, with a long pause between them: the first step was slow.
class postgres_slow_recover : public testing::Test {
 protected:
  // The answer of another call makes the recovery urgent.
  struct hurrying final : durable::renew_call {
    explicit hurrying(durable::recover_call& r) : renew_call{&answered}, of{r} {}
    static void answered(store_call& c) noexcept {
      auto& self = static_cast<hurrying&>(static_cast<renew_call&>(c));
      self.of.is_urgent = true;
      self.is_answered = true;
    }
    durable::recover_call& of;
    bool is_answered = false;
  };

  void SetUp() override {
    on.options.partitions = 8;
    own.emplace(on);
    own->start();
    on.other().run(
        "insert into tasks(id, part, state, at, due, period, rev, session, payload) values('first', 0, 1, 1, 1, 0, 1, "
        "999999, ''), ('last', 7, 1, 1, 1, 0, 1, 999999, '');"
        "create function sleep() returns trigger language plpgsql as $$ begin perform pg_sleep(0.4); return new; end "
        "$$; create trigger sleep before update on tasks for each row when (new.id = 'first') execute function "
        "sleep()");
    recovery.session = own->session();
    recovery.max_attempts = 8;
    recovery.is_urgent = false;
    own->store().recover(recovery);
    for (const auto deadline = std::chrono::steady_clock::now() + 20s; running() != "1"; on.turn())
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  void TearDown() override { own->close(); }
  std::string running() { return on.other().run("select count(*) from tasks where state = 1"); }
  // A pause is 49 times as long as the first step.
  void expect_that_it_ends_soon() {
    EXPECT_EQ(recovery.answers, 0);
    const auto deadline = std::chrono::steady_clock::now() + 5s;
    while (!recovery.is_answered() && std::chrono::steady_clock::now() < deadline) on.turn();
    EXPECT_EQ(recovery.answers, 1);
    EXPECT_EQ(recovery.recovered, 2U);
  }

  postgres_fixture on;
  std::optional<node> own;
  asked<durable::recover_call> recovery;
};

TEST_F(postgres_slow_recover, ends_its_pause_if_an_answer_makes_it_urgent) {
  hurrying renewal{recovery};
  renewal.session = own->session();
  renewal.lease = 1h;
  own->store().renew(renewal);
  while (!renewal.is_answered) on.turn();
  expect_that_it_ends_soon();
}

TEST_F(postgres_slow_recover, ends_its_pause_if_it_is_urgent_before_another_call) {
  recovery.is_urgent = true;
  asked<durable::purge_call> other;
  other.limit = 1;
  own->store().purge(other);
  expect_that_it_ends_soon();
  call_runner{on}.wait_for(other);
}

// A trigger rejects the recovery of some tasks.
class postgres_refused_recover : public testing::Test {
 protected:
  void SetUp() override {
    on.options.partitions = 8;
    on.options.repeat_timeout = 20s;
    own.emplace(on);
    own->start();
  }
  void TearDown() override { own->close(); }
  // Tasks with these numbers run in a partition. Their node is gone.
  void run(const std::string& name, int first, int last, int partition, const std::string& at = "i") {
    on.other().run("insert into tasks(id, part, state, at, due, period, rev, session, payload) select '" + name +
                   "' || i, " + std::to_string(partition) + ", 1, " + at + ", i, 0, nextval('revisions'), 999999, " +
                   "'' from generate_series(" + std::to_string(first) + ", " + std::to_string(last) + ") i");
  }
  std::string running() { return on.other().run("select string_agg(id, ' ' order by id) from tasks where state = 1"); }
  void recover_until_these_run(const std::string& ids) {
    for (const auto deadline = std::chrono::steady_clock::now() + 20s; running() != ids; own->recover())
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << running();
  }

  postgres_fixture on;
  std::optional<node> own;
};

TEST_F(postgres_refused_recover, delays_only_the_refused_tasks) {
  for (const char* const sqlstate : {"P0001", "23514", "MY001", "XX001", "55P03"}) {
    run("bad", 1, 2, 1);
    run("bad", 3, 3, 6);
    for (int partition = 0; partition != 8; ++partition) run("good" + std::to_string(partition) + " ", 1, 9, partition);
    on.refuse_bad(sqlstate);
    EXPECT_EQ(own->recover(), (node::recovery{.recovered = 72})) << sqlstate;
    EXPECT_EQ(running(), "bad1 bad2 bad3");
    EXPECT_EQ(own->recover(), node::recovery{});
    on.refuse_no_more();
    EXPECT_EQ(own->recover(), (node::recovery{.recovered = 3})) << sqlstate;
    on.other().run("drop function refuse; delete from tasks");
  }
}

// The row of an order that another client holds.
TEST_F(postgres_refused_recover, delays_only_the_tasks_whose_triggers_wait_for_a_lock) {
  own->close();
  on.options.repeat_timeout = 10ms;
  own.emplace(on);
  own->start();
  run("bad", 1, 2, 1);
  run("bad", 3, 3, 6);
  for (int partition = 0; partition != 8; ++partition) run("good" + std::to_string(partition) + " ", 1, 9, partition);
  const auto holder = on.block_bad();
  EXPECT_EQ(own->recover(), (node::recovery{.recovered = 72}));
  EXPECT_EQ(running(), "bad1 bad2 bad3");
  EXPECT_EQ(own->begin("good1 1").attempt, 1U);
  EXPECT_EQ(own->recover(8, {"good1 1"}), node::recovery{}) << "a task is given back";
  EXPECT_EQ(own->get("good1 1")->state, durable::task_state::pending);
  holder->run("commit");
  EXPECT_EQ(own->recover(), (node::recovery{.recovered = 3}));
}

// A disk has lost a page. The server answers XX001 to each statement that reads it.
TEST(postgres_damaged_recover, goes_on_in_the_other_partitions) {
  test_server server;
  postgres_fixture on{server};
  on.options.partitions = 8;
  node own{on};
  own.start();
  std::string file, page;
  {
    const psql other{on.conninfo};
    other.run("set search_path = " + on.schema());
    // The payload leaves no place on its page for rows of other partitions.
    other.run(
        "alter table tasks alter payload set storage plain; "
        "insert into tasks(id, part, state, at, due, period, rev, session, payload) values ('lost', 1, 1, 1, 1, 0, 1, "
        "999999, decode(repeat('00', 7500), 'hex')); "
        "insert into tasks(id, part, state, at, due, period, rev, session, payload) select 't' || p, p, 1, 1, 1, 0, 9 "
        "+ p, "
        "999999, '' from generate_series(0, 7) p where p <> 1; checkpoint");
    page = other.run("select (ctid::text::point)[0]::integer from tasks where id = 'lost'");
    EXPECT_EQ(other.run("select count(*) from tasks where (ctid::text::point)[0] = " + page), "1");
    file = other.run("select current_setting('data_directory') || '/' || pg_relation_filepath('tasks')");
  }
  own.close();
  server.stop();
  {
    std::fstream table{file, std::ios::in | std::ios::out | std::ios::binary};
    ASSERT_TRUE(table) << file;
    table.seekp(std::streamoff{8192} * std::stoi(page));
    table << std::string(64, '\x5a');
  }
  server.start();
  own.start();
  EXPECT_EQ(own.recover(), (node::recovery{.recovered = 7}));
  own.close();
}

// A statement recovers at most 1,000 tasks.
TEST_F(postgres_refused_recover, goes_on_behind_a_page_of_refused_tasks) {
  run("bad", 1, 1001, 0);
  run("good", 2000, 3500, 0);
  on.refuse_bad("P0001");
  EXPECT_EQ(own->recover(), (node::recovery{.recovered = 1501}));
}

TEST_F(postgres_refused_recover, ends_although_every_write_is_refused) {
  run("good", 1, 3, 1);
  on.other().run(
      "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'nothing'; end $$;"
      "create trigger refuse before update on tasks for each statement execute function refuse()");
  EXPECT_EQ(own->recover(8, {"a", "b"}), node::recovery{});
  on.refuse_no_more();
  EXPECT_EQ(own->recover(), (node::recovery{.recovered = 3}));
}

// A task that is not due is recovered behind the answer.
TEST_F(postgres_refused_recover, tries_a_refused_task_that_is_not_due_again) {
  const std::string later = "now_ns() + 3600000000000";
  run("bad", 1, 2, 1, later);
  run("good", 1, 20, 0, later);
  run("good", 21, 40, 7, later);
  on.refuse_bad("P0001");
  recover_until_these_run("bad1 bad2");
  on.refuse_no_more();
  recover_until_these_run("null");
}

}  // namespace
