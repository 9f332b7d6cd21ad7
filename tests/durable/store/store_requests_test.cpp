// Requests: batches of put, cancel, revive, get and list, values at the edges of their ranges, and ended tasks that are forgotten.
#include "conformance.hpp"

#include <limits>

using namespace conformance;
using durable::cancel_result;
using durable::on_conflict;
using durable::revive_result;
using durable::schedule_result;
using durable::task_state;

namespace {

class store_put : public store_test {};
TICKWHEEL_CONFORMANCE(store_put);

TEST_P(store_put, answers_each_of_a_batch) {
  make_pending("pending");
  make_running("running");
  make_dead("dead");
  make_finished("finished");
  asked<durable::put_call> c;
  for (const char* id : {"finished", "new", "running", "pending", "dead"})
    c.items.push_back({due_now(id), on_conflict::keep});
  c.items.push_back({due_now("replaced"), on_conflict::replace});
  own.run(c);
  std::vector<schedule_result> results;
  for (const auto& r : c.results) results.push_back(r.result);
  EXPECT_EQ(results, (std::vector{schedule_result::ended, schedule_result::scheduled, schedule_result::exists,
                                  schedule_result::exists, schedule_result::ended, schedule_result::scheduled}));
}

TEST_P(store_put, answers_rev_and_partition_of_a_written_row) {
  asked<durable::put_call> c;
  for (int i = 0; i < 20; ++i) c.items.push_back({due_now("t" + std::to_string(i)), on_conflict::keep});
  own.run(c);
  ASSERT_EQ(c.results.size(), 20U);
  for (const durable::pending_row& r : own.load()) {
    const auto& answer = c.results[std::stoul(r.id.substr(1))];
    EXPECT_EQ(r.rev, answer.rev);
    EXPECT_EQ(r.partition, answer.partition);
    EXPECT_TRUE(own.begin(r.id, answer.rev));
  }
}

TEST_P(store_put, refused_element_disturbs_no_other) {
  if (!fixture->can_refuse()) GTEST_SKIP() << "the database rejects nothing";
  fixture->refuse_payload("bad");
  asked<durable::put_call> c;
  c.items.push_back({due_now("first"), on_conflict::keep});
  c.items.push_back({due_now("refused", "bad"), on_conflict::keep});
  c.items.push_back({due_now("second"), on_conflict::replace});
  own.run(c);
  ASSERT_EQ(c.results.size(), 3U);
  EXPECT_EQ(c.results[0].result, schedule_result::scheduled);
  EXPECT_EQ(c.results[1].result, schedule_result::refused);
  EXPECT_EQ(c.results[2].result, schedule_result::scheduled);
  EXPECT_TRUE(own.get("first").has_value());
  EXPECT_FALSE(own.get("refused").has_value());
  EXPECT_TRUE(own.get("second").has_value());
}

TEST_P(store_put, refused_replace_keeps_the_task) {
  if (!fixture->can_refuse()) GTEST_SKIP() << "the database rejects nothing";
  make_pending();
  const std::string before = described(own.get("t"));
  fixture->refuse_payload("bad");
  EXPECT_EQ(own.put(due_now("t", "bad"), on_conflict::replace).result, schedule_result::refused);
  EXPECT_EQ(described(own.get("t")), before);
}

TEST_P(store_put, keeps_every_field) {
  own.get("t");
  const time due = std::chrono::floor<std::chrono::seconds>(own.now()) + 123'456'789ns + 1h;
  own.put({.id = "t", .due = due, .payload = "data", .period = 3'600'000'000'007ns});
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->what.id, "t");
  EXPECT_EQ(i->what.due, due);
  EXPECT_EQ(i->what.payload, "data");
  EXPECT_EQ(i->what.period, 3'600'000'000'007ns);
  EXPECT_EQ(i->state, task_state::pending);
  EXPECT_EQ(i->next, due);
  EXPECT_EQ(i->attempts, 0U);
  EXPECT_EQ(i->lost, 0U);
  EXPECT_FALSE(i->cancelling);
  EXPECT_EQ(i->last_error, "");
}

TEST_P(store_put, keeps_times_at_the_edges_of_the_range) {
  constexpr time last = time{std::chrono::sys_days{std::chrono::year{2200} / 1 / 1}} - 1ns;
  const auto first_put = own.put({.id = "first", .due = time{1ns}});
  own.put({.id = "last", .due = last});
  EXPECT_EQ(own.get("first")->what.due, time{1ns});
  EXPECT_EQ(own.get("last")->what.due, last);
  EXPECT_EQ(own.get("last")->next, last);
  const auto rows = own.load();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at, time{1ns});
  const auto started = own.begin("first", first_put.rev);
  ASSERT_TRUE(started.has_value());
  EXPECT_EQ(started->due, time{1ns});
}

TEST_P(store_put, keeps_periods_at_the_edges_of_the_range) {
  for (const std::chrono::nanoseconds period : {std::chrono::nanoseconds{1ms}, std::chrono::nanoseconds::max()}) {
    own.put({.id = "t", .due = past, .period = period}, on_conflict::replace);
    EXPECT_EQ(own.get("t")->what.period, period);
  }
}

TEST_P(store_put, keeps_any_payload) {
  std::string longest(65'536, '\0');
  for (std::size_t i = 0; i < longest.size(); ++i) longest[i] = static_cast<char>((i * 31) % 256);
  for (const std::string& payload :
       {std::string{}, std::string(1, '\0'), std::string("a\0b\0", 4), std::string{"\xff\xfe\x80"},
        std::string{"'; drop table tasks; --"}, std::string{"\\x41"}, longest}) {
    own.put(due_now("t", payload), on_conflict::replace);
    const auto i = own.get("t");
    ASSERT_TRUE(i.has_value());
    EXPECT_TRUE(i->what.payload == payload) << payload.size() << " bytes";
    const auto rows = own.load();
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].bytes, payload.size());
  }
}

TEST_P(store_put, keeps_any_id) {
  std::string longest;
  while (longest.size() + 3 <= durable::max_id_bytes) longest += "\xe2\x82\xac";
  for (const std::string& id :
       {std::string{"a"}, std::string{" "}, std::string{"caf\xc3\xa9"}, std::string{"cafe\xcc\x81"},
        std::string{"\xf0\x9f\x98\x80"}, std::string{"it's"}, std::string{"\"%_\\$1?"}, longest}) {
    EXPECT_EQ(own.put(due_now(id)).result, schedule_result::scheduled);
    EXPECT_EQ(own.put(due_now(id)).result, schedule_result::exists);
    EXPECT_EQ(own.get(id)->what.id, id);
    const auto started = own.begin(id);
    EXPECT_EQ(own.done(id, started.token), durable::finish_result::finished);
    EXPECT_EQ(own.cancel(id), cancel_result::finished);
  }
  EXPECT_EQ(own.put(due_now("A")).result, schedule_result::scheduled) << "ids differ in their case";
}

class store_requests : public store_test {};
TICKWHEEL_CONFORMANCE(store_requests);

TEST_P(store_requests, get_answers_each_of_a_batch) {
  make_pending("a");
  make_finished("c");
  asked<durable::get_call> c;
  c.ids = {"c", "none", "a"};
  own.run(c);
  ASSERT_EQ(c.results.size(), 3U);
  EXPECT_EQ(c.results[0].value().state, task_state::finished);
  EXPECT_FALSE(c.results[1].has_value());
  EXPECT_EQ(c.results[2].value().state, task_state::pending);
}

TEST_P(store_requests, cancel_answers_each_of_a_batch) {
  make_pending("pending");
  make_running("running");
  make_dead("dead");
  make_finished("finished");
  make_cancelled("cancelled");
  asked<durable::cancel_call> c;
  c.ids = {"finished", "none", "pending", "dead", "running", "cancelled"};
  own.run(c);
  EXPECT_EQ(c.results, (std::vector{cancel_result::finished, cancel_result::not_found, cancel_result::cancelled,
                                    cancel_result::cancelled, cancel_result::running, cancel_result::cancelled}));
  EXPECT_EQ(state_of("pending"), task_state::cancelled);
  EXPECT_EQ(state_of("dead"), task_state::cancelled);
  EXPECT_TRUE(own.get("running")->cancelling);
}

TEST_P(store_requests, revive_answers_each_of_a_batch) {
  make_dead("dead");
  make_pending("pending");
  asked<durable::revive_call> c;
  c.ids = {"none", "dead", "pending"};
  own.run(c);
  ASSERT_EQ(c.results.size(), 3U);
  EXPECT_EQ(c.results[0].result, revive_result::not_found);
  EXPECT_EQ(c.results[1].result, revive_result::revived);
  EXPECT_EQ(c.results[2].result, revive_result::not_dead);
  for (const durable::pending_row& r : own.load())
    if (r.id == "dead") {
      EXPECT_EQ(c.results[1].rev, r.rev);
      EXPECT_EQ(c.results[1].partition, r.partition);
    }
  EXPECT_TRUE(own.begin("dead", c.results[1].rev));
}

class store_list : public store_test {
 protected:
  using ids = std::vector<std::string>;
};
TICKWHEEL_CONFORMANCE(store_list);

TEST_P(store_list, answers_the_tasks_of_one_state) {
  make_pending("p");
  make_running("r");
  make_dead("d");
  make_finished("f");
  make_cancelled("c");
  EXPECT_EQ(own.list(task_state::pending), ids{"p"});
  EXPECT_EQ(own.list(task_state::running), ids{"r"});
  EXPECT_EQ(own.list(task_state::dead), ids{"d"});
  EXPECT_EQ(own.list(task_state::finished), ids{"f"});
  EXPECT_EQ(own.list(task_state::cancelled), ids{"c"});
}

TEST_P(store_list, answers_tasks_as_get_does) {
  make_pending("p");
  make_stopping("r");
  make_dead("d", "broken");
  make_finished("f");
  make_cancelled("c");
  for (const task_state s :
       {task_state::pending, task_state::running, task_state::dead, task_state::finished, task_state::cancelled}) {
    asked<durable::list_call> c;
    c.state = s;
    c.limit = 10;
    own.run(c);
    ASSERT_EQ(c.results.size(), 1U) << durable::to_string(s);
    EXPECT_EQ(described(c.results[0]), described(own.get(c.results[0].what.id)));
  }
}

TEST_P(store_list, orders_by_the_bytes_of_ids) {
  ids all{"a", "B", "b", "a!", "aa", "Z", "~", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
          "_", "-", "0", "10", "9"};
  for (const std::string& id : all) own.put(due_later(id));
  std::sort(all.begin(), all.end());  // std::string compares bytes
  EXPECT_EQ(own.list(task_state::pending), all);
}

TEST_P(store_list, after_is_exclusive) {
  for (const char* id : {"a", "ab", "b"}) make_pending(id);
  EXPECT_EQ(own.list(task_state::pending, "a"), (ids{"ab", "b"}));
  EXPECT_EQ(own.list(task_state::pending, "aa"), (ids{"ab", "b"}));
  EXPECT_EQ(own.list(task_state::pending, "ab"), ids{"b"});
  EXPECT_EQ(own.list(task_state::pending, "b"), ids{});
}

TEST_P(store_list, limit_cuts_and_pages_leave_none_out) {
  ids all;
  for (int i = 0; i < 25; ++i) {
    all.push_back("t" + std::to_string(100 + i));
    make_pending(all.back());
    if (i % 3 == 0) make_cancelled("t" + std::to_string(100 + i) + "c");
  }
  for (const std::size_t limit : {1U, 10U, 25U, 26U}) {
    ids seen, page;
    do {
      page = own.list(task_state::pending, seen.empty() ? "" : seen.back(), limit);
      EXPECT_LE(page.size(), limit);
      seen.insert(seen.end(), page.begin(), page.end());
    } while (!page.empty());
    EXPECT_EQ(seen, all);
  }
}

class store_purge : public store_test {
 protected:
  /// Ends three tasks, and leaves three others.
  void fill() {
    make_finished("f1");
    make_finished("f2");
    make_cancelled("c1");
    make_pending("p");
    make_running("r");
    make_dead("d");
  }
};
TICKWHEEL_CONFORMANCE(store_purge);

TEST_P(store_purge, deletes_ended_tasks_that_are_forgotten) {
  forget_ended_at_once();
  fill();
  fixture->advance(1ms);
  EXPECT_EQ(own.purge(), 3U);
  EXPECT_EQ(own.purge(), 0U);
  own.lose(1h);
  EXPECT_FALSE(own.get("f1")) << "it was hidden, and not deleted";
  EXPECT_FALSE(own.get("c1"));
  EXPECT_EQ(state_of("p"), task_state::pending);
  EXPECT_EQ(state_of("r"), task_state::running);
  EXPECT_EQ(state_of("d"), task_state::dead);
}

TEST_P(store_purge, keeps_ended_tasks_for_keep_finished) {
  fill();
  EXPECT_EQ(own.purge(), 0U);
  EXPECT_EQ(state_of("f1"), task_state::finished);
}

TEST_P(store_purge, limit_is_kept) {
  forget_ended_at_once();
  fill();
  fixture->advance(1ms);
  EXPECT_EQ(own.purge(2), 2U);
  EXPECT_EQ(own.purge(2), 1U);
  EXPECT_EQ(own.purge(2), 0U);
}

TEST_P(store_purge, begins_with_the_oldest) {
  if (!fixture->can_shift_clock()) GTEST_SKIP() << "the store's clock cannot be set";
  forget_ended_at_once();
  make_finished("z");
  fixture->shift_clock(1s);
  make_cancelled("a");
  fixture->shift_clock(1s);
  EXPECT_EQ(own.purge(1), 1U);
  own.lose(1h);
  EXPECT_FALSE(own.get("z"));
  EXPECT_TRUE(own.get("a"));
}

TEST_P(store_purge, ended_tasks_are_known_until_keep_finished) {
  if (!fixture->can_shift_clock()) GTEST_SKIP() << "the store's clock cannot be set";
  make_finished("f");
  make_cancelled("c");
  fixture->shift_clock(59min);
  EXPECT_TRUE(own.get("f"));
  EXPECT_EQ(own.list(task_state::finished).size(), 1U);
  EXPECT_EQ(own.list(task_state::cancelled).size(), 1U);
  EXPECT_EQ(own.put(due_now("f")).result, schedule_result::ended);
  EXPECT_EQ(own.purge(), 0U);
  fixture->shift_clock(2min);
  EXPECT_FALSE(own.get("f"));
  EXPECT_FALSE(own.get("c"));
  EXPECT_TRUE(own.list(task_state::finished).empty());
  EXPECT_TRUE(own.list(task_state::cancelled).empty());
  EXPECT_EQ(own.put(due_now("f")).result, schedule_result::scheduled);
  EXPECT_EQ(own.purge(), 1U);
}

TEST_P(store_purge, dead_tasks_are_kept_for_ever) {
  if (!fixture->can_shift_clock()) GTEST_SKIP() << "the store's clock cannot be set";
  make_dead();
  fixture->shift_clock(24h * 3650);
  EXPECT_EQ(own.purge(), 0U);
  EXPECT_EQ(own.list(task_state::dead).size(), 1U);
  EXPECT_EQ(own.revive("t").result, revive_result::revived);
}

}  // namespace
