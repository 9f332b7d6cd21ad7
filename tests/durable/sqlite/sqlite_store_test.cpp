// The threads of a sqlite_store: answers, their order, and closing.
#include "sqlite_fixture.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace conformance;
using durable::cancel_result;
using durable::finish_result;
using durable::schedule_result;
using durable::store_status;
using durable::task_state;

namespace {

class sqlite_threads : public testing::Test {
 protected:
  void SetUp() override { own.start(); }

  sqlite_fixture on;
  node own{on};
  call_runner runner{on};
};

TEST_F(sqlite_threads, get_and_list_see_what_was_asked_before_only) {
  asked<durable::put_call> put, later;
  asked<durable::get_call> get;
  asked<durable::list_call> list;
  put.items.push_back({due_now("a"), {}});
  get.ids = {"a", "b"};
  list.limit = 10;
  later.items.push_back({due_now("b"), {}});
  own.store().put(put);
  own.store().get(get);
  own.store().list(list);
  own.store().put(later);
  runner.wait_for(later);
  runner.wait_for(list);
  EXPECT_TRUE(get.results.at(0).has_value());
  EXPECT_FALSE(get.results.at(1).has_value());
  ASSERT_EQ(list.results.size(), 1U);
  EXPECT_EQ(list.results[0].what.id, "a");
}

TEST_F(sqlite_threads, lists_between_puts_are_answered_in_order) {
  constexpr std::size_t rounds = 50;
  std::vector<durable::store_call*> puts_answered, lists_answered, puts_called, lists_called;
  std::vector<std::unique_ptr<asked<durable::put_call>>> puts;
  std::vector<std::unique_ptr<asked<durable::list_call>>> lists;
  for (std::size_t i = 0; i < rounds; ++i) {
    auto& put = *puts.emplace_back(std::make_unique<asked<durable::put_call>>());
    put.order = &puts_answered;
    put.items.push_back({due_now("t" + std::to_string(i)), {}});
    puts_called.push_back(&put);
    own.store().put(put);
    auto& list = *lists.emplace_back(std::make_unique<asked<durable::list_call>>());
    list.order = &lists_answered;
    list.limit = 1000;
    lists_called.push_back(&list);
    own.store().list(list);
  }
  runner.wait_for(*lists.back());
  runner.wait_for(*puts.back());
  EXPECT_EQ(puts_answered, puts_called);
  EXPECT_EQ(lists_answered, lists_called);
  for (std::size_t i = 0; i < rounds; ++i) EXPECT_EQ(lists[i]->results.size(), i + 1);
}

TEST_F(sqlite_threads, begin_does_not_wait_for_requests_of_many_groups) {
  std::vector<durable::store_call*> order;
  constexpr std::size_t groups = 20;
  std::vector<std::unique_ptr<asked<durable::put_call>>> puts;
  asked<durable::begin_call> begin;
  begin.session = own.session();
  begin.items.push_back({"t", own.put(due_now("t")).rev});
  begin.order = &order;
  for (std::size_t g = 0; g < groups; ++g) {
    auto& put = *puts.emplace_back(std::make_unique<asked<durable::put_call>>());
    put.order = &order;
    for (int i = 0; i < 1000; ++i) put.items.push_back({due_now(std::to_string(g) + "." + std::to_string(i)), {}});
  }
  const shell other{on.file};
  other.run("begin immediate");  // the writer waits with the first group
  for (const auto& put : puts) own.store().put(*put);
  own.store().begin(begin);
  other.run("rollback");
  runner.wait_for(*puts.back());
  EXPECT_EQ(begin.starts.size(), 1U);
  // not even the call that was on its way goes first
  EXPECT_EQ(order.front(), &begin);
  for (const auto& put : puts)
    for (const auto& answer : put->results) EXPECT_EQ(answer.result, schedule_result::scheduled);
  EXPECT_EQ(shell{on.file}.read("select count(*) from tasks"), std::to_string(1 + groups * 1000));
}

// Each verb of requests gives way in its midst, and goes on where it was.
TEST_F(sqlite_threads, begin_goes_before_the_rest_of_each_verb) {
  constexpr std::size_t count = 1000;
  const auto id_of = [](std::size_t i) { return "t" + std::to_string(i); };
  std::vector<durable::store_call*> order;
  const auto begin_amid = [&](auto& slow) {
    asked<durable::begin_call> begin;
    begin.session = own.session();
    order.clear();
    slow.order = begin.order = &order;
    const shell other{on.file};
    other.run("begin immediate");
    conformance::call(own.store(), slow);
    own.store().begin(begin);
    other.run("rollback");
    runner.wait_for(slow);
    EXPECT_EQ(order, (std::vector<durable::store_call*>{&begin, &slow}));
    EXPECT_EQ(slow.status, store_status::ok);
  };
  asked<durable::put_call> put;
  asked<durable::cancel_call> cancel;
  asked<durable::get_call> get;
  for (std::size_t i = 0; i != count; ++i) {
    put.items.push_back({due_now(id_of(i)), {}});
    cancel.ids.push_back(id_of(i));
    get.ids.push_back(id_of(i));
  }
  begin_amid(put);
  for (const auto& answer : put.results) EXPECT_EQ(answer.result, schedule_result::scheduled);
  begin_amid(get);
  for (std::size_t i = 0; i != count; ++i) {
    ASSERT_TRUE(get.results[i].has_value());
    EXPECT_EQ(get.results[i]->what.id, id_of(i));
  }
  shell{on.file}.run("update tasks set state = 2");
  asked<durable::revive_call> revive;
  revive.ids = cancel.ids;
  begin_amid(revive);
  for (const auto& answer : revive.results) EXPECT_EQ(answer.result, durable::revive_result::revived);
  begin_amid(cancel);
  for (const auto& answer : cancel.results) EXPECT_EQ(answer, durable::cancel_result::cancelled);
  shell{on.file}.run("update tasks set gone = 1");
  asked<durable::purge_call> purge;
  purge.limit = count - 1;
  begin_amid(purge);
  EXPECT_EQ(purge.purged, count - 1);
  EXPECT_EQ(shell{on.file}.read("select count(*) from tasks"), "1");
  asked<durable::purge_call> all;
  all.limit = std::numeric_limits<std::size_t>::max();
  runner.run(own.store(), all);
  EXPECT_EQ(all.purged, 1U);
}

TEST_F(sqlite_threads, close_amid_requests_tells_how_many_were_carried_out) {
  constexpr std::size_t groups = 20;
  constexpr std::size_t count = 1000;
  std::vector<std::unique_ptr<asked<durable::put_call>>> puts;
  asked<durable::begin_call> begin;
  begin.session = own.session();
  const shell other{on.file};
  other.run("begin immediate");
  for (std::size_t g = 0; g < groups; ++g) {
    auto& put = *puts.emplace_back(std::make_unique<asked<durable::put_call>>());
    for (std::size_t i = 0; i < count; ++i)
      put.items.push_back({due_now(std::to_string(g) + "." + std::to_string(i)), {}});
    own.store().put(put);
  }
  own.store().begin(begin);
  other.run("rollback");
  runner.wait_for(begin);
  own.close();
  for (std::size_t g = 0; g < groups; ++g) {
    const auto rows = other.read("select count(*) from tasks where id like '" + std::to_string(g) + ".%'");
    if (puts[g]->status == store_status::unavailable)
      EXPECT_EQ(rows, std::to_string(puts[g]->carried_out)) << g;
    else
      EXPECT_EQ(rows, std::to_string(count)) << g;
  }
  EXPECT_EQ(puts.back()->status, store_status::unavailable) << "the store was closed after its last call";
}

// A checkpoint has its turn between two lists, and the log is started anew between two others.
TEST_F(sqlite_threads, lists_without_a_pause_leave_the_log_short) {
  constexpr std::size_t long_log = 160 * 4096;
  constexpr int puts = 160;
  sqlite_fixture brief;
  brief.options.checkpoint_pages = 1;
  node other{brief};
  other.start();
  asked<durable::put_call> many;
  for (int i = 0; i != 1000; ++i) many.items.push_back({due_now("many" + std::to_string(i)), {}});
  other.run(many);
  std::array<asked<durable::list_call>, 4> lists;
  for (auto& list : lists) {
    list.limit = 10'000;
    other.store().list(list);
  }
  for (int i = 0; i != puts; ++i) {
    asked<durable::put_call> put;
    put.items.push_back({due_now("t" + std::to_string(i), std::string(20'000, 'x')), {}});
    other.store().put(put);
    while (!put.is_answered()) {
      brief.turn();
      for (auto& list : lists)
        if (std::exchange(list.answers, 0) != 0) other.store().list(list);
    }
  }
  for (auto& list : lists)
    if (!list.is_answered()) call_runner{brief}.wait_for(list);
  EXPECT_LT(std::filesystem::file_size(brief.file + "-wal"), 2 * long_log);
}

TEST_F(sqlite_threads, close_answers_calls_in_their_order) {
  std::vector<durable::store_call*> order;
  const shell other{on.file};
  other.run("begin immediate");  // the writer waits for this
  asked<durable::put_call> put;
  asked<durable::begin_call> begin;
  asked<durable::get_call> get;
  asked<durable::list_call> list;
  asked<durable::renew_call> renew;
  put.items.push_back({due_now("t"), {}});
  list.limit = 10;
  const auto ask = [&](auto& c) {
    c.order = &order;
    conformance::call(own.store(), c);
  };
  ask(put);
  ask(begin);
  ask(list);
  ask(get);
  ask(renew);
  own.close();
  EXPECT_EQ(order, (std::vector<durable::store_call*>{&put, &begin, &list, &get, &renew}));
  for (const durable::store_call* c : order) EXPECT_EQ(c->status, store_status::unavailable);
  other.run("rollback");
  own.start();
  EXPECT_FALSE(own.get("t").has_value());
}

TEST_F(sqlite_threads, close_after_a_commit_answers_unknown) {
  asked<durable::put_call> put;
  put.items.push_back({due_now("t"), {}});
  own.store().put(put);
  const shell other{on.file};
  while (other.read("select count(*) from tasks") != "1") {
  }
  EXPECT_FALSE(put.is_answered());
  own.close();
  // the row is visible before the writer has counted the call as answered, so it may not have been its last act
  EXPECT_EQ(put.answers, 1);
  EXPECT_EQ(put.status, store_status::unknown);
  own.start();
  EXPECT_TRUE(own.get("t").has_value());
}

TEST_F(sqlite_threads, close_frees_the_file_and_is_idempotent) {
  own.close();
  own.close();
  sqlite_fixture second{on.file};
  node other{second};
  other.start();
  EXPECT_EQ(other.put(due_now("t")).result, schedule_result::scheduled);
}

TEST_F(sqlite_threads, calls_before_a_join_are_unavailable) {
  own.close();
  const auto store = on.make_store();
  ASSERT_EQ(store->open(on.timers()), 0);
  asked<durable::put_call> put;
  asked<durable::load_call> load;
  asked<durable::list_call> list;
  runner.run(*store, put);
  runner.run(*store, load);
  runner.run(*store, list);
  EXPECT_EQ(put.status, store_status::unavailable);
  EXPECT_EQ(load.status, store_status::unavailable);
  EXPECT_EQ(list.status, store_status::unavailable);
  store->close();
}

TEST_F(sqlite_threads, do_not_keep_the_loop_alive) {
  live_loop loop;
  tickwheel::timer_service timers;
  ASSERT_EQ(timers.open(loop), 0);
  own.close();
  const auto store = on.make_store();
  ASSERT_EQ(store->open(timers), 0);
  EXPECT_EQ(uv_loop_alive(loop.get()), 0);
  store->close();
  timers.close();
}

TEST_F(sqlite_threads, foreign_lock_makes_a_put_unavailable) {
  const shell other{on.file};
  other.run("begin immediate");
  asked<durable::put_call> put;
  put.items.push_back({due_now("t"), {}});
  runner.run(own.store(), put);
  EXPECT_EQ(put.status, store_status::unavailable);
  EXPECT_NE(own.store().problem().find("database is locked (SQLite's code 5)"), std::string::npos)
      << own.store().problem();
  other.run("rollback");
  EXPECT_EQ(own.put(due_now("t")).result, schedule_result::scheduled);
}

class sqlite_trigger : public sqlite_threads {
 protected:
  void refuse(const std::string& how) {
    shell{on.file}.run("create trigger refuse before insert on tasks when new.id = 'bad' begin select raise(" + how +
                       "); end");
  }
  /// Lets a trigger ignore each change of the task "bad", without an error.
  void ignore_bad() {
    shell{on.file}.run(
        "create trigger ignore_bad before update on tasks when new.id = 'bad' begin select raise(ignore); end");
  }
  void ignore_no_more() { shell{on.file}.run("drop trigger ignore_bad"); }
  /// Starts both tasks, and returns their tokens.
  std::array<durable::revision, 2> run_both() {
    own.put(due_now("bad"));
    own.put(due_now("good"));
    const durable::revision bad = own.begin("bad").token;
    return {bad, own.begin("good").token};
  }
  std::vector<cancel_result> cancel_both() {
    asked<durable::cancel_call> c;
    c.ids = {"bad", "good"};
    own.run(c);
    return c.results;
  }
  std::vector<schedule_result> put_three() {
    asked<durable::put_call> put;
    for (const char* const id : {"a", "bad", "c"}) put.items.push_back({due_now(id), {}});
    runner.run(own.store(), put);
    EXPECT_EQ(put.status, store_status::ok);
    std::vector<schedule_result> results;
    for (const auto& r : put.results) results.push_back(r.result);
    return results;
  }
  const std::vector<schedule_result> only_bad_is_refused{schedule_result::scheduled, schedule_result::refused,
                                                         schedule_result::scheduled};
};

TEST_F(sqlite_trigger, that_aborts_refuses_one_element) {
  refuse("abort, 'too bad'");
  EXPECT_EQ(put_three(), only_bad_is_refused);
  EXPECT_EQ(own.list(task_state::pending), (std::vector<std::string>{"a", "c"}));
  EXPECT_NE(own.store().problem().find("tasks.db: too bad (SQLite's code 1811"), std::string::npos)
      << own.store().problem();
}

TEST_F(sqlite_trigger, that_rolls_back_refuses_one_element) {
  refuse("rollback, 'too bad'");
  EXPECT_EQ(put_three(), only_bad_is_refused);
  EXPECT_EQ(own.list(task_state::pending), (std::vector<std::string>{"a", "c"}));
}

TEST_F(sqlite_trigger, that_fails_refuses_one_element) {
  refuse("fail, 'too bad'");
  EXPECT_EQ(put_three(), only_bad_is_refused);
  EXPECT_EQ(own.list(task_state::pending), (std::vector<std::string>{"a", "c"}));
}

TEST_F(sqlite_trigger, that_ignores_refuses_one_element) {
  refuse("ignore");
  EXPECT_EQ(put_three(), only_bad_is_refused);
}

TEST_F(sqlite_trigger, that_refuses_ends_leaves_the_other_finishes) {
  for (const char* const id : {"a", "bad", "c"}) own.put(due_now(id));
  asked<durable::finish_call> finish;
  for (const char* const id : {"a", "bad", "c"}) finish.items.push_back({.id = id, .token = own.begin(id).token});
  shell{on.file}.run(
      "create trigger refuse before update on tasks when new.id = 'bad' begin select raise(abort, 'no'); "
      "end");
  runner.run(own.store(), finish);
  EXPECT_EQ(finish.results,
            (std::vector<finish_result>{finish_result::finished, finish_result::unknown, finish_result::finished}));
  EXPECT_EQ(own.list(task_state::running), std::vector<std::string>{"bad"});
}

TEST_F(sqlite_trigger, that_ignores_a_cancel_makes_it_unavailable) {
  own.put(due_now("bad"));
  own.put(due_now("good"));
  ignore_bad();
  EXPECT_EQ(cancel_both(), (std::vector{cancel_result::unavailable, cancel_result::cancelled}));
  EXPECT_EQ(own.get("bad")->state, task_state::pending);
  EXPECT_NE(own.store().problem().find("a trigger has dropped the change of a row"), std::string::npos)
      << own.store().problem();
}

TEST_F(sqlite_trigger, that_ignores_a_cancel_of_a_start_makes_it_unavailable) {
  run_both();
  ignore_bad();
  EXPECT_EQ(cancel_both(), (std::vector{cancel_result::unavailable, cancel_result::running}));
  EXPECT_FALSE(own.get("bad")->cancelling);
  ignore_no_more();
  EXPECT_EQ(own.cancel("bad"), cancel_result::running);
  ignore_bad();
  EXPECT_EQ(own.cancel("bad"), cancel_result::running) << "a repeated cancel changes nothing";
}

TEST_F(sqlite_trigger, that_ignores_a_begin_starts_nothing) {
  const auto rev = own.put(due_now("bad")).rev;
  ignore_bad();
  EXPECT_FALSE(own.begin("bad", rev).has_value());
}

TEST_F(sqlite_trigger, that_ignores_a_finish_makes_it_unknown) {
  own.put({.id = "bad", .due = past, .payload = "", .period = 1h});
  const durable::revision token = own.begin("bad").token;
  ignore_bad();
  EXPECT_EQ(own.done("bad", token), finish_result::unknown);
  EXPECT_EQ(own.again("bad", token, past), finish_result::unknown);
  EXPECT_EQ(own.dead("bad", token), finish_result::unknown);
  EXPECT_EQ(own.get("bad")->state, task_state::running);
  ignore_no_more();
  EXPECT_EQ(own.done("bad", token), finish_result::finished);
}

TEST_F(sqlite_trigger, that_ignores_a_last_finish_makes_it_unknown) {
  const auto [bad, good] = run_both();
  ignore_bad();
  EXPECT_EQ(own.done("bad", bad), finish_result::unknown);
  EXPECT_EQ(own.done("good", good), finish_result::finished);
  EXPECT_EQ(own.get("bad")->state, task_state::running);
}

TEST_F(sqlite_trigger, that_ignores_a_revive_makes_it_unavailable) {
  const auto [bad, good] = run_both();
  EXPECT_EQ(own.dead("bad", bad), finish_result::finished);
  EXPECT_EQ(own.dead("good", good), finish_result::finished);
  ignore_bad();
  EXPECT_EQ(own.revive("bad").result, durable::revive_result::unavailable);
  EXPECT_EQ(own.revive("good").result, durable::revive_result::revived);
  EXPECT_EQ(own.get("bad")->state, task_state::dead);
}

TEST_F(sqlite_trigger, that_ignores_a_recovery_does_not_let_it_count) {
  run_both();
  own.lose();
  ignore_bad();
  EXPECT_EQ(own.recover(), (node::recovery{.recovered = 1}));
  EXPECT_EQ(own.get("bad")->state, task_state::running);
  ignore_no_more();
  EXPECT_EQ(own.recover(), (node::recovery{.recovered = 1}));
}

// Nobody else gives the task back while its node lives.
TEST_F(sqlite_trigger, that_ignores_a_return_leaves_the_doubt) {
  run_both();
  ignore_bad();
  asked<durable::recover_call> c;
  c.session = own.session();
  c.max_attempts = 8;
  c.doubted = {"bad", "good"};
  own.run(c);
  EXPECT_EQ(c.doubted, std::vector<std::string>{"good"});
  EXPECT_EQ(own.get("bad")->state, task_state::running);
  ignore_no_more();
  own.recover(8, {"bad"});
  EXPECT_EQ(own.get("bad")->state, task_state::pending);
}

}  // namespace
