// tickwheel_schedule, tickwheel_cancel and tickwheel_done, as programs call them in their own transactions.
#include "postgres_fixture.hpp"

#include <future>
#include <string>
#include <vector>

using namespace conformance;
using durable::cancel_result;
using durable::finish_result;
using durable::revision;
using durable::schedule_result;
using durable::task_state;

namespace {

class client_functions : public testing::Test {
 protected:
  void SetUp() override { own.start(); }
  void TearDown() override {
    own.close();
    std::string why;
    EXPECT_TRUE(on.validate(&why)) << why;
  }
  std::string schedule(const std::string& arguments) {
    return on.other().run("select tickwheel_schedule(" + arguments + ")");
  }
  std::string cancel(const std::string& id) { return on.other().run("select tickwheel_cancel('" + id + "')"); }
  std::string done(const std::string& id, revision token) {
    return on.other().run("select tickwheel_done('" + id + "', " + std::to_string(token) + ")");
  }
  /// The call raises 22023.
  void expect_invalid(const std::string& call) { EXPECT_EQ(on.other().try_to_run("select " + call), "22023") << call; }
  /// Lets a trigger drop each change of a task that fulfils `condition`.
  void drop_changes(const std::string& condition) {
    on.other().run(
        "create function drop_it() returns trigger language plpgsql as $$ begin return null; end $$; "
        "create trigger drop_it before update on tasks for each row when (" +
        condition + ") execute function drop_it()");
  }
  void drop_no_more() { on.other().run("drop trigger drop_it on tasks"); }
  revision run(const std::string& id) {
    own.put({.id = id, .due = durable::clock::time_point{1s}, .payload = "data"});
    return own.begin(id).token;
  }
  task_state state_of(const std::string& id) {
    const auto i = own.get(id);
    EXPECT_TRUE(i.has_value());
    return i ? i->state : task_state{};
  }

  postgres_fixture on;
  node own{on};
};

// The transaction sees the task as it was when it began.
TEST_F(client_functions, schedule_with_an_old_snapshot_answers_what_is_true_now) {
  for (const char* const isolation : {"repeatable read", "serializable"}) {
    for (const char* const id : {"purged", "ended", "pending"})
      own.put({.id = id, .due = durable::clock::time_point{1s}, .payload = "data"});
    const auto begin = [&] {
      on.other().run(std::string{"begin isolation level "} + isolation);
      on.other().run("select count(*) from tasks");
    };
    begin();
    const psql meanwhile{on.conninfo};
    meanwhile.run("set search_path = " + on.schema());
    meanwhile.run("delete from tasks where id = 'purged'");
    EXPECT_EQ(own.cancel("ended"), cancel_result::cancelled);
    EXPECT_EQ(schedule("'pending', now(), 'data'"), "exists") << isolation;
    EXPECT_EQ(schedule("'purged', now(), 'data'"), "scheduled") << isolation;
    on.other().run("commit");
    begin();
    meanwhile.run("delete from tasks");
    EXPECT_EQ(schedule("'new', now(), 'data'"), "scheduled") << isolation;
    on.other().run("commit");
    own.put({.id = "ended", .due = durable::clock::time_point{1s}, .payload = "data"});
    begin();
    EXPECT_EQ(own.cancel("ended"), cancel_result::cancelled);
    EXPECT_EQ(on.other().try_to_run("select tickwheel_schedule('ended', now(), 'data')"), "40001") << isolation;
    on.other().run("rollback; delete from tasks");
  }
}

TEST_F(client_functions, schedule_puts_a_task_that_nodes_start) {
  EXPECT_EQ(schedule("'t', '2026-03-01 12:00:00.123456+00', 'data'::bytea"), "scheduled");
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  const durable::clock::time_point due = std::chrono::sys_days{std::chrono::year{2026} / 3 / 1} + 12h + 123'456us;
  EXPECT_EQ(i->what.due, due);
  EXPECT_EQ(i->next, due);
  EXPECT_EQ(i->what.payload, "data");
  EXPECT_EQ(i->what.period, 0ns);
  EXPECT_EQ(own.begin("t").payload, "data");
}

TEST_F(client_functions, schedule_keeps_a_known_task) {
  own.put({.id = "t", .due = durable::clock::time_point{1s}, .payload = "ours"});
  EXPECT_EQ(schedule("'t', now(), 'theirs'"), "exists");
  const revision token = own.begin("t").token;
  EXPECT_EQ(schedule("'t', now(), 'theirs'"), "exists");
  EXPECT_EQ(own.dead("t", token), finish_result::finished);
  EXPECT_EQ(schedule("'t', now(), 'theirs'"), "ended");
  EXPECT_EQ(own.cancel("t"), cancel_result::cancelled);
  EXPECT_EQ(schedule("'t', now(), 'theirs'"), "ended");
}

TEST_F(client_functions, schedule_of_a_known_task_keeps_no_start_waiting) {
  own.put({.id = "t", .due = durable::clock::time_point{1s}});
  on.other().run("begin");
  EXPECT_EQ(schedule("'t', now(), ''"), "exists");
  EXPECT_NE(own.begin("t").token, 0U);
  on.other().run("commit");
}

TEST_F(client_functions, schedule_that_a_trigger_drops_is_refused) {
  on.other().run(
      "create function refuse() returns trigger language plpgsql as $$ begin return null; end $$; "
      "create trigger refuse before insert on tasks for each row execute function refuse(); "
      "set statement_timeout = '10s'");
  EXPECT_EQ(schedule("'t', now(), 'data'"), "refused");
  on.other().run("drop trigger refuse on tasks");
  EXPECT_EQ(schedule("'t', now(), 'data'"), "scheduled");
}

TEST_F(client_functions, schedule_forgets_what_ended_long_ago) {
  EXPECT_EQ(own.done("t", run("t")), finish_result::finished);
  on.shift_clock(2h);
  EXPECT_EQ(schedule("'t', now(), 'theirs'"), "scheduled");
}

TEST_F(client_functions, schedule_of_a_period) {
  EXPECT_EQ(schedule("'t', now() - interval '1 s', 'data', '90 minutes'"), "scheduled");
  EXPECT_EQ(own.get("t")->what.period, 90min);
  EXPECT_EQ(schedule("'u', now(), 'data', period => '0.001 s'"), "scheduled");
  EXPECT_EQ(own.get("u")->what.period, 1ms);
  EXPECT_EQ(schedule("'v', now(), 'data', '0 s', true"), "scheduled");
  EXPECT_EQ(own.get("v")->what.period, 0ns);
}

TEST_F(client_functions, schedule_takes_part_in_the_transaction) {
  on.other().run("begin");
  schedule("'t', now(), 'data'");
  EXPECT_FALSE(own.get("t"));
  on.other().run("rollback");
  EXPECT_FALSE(own.get("t"));
  on.other().run("begin");
  schedule("'t', now(), 'data'");
  on.other().run("commit");
  EXPECT_TRUE(own.get("t"));
}

TEST_F(client_functions, bad_input_raises_22023) {
  for (const char* const id : {"null", "''", "repeat('x', 256)", "E'a\\nb'", "E'a\\u007f'", "U&'a\\0085'"}) {
    expect_invalid(std::string{"tickwheel_schedule("} + id + ", now(), 'data')");
    expect_invalid(std::string{"tickwheel_cancel("} + id + ")");
    expect_invalid(std::string{"tickwheel_done("} + id + ", 1)");
  }
  for (const char* const due :
       {"null", "'infinity'", "'-infinity'", "'1970-01-01 00:00:00+00'", "'1969-01-01'", "'2200-01-01 00:00:00+00'"})
    expect_invalid(std::string{"tickwheel_schedule('t', "} + due + ", 'data')");
  for (const char* const payload : {"null", "decode(repeat('00', 65537), 'hex')"})
    expect_invalid(std::string{"tickwheel_schedule('t', now(), "} + payload + ")");
  for (const char* const period : {"'1 month'", "'1 year'", "'-1 s'", "'0.0009 s'", "'300000 days'"})
    expect_invalid(std::string{"tickwheel_schedule('t', now(), 'data', "} + period + ")");
  expect_invalid("tickwheel_done('t', null)");
  EXPECT_EQ(on.other().run("select count(*) from tasks"), "0");
}

TEST_F(client_functions, schedule_takes_values_at_the_edges) {
  EXPECT_EQ(schedule("repeat('x', 255), '1970-01-01 00:00:00.000001+00', decode(repeat('00', 65536), 'hex')"),
            "scheduled");
  EXPECT_EQ(schedule("'u', '2199-12-31 23:59:59.999999+00', ''"), "scheduled");
  EXPECT_EQ(own.get(std::string(255, 'x'))->what.due, durable::clock::time_point{1us});
  EXPECT_EQ(own.get(std::string(255, 'x'))->what.payload.size(), 65'536U);
}

TEST_F(client_functions, search_path_of_the_caller_does_not_matter) {
  const psql caller{on.server.conninfo()};
  caller.run("create temp table tasks(id text)");
  EXPECT_EQ(caller.run("select " + on.schema() + ".tickwheel_schedule('t', now(), 'data')"), "scheduled");
  EXPECT_EQ(caller.run("select " + on.schema() + ".tickwheel_cancel('t')"), "cancelled");
  EXPECT_EQ(caller.run("select " + on.schema() + ".tickwheel_done('t', 1)"), "stale");
  EXPECT_TRUE(own.get("t"));
}

// docs/cluster.md names these rights.
TEST_F(client_functions, producer_needs_few_rights) {
  const std::string schema = on.schema();
  const std::vector<std::string> rights{"usage on schema " + schema, "select, insert, update on " + schema + ".tasks",
                                        "select on " + schema + ".nodes, " + schema + ".meta",
                                        "usage on sequence " + schema + ".revisions"};
  on.other().run("drop role if exists producer; create role producer login");
  const psql producer{on.server.conninfo("user=producer")};
  const auto schedule_as_producer = [&] {
    return producer.try_to_run("select " + schema + ".tickwheel_schedule('t', now(), 'data', wake => true)");
  };
  for (const std::string& right : rights) {
    EXPECT_EQ(schedule_as_producer(), "42501") << "before " << right;
    on.other().run("grant " + right + " to producer");
  }
  EXPECT_EQ(schedule_as_producer(), "");
  const revision token = own.begin("t").token;
  EXPECT_EQ(producer.run("select " + schema + ".tickwheel_cancel('t')"), "running");
  EXPECT_EQ(producer.run("select " + schema + ".tickwheel_done('t', " + std::to_string(token) + ")"), "finished");
  on.other().run("drop owned by producer; drop role producer");
}

TEST_F(client_functions, cancel_answers_by_the_state) {
  EXPECT_EQ(cancel("none"), "not_found");
  own.put({.id = "pending", .due = durable::clock::time_point{1s}});
  EXPECT_EQ(cancel("pending"), "cancelled");
  EXPECT_EQ(cancel("pending"), "cancelled");
  EXPECT_EQ(state_of("pending"), task_state::cancelled);
  const revision token = run("running");
  EXPECT_EQ(cancel("running"), "running");
  EXPECT_TRUE(own.get("running")->cancelling);
  EXPECT_EQ(own.again("running", token, durable::clock::time_point{1s}), finish_result::finished);
  EXPECT_EQ(state_of("running"), task_state::cancelled);
  EXPECT_EQ(own.dead("dead", run("dead")), finish_result::finished);
  EXPECT_EQ(cancel("dead"), "cancelled");
  EXPECT_EQ(own.done("finished", run("finished")), finish_result::finished);
  EXPECT_EQ(cancel("finished"), "finished");
}

TEST_F(client_functions, cancel_that_a_trigger_drops_is_refused) {
  own.put({.id = "pending", .due = durable::clock::time_point{1s}});
  EXPECT_EQ(own.dead("dead", run("dead")), finish_result::finished);
  run("running");
  drop_changes("new.state = 4 or new.stop");
  for (const char* const id : {"pending", "dead", "running"}) EXPECT_EQ(cancel(id), "refused") << id;
  EXPECT_EQ(state_of("pending"), task_state::pending);
  EXPECT_EQ(state_of("dead"), task_state::dead);
  EXPECT_FALSE(own.get("running")->cancelling);
  drop_no_more();
  EXPECT_EQ(cancel("running"), "running");
  EXPECT_TRUE(own.get("running")->cancelling);
}

TEST_F(client_functions, repeated_cancel_of_a_start_needs_no_change) {
  run("t");
  EXPECT_EQ(cancel("t"), "running");
  drop_changes("true");
  EXPECT_EQ(cancel("t"), "running");
}

TEST_F(client_functions, done_that_a_trigger_drops_is_refused) {
  own.put({.id = "periodic", .due = durable::clock::time_point{1s}, .period = 1h});
  const revision periodic = own.begin("periodic").token, once = run("once");
  drop_changes("new.ended <> old.ended");
  EXPECT_EQ(done("once", once), "refused");
  EXPECT_EQ(done("periodic", periodic), "refused");
  EXPECT_EQ(state_of("once"), task_state::running);
  EXPECT_EQ(state_of("periodic"), task_state::running);
  drop_no_more();
  EXPECT_EQ(done("once", once), "finished");
  EXPECT_EQ(done("periodic", periodic), "finished");
}

TEST_F(client_functions, ended_id_is_kept_from_the_end_of_a_wait_for_its_row_on) {
  const revision token = run("done");
  own.put({.id = "cancelled", .due = durable::clock::time_point{1s}});
  on.other().run("begin; select from tasks for update");
  const auto call = [&](const std::string& function) {
    return std::async(std::launch::async, [&, function] {
      return psql{on.server.conninfo()}.run("select " + on.schema() + '.' + function);
    });
  };
  std::future<std::string> done = call("tickwheel_done('done', " + std::to_string(token) + ")");
  std::future<std::string> cancelled = call("tickwheel_cancel('cancelled')");
  const psql watch{on.server.conninfo()};
  while (watch.run("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") != "2")
    ASSERT_NE(done.wait_for(0s), std::future_status::ready) << "it has not waited";
  const std::string released = on.other().run("select now_ns()");
  on.other().run("commit");
  EXPECT_EQ(done.get(), "finished");
  EXPECT_EQ(cancelled.get(), "cancelled");
  EXPECT_EQ(on.other().run("select count(*) from tasks where gone >= " + released), "2");
}

TEST_F(client_functions, done_ends_a_start_once) {
  const revision token = run("t");
  EXPECT_EQ(done("t", token + 1), "stale");
  EXPECT_EQ(done("t", 0), "stale");
  EXPECT_EQ(done("none", token), "stale");
  EXPECT_EQ(done("t", token), "finished");
  EXPECT_EQ(state_of("t"), task_state::finished);
  EXPECT_EQ(done("t", token), "finished");
  EXPECT_EQ(own.done("t", token), finish_result::finished) << "the execution's own answer changes nothing";
}

TEST_F(client_functions, done_takes_part_in_the_transaction) {
  const revision token = run("t");
  on.other().run("begin");
  EXPECT_EQ(done("t", token), "finished");
  on.other().run("rollback");
  EXPECT_EQ(state_of("t"), task_state::running);
  EXPECT_EQ(own.done("t", token), finish_result::finished);
}

TEST_F(client_functions, done_of_a_period_makes_it_pending) {
  own.get("t");
  const auto due = std::chrono::floor<std::chrono::microseconds>(own.now()) - 90min;
  own.put({.id = "t", .due = due, .payload = "data", .period = 1h});
  const revision token = own.begin("t").token;
  EXPECT_EQ(done("t", token), "finished");
  const auto i = own.get("t");
  EXPECT_EQ(i->state, task_state::pending);
  EXPECT_EQ(i->what.due, due + 2h);
  EXPECT_EQ(i->next, due + 2h);
  EXPECT_EQ(i->attempts, 0U);
  EXPECT_EQ(i->what.payload, "data");
}

TEST_F(client_functions, done_of_a_period_that_stops_cancels_it) {
  own.put({.id = "t", .due = durable::clock::time_point{1s}, .period = 1h});
  const revision token = own.begin("t").token;
  EXPECT_EQ(cancel("t"), "running");
  EXPECT_EQ(done("t", token), "finished");
  EXPECT_EQ(state_of("t"), task_state::cancelled);
}

TEST_F(client_functions, open_cancel_does_not_hide_a_doubted_start) {
  run("t");
  const psql canceller{on.server.conninfo()};
  canceller.run("begin; select " + on.schema() + ".tickwheel_cancel('t')");
  asked<durable::recover_call> c;
  c.session = own.session();
  c.max_attempts = 8;
  c.doubted = {"t"};
  own.run(c);
  EXPECT_TRUE(c.doubted.empty());  // so the node still doubts it
  canceller.run("commit");
  EXPECT_EQ(state_of("t"), task_state::running);
  own.recover(8, {"t"});
  EXPECT_EQ(state_of("t"), task_state::cancelled);
}

}  // namespace
