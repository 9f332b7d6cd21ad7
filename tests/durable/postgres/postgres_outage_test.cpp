// The answers of a postgres_store when a connection, a server or another client stands in its way.
#include "joining.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>
#include <thread>

using namespace conformance;
using durable::cancel_result;
using durable::finish_result;
using durable::revision;
using durable::schedule_result;
using durable::session_number;
using durable::store_status;
using durable::task_state;

namespace {

/// A node on the shared server, and another client.
class postgres_client : public testing::Test {
 protected:
  void SetUp() override {
    on.options.repeat_timeout = 400ms;
    own = std::make_unique<node>(on);
    own->start();
  }
  void TearDown() override { own->close(); }

  /// Opens the store anew, with the options as they are now.
  void reopen() {
    own->close();
    own = std::make_unique<node>(on);
    own->start();
  }

  durable::task due(const std::string& id) const {
    return {.id = id, .due = durable::clock::time_point{1s}, .payload = "data"};
  }
  /// Calls until the store answers `ok` again.
  template <class Call>
  void run_until_ok(asked<Call>& c) {
    for (int tries = 0; tries < 1000; ++tries) {
      c.answers = 0;
      call_runner{on}.run(own->store(), c);
      if (c.status == store_status::ok) return;
      on.turn();
    }
    ADD_FAILURE() << "it never answered ok again: " << own->store().problem();
  }
  void wait_until_back() {
    asked<durable::get_call> c;
    run_until_ok(c);
  }
  /// Ends the backends of the store, and returns how many there were.
  std::string end_backends() { return on.other().run("select count(pg_terminate_backend(pid::integer)) from links"); }

  postgres_fixture on;
  std::unique_ptr<node> own;
};

class postgres_lock : public postgres_client {};

TEST_F(postgres_lock, cancel_passes_over_a_row_that_is_held) {
  own->put(due("held"));
  own->put(due("free"));
  on.other().run("begin; select * from tasks where id = 'held' for update");
  asked<durable::cancel_call> c;
  c.ids = {"held", "free"};
  own->run(c);
  EXPECT_EQ(c.results, (std::vector{cancel_result::unavailable, cancel_result::cancelled}));
  on.other().run("rollback");
  EXPECT_EQ(own->cancel("held"), cancel_result::cancelled);
}

TEST_F(postgres_lock, call_for_a_held_row_alone_is_unavailable) {
  own->put(due("held"));
  on.other().run("begin; select * from tasks where id = 'held' for update");
  asked<durable::cancel_call> c;
  c.ids = {"held"};
  call_runner{on}.run(own->store(), c);
  EXPECT_EQ(c.status, store_status::unavailable);
  on.other().run("rollback");
}

TEST_F(postgres_lock, held_row_is_left_if_the_caller_sends_it_again) {
  on.options.repeat_timeout = 1h;
  reopen();
  for (const char* id : {"running", "pending", "free"}) own->put(due(id));
  const revision token = own->begin("running").token;
  on.other().run("begin; select * from tasks where id in ('running', 'pending') for update");
  for (const bool is_held : {true, false}) {
    if (!is_held) on.other().run("rollback");
    const auto held = [=](std::vector<bool> which) { return is_held ? which : std::vector<bool>{}; };

    asked<durable::put_call> put;
    put.leaves_held = true;
    put.items.push_back({due("pending"), durable::on_conflict::replace});
    put.items.push_back({due("free"), durable::on_conflict::keep});
    own->run(put);
    EXPECT_EQ(put.held, held({true, false}));
    EXPECT_EQ(put.items[0].what.id, "pending") << "as it was";
    EXPECT_EQ(put.results[1].result, schedule_result::exists);
    if (!is_held) {
      EXPECT_EQ(put.results[0].result, schedule_result::replaced);
    }

    asked<durable::cancel_call> cancel;
    cancel.leaves_held = true;
    cancel.ids = {"unknown", "pending"};
    own->run(cancel);
    EXPECT_EQ(cancel.held, held({false, true}));
    EXPECT_EQ(cancel.results[0], cancel_result::not_found);
    if (!is_held) {
      EXPECT_EQ(cancel.results[1], cancel_result::cancelled);
    }

    asked<durable::finish_call> finish;
    finish.leaves_held = true;
    finish.items.push_back({.id = "running", .token = token, .how = durable::outcome::done});
    own->run(finish);
    EXPECT_EQ(finish.held, held({true}));
    if (!is_held) {
      EXPECT_EQ(finish.results, std::vector{durable::finish_result::finished});
    }
  }
}

TEST_F(postgres_lock, each_of_many_ids_that_another_client_inserts_is_left) {
  on.options.repeat_timeout = 10ms;
  reopen();
  on.other().run("begin; select tickwheel_schedule('their ' || i, now(), '') from generate_series(0, 9) i");
  asked<durable::put_call> c;
  c.leaves_held = true;
  for (int i = 0; i != 100; ++i) {
    const std::string id = i % 10 == 0 ? "their " + std::to_string(i / 10) : "ours " + std::to_string(i);
    c.items.push_back({due(id), durable::on_conflict::keep});
  }
  own->run(c);
  ASSERT_EQ(c.held.size(), 100U);
  for (std::size_t i = 0; i != 100; ++i) {
    EXPECT_EQ(c.held[i], i % 10 == 0) << c.items[i].what.id;
    EXPECT_EQ(c.results[i].result, i % 10 == 0 ? schedule_result::unavailable : schedule_result::scheduled);
  }
  on.other().run("rollback");
}

TEST_F(postgres_lock, held_row_is_written_when_it_is_free) {
  on.options.repeat_timeout = 10s;
  reopen();
  own->put(due("held"));
  on.other().run("begin; select * from tasks where id = 'held' for update");
  asked<durable::cancel_call> c;
  c.ids = {"held"};
  call(own->store(), c);
  for (int turns = 0; turns < 10; ++turns) on.turn();
  EXPECT_FALSE(c.is_answered());
  EXPECT_EQ(own->put(due("other")).result, schedule_result::scheduled) << "others need not wait";
  on.other().run("rollback");
  call_runner{on}.wait_for(c);
  EXPECT_EQ(c.results, std::vector{cancel_result::cancelled});
}

TEST_F(postgres_lock, requests_for_a_held_id_keep_their_order) {
  own->put(due("held"));
  on.other().run("begin; select * from tasks where id = 'held' for update");
  asked<durable::cancel_call> cancel;
  cancel.ids = {"held"};
  call(own->store(), cancel);
  for (int turns = 0; turns < 5; ++turns) on.turn();
  asked<durable::put_call> keep;
  keep.items.push_back({due("held"), durable::on_conflict::keep});
  call(own->store(), keep);
  asked<durable::list_call> list;
  list.state = task_state::cancelled;
  list.limit = 10;
  call(own->store(), list);
  for (int turns = 0; turns < 3; ++turns) on.turn();
  EXPECT_FALSE(keep.is_answered());
  EXPECT_FALSE(list.is_answered());
  on.other().run("rollback");
  call_runner{on}.wait_for(list);
  EXPECT_EQ(cancel.results, std::vector{cancel_result::cancelled});
  EXPECT_EQ(keep.results.at(0).result, schedule_result::ended);
  EXPECT_EQ(list.results.size(), 1U);
}

TEST_F(postgres_lock, put_waits_for_a_forgotten_row_that_is_held) {
  on.options.repeat_timeout = 10s;
  reopen();
  own->put(due("t"));
  EXPECT_EQ(own->cancel("t"), cancel_result::cancelled);
  on.shift_clock(1h);
  const psql purging{on.conninfo};
  purging.run("begin; select * from " + on.schema() + ".tasks where id = 't' for update");
  asked<durable::put_call> c;
  c.items.push_back({due("t"), durable::on_conflict::keep});
  call(own->store(), c);
  for (int turns = 0; turns < 30; ++turns) on.turn();
  EXPECT_FALSE(c.is_answered());
  purging.run("rollback");
  call_runner{on}.wait_for(c);
  EXPECT_EQ(c.results.at(0).result, schedule_result::scheduled);
}

TEST_F(postgres_lock, begin_passes_over_a_row_that_is_held) {
  const revision held = own->put(due("held")).rev, free = own->put(due("free")).rev;
  on.other().run("begin; select * from tasks where id = 'held' for update");
  asked<durable::begin_call> c;
  c.session = own->session();
  c.items = {{"held", held}, {"free", free}};
  own->run(c);
  ASSERT_EQ(c.starts.size(), 1U);
  EXPECT_EQ(c.starts[0].index, 1U);
  on.other().run("rollback");
  EXPECT_TRUE(own->begin("held", held));
}

TEST_F(postgres_lock, finish_of_a_held_row_is_never_stale) {
  own->put(due("held"));
  own->put(due("free"));
  const revision held = own->begin("held").token, free = own->begin("free").token;
  on.other().run("begin; select * from tasks where id = 'held' for update");
  asked<durable::finish_call> c;
  c.items.push_back({.id = "held", .token = held, .how = durable::outcome::done});
  c.items.push_back({.id = "free", .token = free, .how = durable::outcome::done});
  call_runner{on}.run(own->store(), c);
  EXPECT_EQ(c.status, store_status::ok);
  EXPECT_EQ(c.results, (std::vector{finish_result::unknown, finish_result::finished}));
  on.other().run("rollback");
  c.answers = 0;
  own->run(c);
  EXPECT_EQ(c.results, std::vector(2, finish_result::finished));
}

TEST_F(postgres_lock, release_and_later_begins_do_not_wait_for_the_finish_of_a_held_row) {
  on.options.repeat_timeout = 10s;
  reopen();
  own->put(due("held"));
  const revision held = own->begin("held").token, free = own->put(due("free")).rev;
  on.other().run("begin; select * from tasks where id = 'held' for update");
  asked<durable::finish_call> finish;
  finish.items.push_back({.id = "held", .token = held, .how = durable::outcome::done});
  call(own->store(), finish);
  for (int turns = 0; turns < 5; ++turns) on.turn();
  asked<durable::release_call> release;
  release.session = own->session();
  for (const auto p : own->owned())
    if (p != own->load().at(0).partition) release.partitions.push_back(p);  // all but that of `free`
  call(own->store(), release);
  EXPECT_TRUE(own->begin("free", free));
  call_runner{on}.wait_for(release);
  EXPECT_FALSE(finish.is_answered());
  on.other().run("rollback");
  call_runner{on}.wait_for(finish);
  EXPECT_EQ(finish.results, std::vector{finish_result::finished});
}

TEST_F(postgres_lock, release_that_waits_for_a_lock_does_not_hold_up_the_next_owner) {
  node next{on};
  next.start(1h, "next");
  on.other().run("begin; select from parts for update");
  asked<durable::release_call> release;
  release.session = own->session();
  release.partitions = own->owned();
  release.to = next.session();
  call(own->store(), release);
  for (int turns = 0; turns != 5; ++turns) on.turn();
  for (int renewals = 0; renewals != 3; ++renewals) EXPECT_TRUE(next.member(next.session()));
  EXPECT_FALSE(release.is_answered());
  EXPECT_EQ(next.store().problem(), "");
  on.other().run("rollback");
  call_runner{on}.wait_for(release);
  EXPECT_EQ(next.member(next.session())->partitions, own->partitions());
}

TEST_F(postgres_lock, burial_that_a_lock_excludes_does_not_hold_up_the_link) {
  node dead{on};
  dead.start(1h, "dead");
  const session_number session = dead.session();
  const auto beat = own->member(session)->beat;
  on.other().run("begin; select from nodes where session = " + std::to_string(session) + " for update");
  asked<durable::bury_call> bury;
  bury.session = session;
  bury.beat = beat;
  call(own->store(), bury);
  for (int renewals = 0; renewals != 3; ++renewals) EXPECT_TRUE(own->member(session)) << "renewals go on";
  EXPECT_EQ(own->store().problem(), "") << "no statement was ended by its timeout";
  call_runner{on}.wait_for(bury);
  EXPECT_EQ(bury.status, store_status::unavailable);
  EXPECT_EQ(own->store().problem(), "another client holds the row of a node");
  on.other().run("rollback");
  EXPECT_TRUE(own->bury(session, beat));
}

TEST_F(postgres_lock, statement_that_takes_too_long_is_undone) {
  on.options.answer_timeout = 150ms;
  on.options.repeat_timeout = 300ms;
  reopen();
  on.other().run(
      "create function slow_down() returns trigger language plpgsql as $$ begin perform pg_sleep(10); return new; end "
      "$$; create trigger slow_down before insert on tasks for each row execute function slow_down()");
  asked<durable::put_call> c;
  c.items.push_back({due("t"), durable::on_conflict::keep});
  call_runner{on}.run(own->store(), c);
  EXPECT_EQ(c.status, store_status::unavailable);
  EXPECT_EQ(own->store().problem(), "canceling statement due to statement timeout");
  EXPECT_TRUE(on.log.empty()) << on.log[0];
  on.other().run("drop trigger slow_down on tasks");
  EXPECT_FALSE(own->get("t"));
  own->put(due("t"));
  EXPECT_TRUE(own->get("t"));
}

TEST_F(postgres_lock, put_waits_for_the_id_that_another_client_inserts) {
  on.other().run("begin");
  EXPECT_EQ(on.other().run("select tickwheel_schedule('t', now(), 'theirs')"), "scheduled");
  asked<durable::put_call> c;
  c.items.push_back({due("t"), durable::on_conflict::keep});
  c.items.push_back({due("u"), durable::on_conflict::keep});
  own->run(c);
  EXPECT_EQ(c.status, store_status::ok);
  on.other().run("commit");
  EXPECT_EQ(own->put(due("t")).result, schedule_result::exists);
  EXPECT_EQ(own->get("t")->what.payload, "theirs");
}

TEST_F(postgres_lock, put_does_not_wait_for_a_slow_put_of_other_ids) {
  on.other().run(
      "create table go(); create function wait() returns trigger language plpgsql as $$ begin while new.id = 'slow' "
      "and "
      "not exists (select from go) loop perform pg_sleep(0.001); end loop; return new; end $$; "
      "create trigger wait before insert on tasks for each row execute function wait()");
  asked<durable::put_call> slow, quick;
  slow.items.push_back({due("slow"), durable::on_conflict::keep});
  quick.items.push_back({due("quick"), durable::on_conflict::keep});
  asked<durable::list_call> list;
  list.state = task_state::pending;
  list.limit = 10;
  call(own->store(), slow);
  call(own->store(), quick);
  call(own->store(), list);
  while (on.other().run("select count(*) from tasks") == "0") on.turn();
  EXPECT_FALSE(slow.is_answered());
  EXPECT_FALSE(quick.is_answered()) << "puts are answered in the order of the calls";
  EXPECT_EQ(own->store().problem(), "") << "no statement was ended by its timeout";
  on.other().run("insert into go default values");
  call_runner{on}.wait_for(list);
  EXPECT_EQ(slow.results.at(0).result, schedule_result::scheduled);
  EXPECT_EQ(quick.results.at(0).result, schedule_result::scheduled);
  EXPECT_EQ(list.results.size(), 2U) << "a list waits for all earlier puts";
}

// The pause of a call ends while the store is in another call's callback.
TEST_F(postgres_lock, call_goes_on_after_a_slow_callback) {
  struct slow_cancel final : durable::cancel_call {
    slow_cancel() : cancel_call{&on_answered} {}
    static void on_answered(durable::store_call& c) noexcept {
      std::this_thread::sleep_for(300ms);  // no pause is longer
      static_cast<slow_cancel&>(c).is_answered = true;
    }
    bool is_answered = false;
  };
  own->put(due("first"));
  own->put(due("second"));
  on.other().run("begin; select * from tasks for update");
  slow_cancel first;
  first.ids = {"first"};
  own->store().cancel(first);
  for (int turns = 0; turns < 10; ++turns) on.turn();
  asked<durable::put_call> second;
  second.items.push_back({due("second"), durable::on_conflict::replace});
  call(own->store(), second);
  while (!first.is_answered) on.turn();
  // on a busy machine the other pause has ended, too
  call_runner{on}.wait_for(second);
  on.other().run("rollback");
}

class postgres_outage : public postgres_client {};

TEST_F(postgres_outage, lost_connections_are_made_anew) {
  own->put(due("t"));
  const revision token = own->begin("t").token;
  EXPECT_EQ(end_backends(), "4");
  wait_until_back();
  asked<durable::renew_call> c;
  own->renew(c);
  EXPECT_FALSE(c.is_buried) << "the session is the same";
  EXPECT_EQ(c.partitions.size(), 4U);
  EXPECT_EQ(own->done("t", token), finish_result::finished);
  ASSERT_EQ(on.log.size(), 2U);
  EXPECT_NE(on.log[0].find("the connection is lost: terminating connection due to administrator command"),
            std::string::npos)
      << on.log[0];
  EXPECT_EQ(on.log[1], "postgres_store: connected");
  EXPECT_EQ(on.other().run("select count(*) from links l join pg_stat_activity a on a.pid = l.pid"), "4");
}

TEST_F(postgres_outage, one_lost_link_is_made_anew) {
  for (const std::size_t lost : {0U, 1U, 2U, 3U}) {
    const std::string pid =
        on.other().run("select pid from links order by pid offset " + std::to_string(lost) + " limit 1");
    on.other().run("select pg_terminate_backend(" + pid + ")");
    for (int turns = 0; on.log.size() < 2 * (lost + 1) && turns < 1000; ++turns) on.turn();
    ASSERT_EQ(on.log.size(), 2 * (lost + 1));
    own->put(due("t" + pid));
    EXPECT_TRUE(own->get("t" + pid));
  }
}

// Programs that capture changes make one. It forbids changes of tables without a key.
TEST_F(postgres_outage, publication_for_all_tables_obstructs_nothing) {
  on.other().run("create publication everything for all tables");
  node lost{on};
  lost.join(1h, "lost");
  own->bury(lost.session());
  EXPECT_EQ(on.other().run("select count(distinct session) from links"), "1");
  end_backends();
  wait_until_back();
  own->close();
  EXPECT_EQ(on.other().run("select count(*) from nodes"), "0");
  own->start();
  on.other().run("drop publication everything");
}

TEST_F(postgres_outage, calls_in_flight_are_unknown_and_reads_unavailable) {
  own->put(due("held"));
  on.other().run("begin; lock table tasks in access exclusive mode");
  asked<durable::put_call> put, second;
  put.items.push_back({due("t"), durable::on_conflict::keep});
  second.items.push_back({due("t"), durable::on_conflict::keep});
  second.items.push_back({due("u"), durable::on_conflict::keep});
  asked<durable::load_call> load;
  load.ranges.push_back({0, {}, {}});
  load.page = 1;
  call(own->store(), put);
  call(own->store(), second);
  call(own->store(), load);
  for (int turns = 0; turns < 3; ++turns) on.turn();
  psql{on.server.conninfo()}.run(
      "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'");
  call_runner runner{on};
  runner.wait_for(put);
  runner.wait_for(second);
  runner.wait_for(load);
  EXPECT_EQ(put.status, store_status::unknown);
  EXPECT_EQ(second.status, store_status::unavailable) << "it was not sent, because it shares an id with the first";
  EXPECT_EQ(load.status, store_status::unavailable);
  on.other().run("rollback");
  wait_until_back();
  EXPECT_FALSE(own->get("t")) << "it took effect after it was answered";
  EXPECT_FALSE(own->get("u"));
}

// The client's side is cut off, and the server does not notice: the backend would carry the call out later.
TEST_F(postgres_outage, call_given_up_takes_no_effect_later) {
  on.options.answer_timeout = 1s;
  reopen();
  on.other().run("begin; lock table tasks in access exclusive mode");
  // the backend waits for longer than its client
  on.other().run("alter role tester set lock_timeout = 0");
  asked<durable::put_call> put;
  put.items.push_back({due("t"), durable::on_conflict::keep});
  call_runner{on}.run(own->store(), put);
  EXPECT_NE(put.status, store_status::ok);
  on.other().run("rollback; alter role tester reset lock_timeout");
  wait_until_back();
  EXPECT_FALSE(own->get("t"));
}

/// A server of its own, which the test stops.
class postgres_server : public testing::Test {
 protected:
  test_server server;
  postgres_fixture on{server};
};

TEST_F(postgres_server, crash_keeps_what_was_answered) {
  node own{on};
  own.start();
  own.put({.id = "t", .due = durable::clock::time_point{1s}, .payload = "data"});
  own.put({.id = "u", .due = durable::clock::time_point{1s}, .payload = "data"});
  const revision token = own.begin("t").token;
  server.kill();
  asked<durable::put_call> put;
  put.items.push_back({{.id = "v", .due = durable::clock::time_point{1s}}, durable::on_conflict::keep});
  call_runner{on}.run(own.store(), put);
  EXPECT_NE(put.status, store_status::ok);
  for (int turns = 0; turns < 20; ++turns) on.turn();
  server.start();
  asked<durable::get_call> get;
  get.ids = {"t", "u"};
  get.status = store_status::unavailable;
  for (int tries = 0; tries < 1000; ++tries) {
    get.answers = 0;
    call_runner{on}.run(own.store(), get);
    if (get.status == store_status::ok) break;
    on.turn();
  }
  ASSERT_EQ(get.status, store_status::ok) << own.store().problem();
  EXPECT_EQ(get.results.at(0).value().state, task_state::running);
  EXPECT_EQ(get.results.at(1).value().state, task_state::pending);
  EXPECT_EQ(own.done("t", token), finish_result::finished);
  const revision later = own.begin("u").token;
  EXPECT_GT(later, token);
  own.close();
}

TEST_F(postgres_server, frozen_server_is_given_up) {
  on.options.answer_timeout = 2s;
  on.options.repeat_timeout = 100ms;
  node own{on};
  own.start();
  server.freeze();
  asked<durable::put_call> put, second;
  put.items.push_back({{.id = "t", .due = durable::clock::time_point{1s}}, durable::on_conflict::keep});
  second.items.push_back({{.id = "u", .due = durable::clock::time_point{1s}}, durable::on_conflict::keep});
  call_runner{on}.run(own.store(), put);
  EXPECT_EQ(put.status, store_status::unknown);
  call_runner{on}.run(own.store(), second);
  EXPECT_EQ(second.status, store_status::unavailable);
  server.thaw();
  asked<durable::get_call> get;
  get.ids = {"t", "u"};
  get.status = store_status::unavailable;
  for (int tries = 0; tries < 1000 && get.status != store_status::ok; ++tries) {
    get.answers = 0;
    call_runner{on}.run(own.store(), get);
    on.turn();
  }
  ASSERT_EQ(get.status, store_status::ok) << own.store().problem();
  EXPECT_FALSE(get.results.at(1)) << "it was never sent";
  own.close();
}

TEST_F(postgres_server, close_while_it_is_frozen_does_not_hang) {
  node own{on};
  own.start();
  server.freeze();
  asked<durable::put_call> put;
  put.items.push_back({{.id = "t", .due = durable::clock::time_point{1s}}, durable::on_conflict::keep});
  call(own.store(), put);
  const auto before = std::chrono::steady_clock::now();
  own.close();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);
  EXPECT_EQ(put.status, store_status::unknown);
  server.thaw();
}

TEST_F(postgres_server, close_waits_for_all_links_together) {
  node own{on};
  own.start();
  server.freeze();
  asked<durable::put_call> put, other;
  put.items.push_back({{.id = "t", .due = durable::clock::time_point{1s}}, durable::on_conflict::keep});
  other.items.push_back({{.id = "u", .due = durable::clock::time_point{1s}}, durable::on_conflict::keep});
  asked<durable::finish_call> finish;
  finish.items.push_back({.id = "v", .token = 1, .how = durable::outcome::done});
  asked<durable::renew_call> renew;
  renew.session = own.session();
  renew.lease = 1h;
  call(own.store(), put);
  call(own.store(), other);
  call(own.store(), finish);
  call(own.store(), renew);
  const auto before = std::chrono::steady_clock::now();
  own.close();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 1500ms) << "one after the other takes 2 s";
  EXPECT_EQ(put.status, store_status::unknown);
  EXPECT_EQ(other.status, store_status::unknown);
  server.thaw();
}

TEST(postgres_setting, unsafe_server_is_named_in_a_line) {
  test_server unsafe{{"fsync = off", "full_page_writes = off"}};
  postgres_fixture on{unsafe};
  EXPECT_EQ(try_to_join(on).error, 0);
  ASSERT_EQ(on.log.size(), 2U);
  EXPECT_EQ(on.log[0], "postgres_store: fsync is off on the server: a crash of its machine loses tasks");
  EXPECT_EQ(on.log[1],
            "postgres_store: full_page_writes is off on the server: a crash of its machine may damage the tables");
}

TEST(postgres_setting, host_names_are_resolved) {
  postgres_fixture on;
  const std::string both = "host=localhost," + on.server.folder() + " port=1,5432 user=tester dbname=postgres";
  EXPECT_EQ(try_to_join(on, both).error, 0);
  const join_answer a = try_to_join(on, "host=localhost port=1 user=tester dbname=postgres");
  EXPECT_EQ(a.status, store_status::unavailable);
  EXPECT_NE(a.problem.find("Connection refused"), std::string::npos) << a.problem;
}

TEST(postgres_setting, lines_of_hosts_that_take_turns_are_written_once) {
  postgres_fixture on;
  const std::string folder = on.server.folder();
  const auto store = on.make_store("host=" + folder + "/one," + folder + "/two user=tester dbname=postgres");
  ASSERT_EQ(store->open(on.timers()), 0);
  for (int tries = 0; tries < 5; ++tries) {
    asked<durable::join_call> c;
    c.name = "a";
    c.lease = 1h;
    call_runner{on}.run(*store, c);
    EXPECT_EQ(c.status, store_status::unavailable);
  }
  ASSERT_EQ(on.log.size(), 2U) << "one begins with the first host, and one with the second";
  for (const std::string& line : on.log) EXPECT_EQ(line.find('\t'), std::string::npos) << line;
  store->close();
}

class postgres_log : public postgres_client {};

TEST_F(postgres_log, line_of_each_verb_that_fails_is_written_once) {
  const auto ask = [&](auto& c) { call_runner{on}.run(own->store(), c); };
  own->put(due("a"));
  on.other().run("alter function now_ns() rename to hidden");
  for (int round = 0; round < 2; ++round) {
    asked<durable::put_call> put;
    put.items.push_back({due("b"), durable::on_conflict::keep});
    asked<durable::cancel_call> cancel;
    cancel.ids = {"a"};
    asked<durable::revive_call> revive;
    revive.ids = {"a"};
    asked<durable::get_call> get;
    get.ids = {"a"};
    asked<durable::begin_call> begin;
    begin.session = own->session();
    begin.items.push_back({"a", 1});
    asked<durable::finish_call> finish;
    finish.items.push_back({.id = "a", .token = 1});
    asked<durable::load_call> load;
    load.ranges.push_back({own->owned().front(), {}, {}});
    load.page = 1;
    asked<durable::list_call> list;
    list.limit = 1;
    asked<durable::renew_call> renew;
    renew.session = own->session();
    renew.lease = 1h;
    asked<durable::recover_call> recover;
    recover.session = own->session();
    asked<durable::purge_call> purge;
    purge.limit = 1;
    ask(put);
    ask(cancel);
    ask(revive);
    ask(get);
    ask(begin);
    ask(finish);
    ask(load);
    ask(list);
    ask(renew);
    ask(recover);
    ask(purge);
  }
  on.other().run("alter function hidden() rename to now_ns");
  EXPECT_GT(on.log.size(), 8U);
  for (const std::string& line : on.log) EXPECT_EQ(std::count(on.log.begin(), on.log.end(), line), 1) << line;
  EXPECT_EQ(own->cancel("a"), cancel_result::cancelled) << "the connections were never lost";
}

class postgres_trigger : public postgres_client {
 protected:
  void SetUp() override {
    postgres_client::SetUp();
    own->put(due("bad"));
    own->put(due("good"));
  }
  /// Lets a trigger drop each change of the task "bad", without an error.
  void drop_bad() {
    on.other().run(
        "create function drop_bad() returns trigger language plpgsql as $$ begin return null; end $$; "
        "create trigger drop_bad before update on tasks for each row when (new.id = 'bad') execute function "
        "drop_bad()");
  }
  void drop_no_more() { on.other().run("drop trigger drop_bad on tasks"); }
  std::vector<cancel_result> cancel_both() {
    asked<durable::cancel_call> c;
    c.ids = {"bad", "good"};
    own->run(c);
    return c.results;
  }
  std::vector<schedule_result> put_three() {
    asked<durable::put_call> c;
    for (const char* id : {"first", "bad one", "second"}) c.items.push_back({due(id), durable::on_conflict::keep});
    own->run(c);
    std::vector<schedule_result> answers;
    for (const auto& r : c.results) answers.push_back(r.result);
    return answers;
  }
  revision rev_of(const std::string& id) {
    return static_cast<revision>(std::stoull(on.other().run("select rev from tasks where id = '" + id + "'")));
  }
  /// Begins both tasks in one batch, and returns the ids of those that started.
  std::vector<std::string> begin_both() {
    asked<durable::begin_call> c;
    c.session = own->session();
    for (const durable::pending_row& r : own->load())
      if (r.id == "bad" || r.id == "good") c.items.push_back({r.id, r.rev});
    EXPECT_EQ(c.items.size(), 2U);
    own->run(c);
    std::vector<std::string> ids;
    for (const auto& s : c.starts) ids.push_back(c.items[s.index].id);
    return ids;
  }
};

TEST_F(postgres_trigger, error_with_its_own_code_refuses_one_element) {
  on.refuse_bad("MY001");
  EXPECT_EQ(put_three(),
            (std::vector{schedule_result::scheduled, schedule_result::refused, schedule_result::scheduled}));
  EXPECT_EQ(begin_both(), std::vector<std::string>{"good"});
}

// The row is still running: nobody recovers it while its node lives, so the node must end it again.
TEST_F(postgres_trigger, refused_finish_is_never_stale) {
  const revision bad = own->begin("bad").token, good = own->begin("good").token;
  on.refuse_bad("P0001");
  asked<durable::finish_call> c;
  c.items.push_back({.id = "bad", .token = bad, .how = durable::outcome::done});
  c.items.push_back({.id = "good", .token = good, .how = durable::outcome::done});
  own->run(c);
  EXPECT_EQ(c.results, (std::vector{finish_result::unknown, finish_result::finished}));
  EXPECT_EQ(own->get("bad")->state, task_state::running);
  on.refuse_no_more();
  EXPECT_EQ(own->done("bad", bad), finish_result::finished);
}

TEST_F(postgres_trigger, dropped_cancel_is_unavailable) {
  drop_bad();
  EXPECT_EQ(cancel_both(), (std::vector{cancel_result::unavailable, cancel_result::cancelled}));
  EXPECT_EQ(own->get("bad")->state, task_state::pending);
}

TEST_F(postgres_trigger, dropped_cancel_of_a_start_is_unavailable) {
  own->begin("bad");
  own->begin("good");
  drop_bad();
  EXPECT_EQ(cancel_both(), (std::vector{cancel_result::unavailable, cancel_result::running}));
  EXPECT_FALSE(own->get("bad")->cancelling);
  drop_no_more();
  EXPECT_EQ(own->cancel("bad"), cancel_result::running);
  on.other().run("create trigger drop_bad before update on tasks for each row execute function drop_bad()");
  EXPECT_EQ(own->cancel("bad"), cancel_result::running) << "a repeated cancel changes nothing";
}

TEST_F(postgres_trigger, dropped_replace_is_refused) {
  drop_bad();
  asked<durable::put_call> c;
  for (const char* const id : {"bad", "good"}) c.items.push_back({due(id), durable::on_conflict::replace});
  own->run(c);
  EXPECT_EQ(c.results[0].result, schedule_result::refused);
  EXPECT_EQ(c.results[1].result, schedule_result::replaced);
}

TEST_F(postgres_trigger, dropped_schedule_of_a_forgotten_id_is_refused) {
  EXPECT_EQ(own->cancel("bad"), cancel_result::cancelled);
  on.advance(2h);
  drop_bad();
  EXPECT_EQ(own->put(due("bad")).result, schedule_result::refused);
}

TEST_F(postgres_trigger, dropped_begin_starts_nothing) {
  drop_bad();
  EXPECT_EQ(begin_both(), std::vector<std::string>{"good"});
}

TEST_F(postgres_trigger, dropped_finish_is_unknown) {
  const revision bad = own->begin("bad").token, good = own->begin("good").token;
  drop_bad();
  asked<durable::finish_call> c;
  c.items.push_back({.id = "bad", .token = bad, .how = durable::outcome::done});
  c.items.push_back({.id = "good", .token = good, .how = durable::outcome::done});
  own->run(c);
  EXPECT_EQ(c.results, (std::vector{finish_result::unknown, finish_result::finished}));
  EXPECT_EQ(own->get("bad")->state, task_state::running);
  drop_no_more();
  EXPECT_EQ(own->done("bad", bad), finish_result::finished);
}

TEST_F(postgres_trigger, dropped_revive_is_unavailable) {
  for (const char* const id : {"bad", "good"}) EXPECT_EQ(own->dead(id, own->begin(id).token), finish_result::finished);
  drop_bad();
  asked<durable::revive_call> c;
  c.ids = {"bad", "good"};
  own->run(c);
  EXPECT_EQ(c.results[0].result, durable::revive_result::unavailable);
  EXPECT_EQ(c.results[1].result, durable::revive_result::revived);
  EXPECT_EQ(own->get("bad")->state, task_state::dead);
}

TEST_F(postgres_trigger, dropped_recovery_does_not_count) {
  own->begin("bad");
  own->begin("good");
  own->lose();
  drop_bad();
  EXPECT_EQ(own->recover(), (node::recovery{.recovered = 1}));
  EXPECT_EQ(own->get("bad")->state, task_state::running);
  drop_no_more();
  EXPECT_EQ(own->recover(), (node::recovery{.recovered = 1}));
}

// Nobody else gives the task back while its node lives.
TEST_F(postgres_trigger, dropped_return_leaves_the_doubt) {
  own->begin("bad");
  own->begin("good");
  drop_bad();
  asked<durable::recover_call> c;
  c.session = own->session();
  c.max_attempts = 8;
  c.doubted = {"bad", "good"};
  own->run(c);
  EXPECT_EQ(c.doubted, std::vector<std::string>{"good"});
  EXPECT_EQ(own->get("bad")->state, task_state::running);
}

TEST_F(postgres_trigger, refused_return_leaves_the_doubt) {
  for (const char* const id : {"first", "second"}) own->put(due(id));
  for (const char* const id : {"bad", "first", "good", "second"}) own->begin(id);
  for (const char* const sqlstate : {"P0001", "XX001", "55P03"}) {
    on.refuse_bad(sqlstate);
    asked<durable::recover_call> c;
    c.session = own->session();
    c.max_attempts = 8;
    c.doubted = {"first", "bad", "good", "second"};
    own->run(c);
    EXPECT_EQ(c.doubted, (std::vector<std::string>{"first", "good", "second"})) << sqlstate;
    EXPECT_EQ(own->get("bad")->state, task_state::running);
    for (const char* const id : {"first", "good", "second"}) own->begin(id);
    on.other().run("drop function refuse cascade");
  }
}

// A scheduler takes the time of each answer that is `ok` for the store's.
TEST_F(postgres_trigger, answer_to_refused_calls_alone_has_the_time) {
  const revision rev = rev_of("bad");
  on.refuse_bad("P0001");
  const durable::clock::time_point before = own->now();
  asked<durable::begin_call> begin;
  begin.session = own->session();
  begin.items.push_back({"bad", rev});
  own->run(begin);
  EXPECT_TRUE(begin.starts.empty());
  EXPECT_GE(begin.now, before);
  asked<durable::cancel_call> cancel;
  cancel.ids.emplace_back("bad");
  own->run(cancel);
  EXPECT_EQ(cancel.results.front(), cancel_result::unavailable);
  EXPECT_GE(cancel.now, begin.now);
}

TEST_F(postgres_trigger, refused_call_that_cannot_read_the_time_is_not_ok) {
  const revision rev = rev_of("bad");
  on.refuse_bad("P0001");
  for (const char* const sqlstate : {"P0001", "XX001", "55P03", "42883"}) {
    on.other().run(std::string{"create sequence readings; create or replace function now_ns() returns bigint language "
                               "plpgsql volatile as $$ begin if nextval('readings') > 1 then raise exception 'no time' "
                               "using errcode = '"} +
                   sqlstate + "'; end if; return 1e18::bigint; end $$");
    asked<durable::begin_call> begin;
    begin.session = own->session();
    begin.items.push_back({"bad", rev});
    call_runner{on}.run(own->store(), begin);
    EXPECT_EQ(begin.status, store_status::unavailable) << sqlstate;
    on.other().run("drop sequence readings");
  }
  on.shift_clock(1ns);
}

// The server answers XX001 for a row whose payload cannot be read, for instance after a disk has lost a page.
TEST_F(postgres_trigger, damaged_row_keeps_no_other_task_from_starting) {
  on.refuse_bad("XX001");
  EXPECT_EQ(put_three(),
            (std::vector{schedule_result::scheduled, schedule_result::unavailable, schedule_result::scheduled}));
  EXPECT_EQ(begin_both(), std::vector<std::string>{"good"});
  EXPECT_EQ(on.log.size(), 2U) << "an operator must know it";
}

// Each halving of the batch waits a little, so a start that has waited in vain is left out for a while.
TEST_F(postgres_trigger, that_waits_for_a_lock_delays_no_other_start) {
  on.options.repeat_timeout = 10ms;
  reopen();
  asked<durable::put_call> put;
  for (int i = 0; i != 10; ++i) put.items.push_back({due("bad " + std::to_string(i)), durable::on_conflict::keep});
  for (int i = 0; i != 90; ++i) put.items.push_back({due("good " + std::to_string(i)), durable::on_conflict::keep});
  own->run(put);
  const auto holder = on.block_bad();
  const auto begin = [&] {
    asked<durable::begin_call> c;
    c.session = own->session();
    for (const durable::pending_row& r : own->load()) c.items.push_back({r.id, r.rev});
    own->run(c);
    return c.starts.size();
  };
  EXPECT_EQ(begin(), 91U);
  own->put(due("another"));
  EXPECT_EQ(begin(), 1U);
  holder->run("commit");
  std::size_t started = 0;
  for (const auto deadline = std::chrono::steady_clock::now() + 20s; started != 11; started += begin(), on.turn())
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
}

// The server may be told to name the parameters of a statement in its errors. A name of ours there, or in the name of a function, is not
// ours.
TEST_F(postgres_trigger, that_is_broken_may_have_any_name) {
  on.conninfo += " options='-c log_parameter_max_length_on_error=-1'";
  reopen();
  on.other().run(
      "create function notify_forgotten_cart() returns trigger language plpgsql as $$ begin if new.id like 'bad%' then "
      "insert into no_such_table values (1); end if; return new; end $$; create trigger notify before insert or update "
      "on tasks for each row execute function notify_forgotten_cart()");
  asked<durable::put_call> put;
  for (const char* id : {"forgotten cart", "bad cart"}) put.items.push_back({due(id), durable::on_conflict::keep});
  own->run(put);
  EXPECT_EQ(put.results[0].result, schedule_result::scheduled);
  EXPECT_EQ(put.results[1].result, schedule_result::unavailable);
  EXPECT_EQ(begin_both(), std::vector<std::string>{"good"});
  EXPECT_NE(own->store().problem().find("PL/pgSQL function notify_forgotten_cart()"), std::string_view::npos)
      << own->store().problem();
}

TEST_F(postgres_trigger, is_not_blamed_for_a_lost_table_if_parameters_are_named) {
  on.conninfo += " options='-c log_parameter_max_length_on_error=-1'";
  reopen();
  on.other().run("alter table tasks rename to hidden");
  asked<durable::put_call> put;
  for (const char* id : {"a", "b"}) put.items.push_back({due(id), durable::on_conflict::replace});
  call_runner{on}.run(own->store(), put);
  EXPECT_EQ(put.status, store_status::unavailable);
  on.other().run("alter table hidden rename to tasks");
}

/// A trigger fails for some rows, with an error that says nothing of the row: for instance, a table that it writes is gone.
class postgres_broken_trigger : public postgres_trigger, public testing::WithParamInterface<const char*> {};

TEST_P(postgres_broken_trigger, leaves_the_other_elements) {
  on.refuse_bad(GetParam());
  EXPECT_EQ(put_three(),
            (std::vector{schedule_result::scheduled, schedule_result::unavailable, schedule_result::scheduled}));
  EXPECT_EQ(begin_both(), std::vector<std::string>{"good"});
  EXPECT_EQ(on.log.size(), 2U) << "an operator must know it";
}

// Otherwise the node would take it for an outage, and would pause.
TEST_P(postgres_broken_trigger, makes_a_single_element_unavailable_and_not_the_call) {
  const revision token = own->begin("bad").token;
  on.refuse_bad(GetParam());
  asked<durable::put_call> put;
  put.items.push_back({due("bad one"), durable::on_conflict::keep});
  own->run(put);
  EXPECT_EQ(put.results.at(0).result, schedule_result::unavailable);
  EXPECT_EQ(own->cancel("bad"), cancel_result::unavailable);
  asked<durable::finish_call> finish;
  finish.items.push_back({.id = "bad", .token = token, .how = durable::outcome::done});
  own->run(finish);
  EXPECT_EQ(finish.results, std::vector{finish_result::unknown});
  on.refuse_no_more();
  EXPECT_EQ(own->done("bad", token), finish_result::finished);
}

INSTANTIATE_TEST_SUITE_P(with, postgres_broken_trigger,
                         testing::Values("42P01", "42703", "42883", "42501", "3F000", "55000", "0A000", "21000",
                                         "08001", "25006"),
                         [](const auto& its) { return std::string{its.param}; });

/// A table or a function of the store itself is gone.
class postgres_lost_table : public postgres_trigger, public testing::WithParamInterface<const char*> {};

TEST_P(postgres_lost_table, makes_the_call_unavailable) {
  const durable::pending_row bad = own->load().front();
  on.refuse_bad("42P01");
  on.other().run(std::string{"alter "} + GetParam() + " rename to hidden");
  asked<durable::put_call> put;
  for (const char* id : {"a", "b"}) put.items.push_back({due(id), durable::on_conflict::replace});
  call_runner{on}.run(own->store(), put);
  EXPECT_EQ(put.status, store_status::unavailable);
  asked<durable::begin_call> begin;
  begin.session = own->session();
  begin.items = {{bad.id, bad.rev}, {"good", 1}};
  call_runner{on}.run(own->store(), begin);
  EXPECT_EQ(begin.status, store_status::unavailable);
  asked<durable::finish_call> finish;
  for (const char* id : {"bad", "good"}) finish.items.push_back({.id = id, .token = 1});
  call_runner{on}.run(own->store(), finish);
  EXPECT_EQ(finish.status, store_status::unavailable);
  EXPECT_EQ(on.log.size(), 3U) << "an operator must know it";
}

INSTANTIATE_TEST_SUITE_P(of, postgres_lost_table,
                         testing::Values("table tasks", "table meta", "table nodes", "sequence revisions",
                                         "function forgotten(bigint)", "function now_ns()"),
                         [](const auto& its) {
                           std::string name{its.param};
                           std::erase_if(name, [](unsigned char c) { return std::isalpha(c) == 0; });
                           return name;
                         });

TEST(postgres_setting, silent_host_does_not_hide_the_next) {
  postgres_fixture on;
  const std::string folder = on.server.folder() + "/silent";
  ASSERT_EQ(::mkdir(folder.c_str(), 0755), 0);
  const int silent = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::snprintf(name.sun_path, sizeof name.sun_path, "%s/.s.PGSQL.5432", folder.c_str());
  ASSERT_EQ(::bind(silent, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  ASSERT_EQ(::listen(silent, 10), 0);
  on.options.connect_timeout = 3s;
  const auto store = on.make_store("host=" + folder + "," + on.server.folder() + " user=tester dbname=postgres");
  ASSERT_EQ(store->open(on.timers()), 0);
  asked<durable::join_call> first, second;
  first.name = second.name = "a";
  first.lease = second.lease = 1h;
  call_runner{on}.run(*store, first);
  EXPECT_EQ(first.status, store_status::unavailable);
  EXPECT_EQ(store->problem(), "the server did not let us in within 3000 ms");
  call_runner{on}.run(*store, second);
  EXPECT_EQ(second.status, store_status::ok);
  EXPECT_EQ(second.error, 0);
  store->close();
  ::close(silent);
}

TEST(postgres_setting, pauses_between_tries_are_short_for_the_lease) {
  postgres_fixture on;
  const auto store = on.make_store("host=" + on.server.folder() + "/nobody user=tester dbname=postgres");
  ASSERT_EQ(store->open(on.timers()), 0);
  const auto begin = std::chrono::steady_clock::now();
  for (int tries = 0; tries != 20; ++tries) {
    asked<durable::join_call> c;
    c.name = "a";
    c.lease = 200ms;
    call_runner{on}.run(*store, c);
    EXPECT_EQ(c.status, store_status::unavailable);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s) << "otherwise the pauses alone would take longer";
  store->close();
}

TEST(postgres_setting, next_host_is_taken_if_one_is_read_only) {
  test_server standby{{"default_transaction_read_only = on"}};
  postgres_fixture on;
  const std::string both = "host=" + standby.folder() + "," + on.server.folder() + " user=tester dbname=postgres";
  EXPECT_EQ(try_to_join(on, both).error, 0);
}

}  // namespace
