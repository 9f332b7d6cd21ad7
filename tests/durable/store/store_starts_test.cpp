// Starts and their ends: the conditions of `begin`, tokens, periods, and batches of `begin` and `finish`.
#include "conformance.hpp"

#include <limits>
#include <set>

using namespace conformance;
using durable::finish_result;
using durable::revision;
using durable::task_state;

namespace {

class store_begin : public store_test {};
TICKWHEEL_CONFORMANCE(store_begin);

TEST_P(store_begin, starts_nothing_if_rev_does_not_fit) {
  const revision rev = make_pending();
  EXPECT_FALSE(own.begin("t", rev - 1));
  EXPECT_FALSE(own.begin("t", rev + 1));
  EXPECT_FALSE(own.begin("t", 0));
  EXPECT_EQ(state_of(), task_state::pending);
  EXPECT_TRUE(own.begin("t", rev));
}

TEST_P(store_begin, starts_nothing_before_its_time) {
  const revision rev = own.put(due_later()).rev;
  EXPECT_FALSE(own.begin("t", rev));
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::pending);
  EXPECT_EQ(i->attempts, 0U);
}

TEST_P(store_begin, starts_as_soon_as_the_clock_reaches_its_time) {
  own.get("t");
  const time due = own.now() + 10ms;
  const revision rev = own.put({.id = "t", .due = due}).rev;
  for (int looks = 0; looks < 1000; ++looks) {
    const bool has_started = own.begin("t", rev).has_value();
    EXPECT_EQ(has_started, own.now() >= due) << (own.now() - due).count() << " ns late";
    if (has_started) return;
    fixture->advance(1ms);
  }
  ADD_FAILURE() << "it never started";
}

TEST_P(store_begin, is_fenced_by_a_clock_set_back) {
  if (!fixture->can_shift_clock()) GTEST_SKIP() << "the store's clock cannot be set";
  const time due = own.now() + 1h;
  const revision rev = own.put({.id = "t", .due = due}).rev;
  fixture->shift_clock(59min);
  EXPECT_FALSE(own.begin("t", rev));
  fixture->shift_clock(2min);
  fixture->shift_clock(-5min);
  EXPECT_FALSE(own.begin("t", rev));
  fixture->shift_clock(5min);
  EXPECT_TRUE(own.begin("t", rev));
}

TEST_P(store_begin, starts_nothing_in_a_partition_of_nobody) {
  const revision rev = make_pending();
  own.release(own.owned());
  EXPECT_FALSE(own.begin("t", rev));
  own.acquire();
  EXPECT_TRUE(own.begin("t", rev));
}

TEST_P(store_begin, starts_nothing_for_a_former_session) {
  const revision rev = make_pending();
  const durable::session_number former = own.session();
  own.lose();
  asked<durable::begin_call> c;
  c.session = former;
  c.items.push_back({"t", rev});
  own.run(c);
  EXPECT_TRUE(c.starts.empty());
  EXPECT_TRUE(own.begin("t", rev));
}

TEST_P(store_begin, starts_nothing_for_no_session) {
  const revision rev = make_pending();
  asked<durable::begin_call> c;
  c.items.push_back({"t", rev});
  own.run(c);
  EXPECT_TRUE(c.starts.empty());
  own.release(own.owned());
  c.answers = 0;
  own.run(c);
  EXPECT_TRUE(c.starts.empty()) << "nobody owns its partition, which is not session 0";
}

TEST_P(store_begin, starts_those_of_a_batch_that_fit) {
  const revision first = make_pending("first"), second = make_pending("second");
  const revision later = own.put(due_later("later")).rev;
  make_cancelled("cancelled");
  const revision running = make_running("running");
  asked<durable::begin_call> c;
  c.session = own.session();
  c.items = {{"none", first},      {"first", first},   {"later", later},
             {"cancelled", first}, {"second", second}, {"running", running}};
  own.run(c);
  ASSERT_EQ(c.starts.size(), 2U);
  std::sort(c.starts.begin(), c.starts.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  EXPECT_EQ(c.starts[0].index, 1U);
  EXPECT_EQ(c.starts[1].index, 4U);
  EXPECT_NE(c.starts[0].token, c.starts[1].token);
  EXPECT_EQ(own.done("first", c.starts[0].token), finish_result::finished);
  EXPECT_EQ(own.done("second", c.starts[1].token), finish_result::finished);
}

TEST_P(store_begin, counts_attempts) {
  own.put(due_now());
  for (unsigned attempt = 1; attempt <= 5; ++attempt) {
    const auto started = own.begin("t");
    EXPECT_EQ(started.attempt, attempt);
    EXPECT_EQ(own.again("t", started.token, past), finish_result::finished);
    EXPECT_EQ(own.get("t")->attempts, attempt);
  }
}

TEST_P(store_begin, answers_the_whole_payload) {
  std::string payload(65'536, 'x');
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i % 256);
  own.put({.id = "t", .due = past, .payload = payload});
  EXPECT_EQ(own.begin("t").payload, payload);
}

TEST_P(store_begin, tokens_grow_for_each_id_and_are_unique) {
  std::set<revision> given;
  const std::vector<std::string> ids{"a", "b", "c"};
  std::vector<revision> last(ids.size());
  for (const std::string& id : ids) own.put(due_now(id));
  for (int round = 0; round < 5; ++round)
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const revision token = own.begin(ids[i]).token;
      EXPECT_TRUE(given.insert(token).second) << "given twice";
      EXPECT_GT(token, last[i]);
      EXPECT_LE(token, static_cast<revision>(std::numeric_limits<std::int64_t>::max()));
      last[i] = token;
      EXPECT_EQ(own.again(ids[i], token, past), finish_result::finished);
    }
}

TEST_P(store_begin, tokens_grow_when_the_store_was_reopened) {
  own.put(due_now());
  revision last = 0;
  for (int opened = 0; opened < 4; ++opened) {
    const revision token = own.begin("t").token;
    EXPECT_GT(token, last);
    last = token;
    EXPECT_EQ(own.again("t", token, past), finish_result::finished);
    own.lose();
  }
}

TEST_P(store_begin, tokens_grow_when_the_task_was_forgotten) {
  forget_ended_at_once();
  revision last = 0;
  for (int scheduled = 0; scheduled < 4; ++scheduled) {
    const revision token = make_finished();
    EXPECT_GT(token, last);
    last = token;
    fixture->advance(1ms);
    own.purge();
    if (scheduled == 2) own.lose(0ns);
  }
}

TEST_P(store_begin, tokens_grow_when_the_clock_is_set_back) {
  if (!fixture->can_shift_clock()) GTEST_SKIP() << "the store's clock cannot be set";
  own.put(due_now());
  revision last = 0;
  for (int rounds = 0; rounds < 4; ++rounds) {
    const revision token = own.begin("t").token;
    EXPECT_GT(token, last);
    last = token;
    EXPECT_EQ(own.again("t", token, past), finish_result::finished);
    fixture->shift_clock(-24h);
    if (rounds == 1) own.lose();
  }
}

class store_finish : public store_test {};
TICKWHEEL_CONFORMANCE(store_finish);

TEST_P(store_finish, answers_each_of_a_batch) {
  const revision running = make_running("running"), failing = make_running("failing"), broken = make_running("broken");
  const revision finished = make_finished("finished");
  const revision pending = make_pending("pending");
  asked<durable::finish_call> c;
  c.items.push_back({.id = "none", .token = running, .how = durable::outcome::done});
  c.items.push_back({.id = "running", .token = running, .how = durable::outcome::done});
  c.items.push_back({.id = "pending", .token = pending, .how = durable::outcome::done});
  c.items.push_back({.id = "finished", .token = finished, .how = durable::outcome::done});
  c.items.push_back({.id = "failing", .token = failing, .how = durable::outcome::again, .at = past, .error = "e"});
  c.items.push_back({.id = "broken", .token = broken, .how = durable::outcome::dead, .error = "b"});
  own.run(c);
  EXPECT_EQ(c.results, (std::vector{finish_result::stale, finish_result::finished, finish_result::stale,
                                    finish_result::finished, finish_result::finished, finish_result::finished}));
  EXPECT_EQ(state_of("running"), task_state::finished);
  EXPECT_EQ(state_of("pending"), task_state::pending);
  EXPECT_EQ(own.get("failing")->last_error, "e");
  EXPECT_EQ(state_of("failing"), task_state::pending);
  EXPECT_EQ(own.get("broken")->last_error, "b");
  EXPECT_EQ(state_of("broken"), task_state::dead);
}

TEST_P(store_finish, names_only_rows_that_are_pending_again) {
  const revision failing = make_running("failing"), done = make_running("done"), broken = make_running("broken");
  asked<durable::finish_call> c;
  c.items.push_back({.id = "failing", .token = failing, .how = durable::outcome::again, .at = past + 5s});
  c.items.push_back({.id = "done", .token = done, .how = durable::outcome::done});
  c.items.push_back({.id = "broken", .token = broken, .how = durable::outcome::dead});
  own.run(c);
  const auto rows = own.load();
  ASSERT_EQ(rows.size(), 1U);
  if (c.pending.empty()) return;  // a store may leave it to the next look
  ASSERT_EQ(c.pending.size(), 1U);
  EXPECT_EQ(c.pending[0].id, "failing");
  EXPECT_EQ(c.pending[0].rev, rows[0].rev);
  EXPECT_EQ(c.pending[0].at, past + 5s);
  EXPECT_EQ(c.pending[0].partition, rows[0].partition);
  EXPECT_EQ(c.pending[0].bytes, 4U);
}

TEST_P(store_finish, keeps_the_last_error_that_is_not_empty) {
  own.put(due_now());
  EXPECT_EQ(own.again("t", own.begin("t").token, past, "first"), finish_result::finished);
  EXPECT_EQ(own.get("t")->last_error, "first");
  EXPECT_EQ(own.again("t", own.begin("t").token, past), finish_result::finished);
  EXPECT_EQ(own.get("t")->last_error, "first");
  EXPECT_EQ(own.dead("t", own.begin("t").token), finish_result::finished);
  EXPECT_EQ(own.get("t")->last_error, "first");
}

TEST_P(store_finish, keeps_errors_of_any_text) {
  std::string longest;
  while (longest.size() + 3 <= durable::max_error_bytes) longest += "\xe2\x82\xac";
  longest.append(durable::max_error_bytes - longest.size(), '!');
  for (const std::string& error : {std::string{"it's \"so\" \\ 100 % ; -- $1 ?"}, std::string{"two\nlines\tand a tab"},
                                   std::string{"\xf0\x9f\x98\x80 caf\xc3\xa9"}, longest}) {
    own.put(due_now(), durable::on_conflict::replace);
    EXPECT_EQ(own.again("t", own.begin("t").token, past, error), finish_result::finished);
    EXPECT_EQ(own.get("t")->last_error, error);
  }
}

TEST_P(store_finish, gives_an_attempt_back_only_if_asked) {
  own.put(due_now());
  EXPECT_EQ(own.again("t", own.begin("t").token, past, "failed", false), finish_result::finished);
  EXPECT_EQ(own.get("t")->attempts, 1U);
  EXPECT_EQ(own.again("t", own.begin("t").token, past, {}, true), finish_result::finished);
  EXPECT_EQ(own.get("t")->attempts, 1U);
  EXPECT_EQ(own.begin("t").attempt, 2U);
}

TEST_P(store_finish, is_kept_when_the_store_was_reopened) {
  const revision token = make_running();
  EXPECT_EQ(own.done("t", token), finish_result::finished);
  own.lose();
  EXPECT_EQ(state_of(), task_state::finished);
  EXPECT_EQ(own.done("t", token), finish_result::finished);
}

TEST_P(store_finish, needs_no_session) {
  const revision token = make_orphan();
  EXPECT_EQ(own.done("t", token), finish_result::finished) << "nobody has recovered it";
  EXPECT_EQ(own.recover(), node::recovery{});
  EXPECT_EQ(state_of(), task_state::finished);
}

class store_periods : public store_test {
 protected:
  /// Runs a task that was due `ago` before now, and returns it as it is after `done`.
  durable::task_info after_done(std::chrono::nanoseconds ago, std::chrono::nanoseconds period) {
    own.get("t");
    due_ = own.now() - ago;
    own.put({.id = "t", .due = due_, .payload = "data", .period = period});
    EXPECT_EQ(own.done("t", own.begin("t").token), finish_result::finished);
    done_at_ = own.now();
    return own.get("t").value_or(durable::task_info{});
  }
  time due_{}, done_at_{};
};
TICKWHEEL_CONFORMANCE(store_periods);

TEST_P(store_periods, missed_ones_are_skipped) {
  for (const auto period : {std::chrono::nanoseconds{1ms}, std::chrono::nanoseconds{7s}, std::chrono::nanoseconds{1h},
                            std::chrono::nanoseconds{1'234'567'891ns}}) {
    own.cancel("t");
    own.lose(0ns);
    fixture->advance(1ms);
    const durable::task_info i = after_done(24h + 1ns, period);
    EXPECT_EQ(i.state, task_state::pending);
    EXPECT_EQ((i.what.due - due_) % period, 0ns) << "not due + n * period";
    EXPECT_GT(i.what.due, done_at_) << "a period that was missed";
    EXPECT_LE(i.what.due, done_at_ + period) << "a period was left out";
    EXPECT_EQ(i.next, i.what.due);
    EXPECT_EQ(i.what.period, period);
  }
}

TEST_P(store_periods, next_one_is_strictly_after_now) {
  if (!fixture->can_shift_clock()) GTEST_SKIP() << "the store's clock cannot be set";
  own.get("t");
  const time due = own.now() - 1h;
  own.put({.id = "t", .due = due, .period = 30min});
  const revision token = own.begin("t").token;
  own.get("t");
  fixture->shift_clock(due + 24h - own.now());  // a period begins in this nanosecond
  EXPECT_EQ(own.done("t", token), finish_result::finished);
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_GT(i->what.due, own.now() - 30min);
  EXPECT_GT(i->what.due, due + 24h);
  EXPECT_EQ((i->what.due - due) % 30min, 0ns);
}

TEST_P(store_periods, clock_set_back_repeats_none) {
  if (!fixture->can_shift_clock()) GTEST_SKIP() << "the store's clock cannot be set";
  own.get("t");
  const time due = own.now() - 1s;
  own.put({.id = "t", .due = due, .period = 1h});
  const revision token = own.begin("t").token;
  fixture->shift_clock(-48h);
  EXPECT_EQ(own.done("t", token), finish_result::finished);
  EXPECT_EQ(own.get("t")->what.due, due + 1h);
}

TEST_P(store_periods, next_one_has_all_its_attempts) {
  own.put(periodic());
  EXPECT_EQ(own.again("t", own.begin("t").token, past, "failed"), finish_result::finished);
  EXPECT_EQ(own.done("t", own.begin("t").token), finish_result::finished);
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->attempts, 0U);
  EXPECT_EQ(i->lost, 0U);
  EXPECT_EQ(i->last_error, "");
}

TEST_P(store_periods, next_one_forgets_losses) {
  own.put(periodic());
  own.begin("t");
  own.lose();
  own.recover();
  EXPECT_EQ(own.get("t")->lost, 1U);
  EXPECT_EQ(own.done("t", own.begin("t").token), finish_result::finished);
  EXPECT_EQ(own.get("t")->lost, 0U);
}

TEST_P(store_periods, next_one_starts) {
  const durable::task_info i = after_done(24h, 5ms);
  fixture->advance(6ms);
  const auto started = own.begin("t");
  EXPECT_EQ(started.due, i.what.due);
  EXPECT_EQ(started.attempt, 1U);
  EXPECT_EQ(started.payload, "data");
}

TEST_P(store_periods, one_beyond_the_range_ends_the_task) {
  constexpr std::chrono::hours years{24 * 366 * 200};
  EXPECT_EQ(after_done(1h, years).state, task_state::finished);
}

}  // namespace
