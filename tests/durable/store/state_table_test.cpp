// Each cell of the state table: what a request does to a task in each state.
//
// A cell that changes nothing is tested by all that the store says of the task before and after. Of a running task the token must
// still fit, of a pending one the revision.
#include "conformance.hpp"

using namespace conformance;
using durable::cancel_result;
using durable::finish_result;
using durable::on_conflict;
using durable::revision;
using durable::revive_result;
using durable::schedule_result;
using durable::task_state;

namespace {

class state_table : public store_test {
 protected:
  schedule_result keep(durable::task what) { return own.put(std::move(what), on_conflict::keep).result; }
  schedule_result replace(durable::task what) { return own.put(std::move(what), on_conflict::replace).result; }
  /// Another task than those of `make_...`, with the same id.
  durable::task other() const { return {.id = "t", .due = own.now() + 2h, .payload = "other", .period = 3h}; }

  /// The task is `other`, fresh.
  void expect_other() {
    const auto i = own.get("t");
    ASSERT_TRUE(i.has_value());
    EXPECT_EQ(i->state, task_state::pending);
    EXPECT_EQ(i->what.payload, "other");
    EXPECT_EQ(i->what.period, 3h);
    EXPECT_GT(i->what.due, own.now() + 1h);
    EXPECT_EQ(i->next, i->what.due);
    EXPECT_EQ(i->attempts, 0U);
    EXPECT_EQ(i->lost, 0U);
    EXPECT_EQ(i->last_error, "");
    EXPECT_FALSE(i->cancelling);
  }
  /// `ask` changes nothing of the task.
  template <class F>
  void expect_same(F ask) {
    const std::string before = described(own.get("t"));
    const auto rows = own.load(24h);
    ask();
    EXPECT_EQ(described(own.get("t")), before);
    const auto rows_now = own.load(24h);
    ASSERT_EQ(rows_now.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows_now[i].rev, rows[i].rev);
  }
  void expect_counts(unsigned attempts, unsigned lost) {
    const auto i = own.get("t");
    ASSERT_TRUE(i.has_value());
    EXPECT_EQ(i->attempts, attempts);
    EXPECT_EQ(i->lost, lost);
  }
  void expect_ended(task_state how) {
    const auto i = own.get("t");
    ASSERT_TRUE(i.has_value());
    EXPECT_EQ(i->state, how);
    EXPECT_EQ(i->what.payload, "") << "an ended task keeps its payload";
    EXPECT_EQ(i->next, time::max());
    EXPECT_FALSE(i->cancelling);
    EXPECT_TRUE(own.load(24h).empty());
  }
  /// The answers to a start that has ended before, or never was.
  void expect_stale(revision token) {
    expect_same([&] {
      EXPECT_EQ(own.done("t", token), finish_result::stale);
      EXPECT_EQ(own.again("t", token, past, "late"), finish_result::stale);
      EXPECT_EQ(own.dead("t", token, "late"), finish_result::stale);
    });
  }
  /// The same answer sent again, and each other answer of the same start, is `finished` and changes nothing.
  void expect_answered(revision token) {
    expect_same([&] {
      EXPECT_EQ(own.done("t", token), finish_result::finished);
      EXPECT_EQ(own.again("t", token, past, "late"), finish_result::finished);
      EXPECT_EQ(own.dead("t", token, "late"), finish_result::finished);
    });
  }
  /// A running task, and the token of its first start, whose answer was `again`.
  struct two_starts {
    revision first = 0, second = 0;
  };
  two_starts make_running_again() {
    two_starts tokens;
    tokens.first = make_running();
    EXPECT_EQ(own.again("t", tokens.first, past), finish_result::finished);
    tokens.second = own.begin("t").token;
    return tokens;
  }
  static revision not_given(revision token) { return token + 1'000'000'000'000; }
};

TICKWHEEL_CONFORMANCE(state_table);

// schedule keep

TEST_P(state_table, keep_on_none_answers_scheduled) {
  EXPECT_EQ(keep(other()), schedule_result::scheduled);
  expect_other();
}

TEST_P(state_table, keep_on_expired_answers_scheduled) {
  forget_ended_at_once();
  make_finished();
  fixture->advance(1ms);
  EXPECT_EQ(keep(other()), schedule_result::scheduled);
  expect_other();
}

TEST_P(state_table, keep_on_pending_answers_exists) {
  make_pending();
  expect_same([&] { EXPECT_EQ(keep(other()), schedule_result::exists); });
}

TEST_P(state_table, keep_on_running_answers_exists) {
  const revision token = make_running();
  expect_same([&] { EXPECT_EQ(keep(other()), schedule_result::exists); });
  EXPECT_EQ(own.done("t", token), finish_result::finished);
}

TEST_P(state_table, keep_on_dead_answers_ended) {
  make_dead();
  expect_same([&] { EXPECT_EQ(keep(other()), schedule_result::ended); });
}

TEST_P(state_table, keep_on_finished_answers_ended) {
  make_finished();
  expect_same([&] { EXPECT_EQ(keep(other()), schedule_result::ended); });
}

TEST_P(state_table, keep_on_cancelled_answers_ended) {
  make_cancelled();
  expect_same([&] { EXPECT_EQ(keep(other()), schedule_result::ended); });
}

// schedule replace

TEST_P(state_table, replace_on_none_answers_scheduled) {
  EXPECT_EQ(replace(other()), schedule_result::scheduled);
  expect_other();
}

TEST_P(state_table, replace_on_expired_answers_scheduled) {
  forget_ended_at_once();
  make_cancelled();
  fixture->advance(1ms);
  EXPECT_EQ(replace(other()), schedule_result::scheduled);
  expect_other();
}

TEST_P(state_table, replace_on_pending_answers_replaced) {
  const revision before = make_pending();
  const auto answer = own.put(other(), on_conflict::replace);
  EXPECT_EQ(answer.result, schedule_result::replaced);
  EXPECT_GT(answer.rev, before);
  expect_other();
}

TEST_P(state_table, replace_on_pending_forgets_attempts_and_error) {
  EXPECT_EQ(own.again("t", make_running(), past, "failed"), finish_result::finished);
  EXPECT_EQ(replace(other()), schedule_result::replaced);
  expect_other();
}

TEST_P(state_table, replace_on_running_answers_running) {
  const revision token = make_running();
  expect_same([&] { EXPECT_EQ(replace(other()), schedule_result::running); });
  EXPECT_EQ(own.done("t", token), finish_result::finished);
}

TEST_P(state_table, replace_on_dead_answers_replaced) {
  make_dead();
  EXPECT_EQ(replace(other()), schedule_result::replaced);
  expect_other();
}

TEST_P(state_table, replace_on_finished_answers_replaced) {
  make_finished();
  EXPECT_EQ(replace(other()), schedule_result::replaced);
  expect_other();
}

TEST_P(state_table, replace_on_cancelled_answers_replaced) {
  make_cancelled();
  EXPECT_EQ(replace(other()), schedule_result::replaced);
  expect_other();
}

TEST_P(state_table, replaced_ended_task_is_not_purged) {
  make_finished();
  EXPECT_EQ(replace(other()), schedule_result::replaced);
  forget_ended_at_once();
  EXPECT_EQ(own.purge(), 0U);
  expect_other();
}

// cancel

TEST_P(state_table, cancel_on_none_answers_not_found) {
  EXPECT_EQ(own.cancel("t"), cancel_result::not_found);
  EXPECT_FALSE(own.get("t"));
}

TEST_P(state_table, cancel_on_expired_answers_not_found) {
  forget_ended_at_once();
  make_finished();
  fixture->advance(1ms);
  EXPECT_EQ(own.cancel("t"), cancel_result::not_found);
}

TEST_P(state_table, cancel_on_pending_answers_cancelled) {
  const revision rev = make_pending();
  EXPECT_EQ(own.cancel("t"), cancel_result::cancelled);
  expect_ended(task_state::cancelled);
  EXPECT_FALSE(own.begin("t", rev));
}

TEST_P(state_table, cancel_on_running_answers_running) {
  const revision token = make_running();
  EXPECT_EQ(own.cancel("t"), cancel_result::running);
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::running);
  EXPECT_TRUE(i->cancelling);
  EXPECT_EQ(i->what.payload, "data");
  expect_same([&] { EXPECT_EQ(own.cancel("t"), cancel_result::running); });
  EXPECT_EQ(own.done("t", token), finish_result::finished) << "a cancel gives a running task no new token";
}

TEST_P(state_table, cancel_on_dead_answers_cancelled) {
  make_dead();
  EXPECT_EQ(own.cancel("t"), cancel_result::cancelled);
  expect_ended(task_state::cancelled);
  EXPECT_TRUE(own.list(task_state::dead).empty());
}

TEST_P(state_table, cancel_on_finished_answers_finished) {
  make_finished();
  expect_same([&] { EXPECT_EQ(own.cancel("t"), cancel_result::finished); });
}

TEST_P(state_table, cancel_on_cancelled_answers_cancelled) {
  make_cancelled();
  expect_same([&] { EXPECT_EQ(own.cancel("t"), cancel_result::cancelled); });
}

// begin

TEST_P(state_table, begin_on_none_starts_nothing) {
  EXPECT_FALSE(own.begin("t", 1));
  EXPECT_FALSE(own.get("t"));
}

TEST_P(state_table, begin_on_pending_answers_a_token) {
  const revision rev = make_pending();
  const auto started = own.begin("t", rev);
  ASSERT_TRUE(started.has_value());
  EXPECT_GT(started->token, rev);
  EXPECT_EQ(started->attempt, 1U);
  EXPECT_EQ(started->lost, 0U);
  EXPECT_EQ(started->due, past);
  EXPECT_EQ(started->period, 0ns);
  EXPECT_EQ(started->payload, "data");
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::running);
  EXPECT_EQ(i->attempts, 1U);
  EXPECT_TRUE(own.load(24h).empty());
}

TEST_P(state_table, begin_on_running_starts_nothing) {
  const revision rev = make_pending();
  const revision token = own.begin("t").token;
  expect_same([&] {
    EXPECT_FALSE(own.begin("t", token));
    EXPECT_FALSE(own.begin("t", rev));
  });
  EXPECT_EQ(own.done("t", token), finish_result::finished);
}

TEST_P(state_table, begin_on_dead_starts_nothing) {
  const revision token = make_dead();
  expect_same([&] {
    for (revision rev = token; rev < token + 5; ++rev) EXPECT_FALSE(own.begin("t", rev));
  });
}

TEST_P(state_table, begin_on_finished_starts_nothing) {
  const revision token = make_finished();
  expect_same([&] {
    for (revision rev = token; rev < token + 5; ++rev) EXPECT_FALSE(own.begin("t", rev));
  });
}

TEST_P(state_table, begin_on_cancelled_starts_nothing) {
  const revision pending = make_pending();
  EXPECT_EQ(own.cancel("t"), cancel_result::cancelled);
  expect_same([&] {
    for (revision rev = pending; rev < pending + 5; ++rev) EXPECT_FALSE(own.begin("t", rev));
  });
}

// done, retry_after, fail, bury

TEST_P(state_table, answers_on_none_are_stale) {
  for (const revision token : {revision{0}, revision{1}, revision{1} << 60}) expect_stale(token);
  EXPECT_FALSE(own.get("t"));
}

TEST_P(state_table, answers_on_expired_are_stale) {
  forget_ended_at_once();
  const revision token = make_finished();
  fixture->advance(1ms);
  expect_stale(token);
}

TEST_P(state_table, answers_on_pending_are_stale) {
  const revision rev = make_pending();
  expect_stale(rev);
  expect_stale(0);
}

TEST_P(state_table, answers_with_another_token_on_running_are_stale) {
  const revision token = make_running();
  expect_stale(token - 1);
  expect_stale(not_given(token));
  expect_stale(0);
  EXPECT_EQ(own.done("t", token), finish_result::finished);
}

TEST_P(state_table, answers_with_another_token_on_dead_are_stale) {
  const revision token = make_dead();
  expect_stale(not_given(token));
  expect_stale(token - 1);
}

TEST_P(state_table, answers_with_another_token_on_finished_are_stale) {
  const revision token = make_finished();
  expect_stale(not_given(token));
  expect_stale(token - 1);
}

TEST_P(state_table, answers_on_cancelled_are_stale) {
  const revision rev = make_pending();
  EXPECT_EQ(own.cancel("t"), cancel_result::cancelled);
  expect_stale(rev);
  expect_stale(0);
}

TEST_P(state_table, done_on_running_answers_finished) {
  const revision token = make_running();
  EXPECT_EQ(own.done("t", token), finish_result::finished);
  expect_ended(task_state::finished);
}

TEST_P(state_table, done_on_stopping_answers_finished) {
  const revision token = make_stopping();
  EXPECT_EQ(own.done("t", token), finish_result::finished);
  expect_ended(task_state::finished);
}

TEST_P(state_table, done_on_running_periodic_makes_it_pending) {
  const durable::task what = periodic();
  own.put(what);
  const auto started = own.begin("t");
  EXPECT_EQ(started.due, what.due);
  EXPECT_EQ(started.period, 1h);
  EXPECT_EQ(own.done("t", started.token), finish_result::finished);
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::pending);
  EXPECT_EQ(i->what.due, what.due + 1h);
  EXPECT_EQ(i->next, what.due + 1h);
  EXPECT_EQ(i->what.payload, "data");
  EXPECT_EQ(i->attempts, 0U);
}

TEST_P(state_table, done_on_stopping_periodic_cancels_it) {
  own.put(periodic());
  const revision token = own.begin("t").token;
  EXPECT_EQ(own.cancel("t"), cancel_result::running);
  EXPECT_EQ(own.done("t", token), finish_result::finished);
  expect_ended(task_state::cancelled);
}

TEST_P(state_table, retry_on_running_makes_it_pending) {
  const revision token = make_running();
  const time next = own.now() + 30min;
  EXPECT_EQ(own.again("t", token, next, {}, true), finish_result::finished);
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::pending);
  EXPECT_EQ(i->next, next);
  EXPECT_EQ(i->what.due, past) << "the due time of a task is the same in all attempts";
  EXPECT_EQ(i->what.payload, "data");
  EXPECT_EQ(i->attempts, 0U) << "retry_after takes its attempt back";
  EXPECT_EQ(i->last_error, "");
}

TEST_P(state_table, retry_on_stopping_cancels_it) {
  const revision token = make_stopping();
  EXPECT_EQ(own.again("t", token, past, {}, true), finish_result::finished);
  expect_ended(task_state::cancelled);
  expect_counts(0, 0);
}

TEST_P(state_table, fail_on_running_makes_it_pending) {
  const revision token = make_running();
  const time next = own.now() + 30min;
  EXPECT_EQ(own.again("t", token, next, "no route"), finish_result::finished);
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::pending);
  EXPECT_EQ(i->next, next);
  EXPECT_EQ(i->what.due, past);
  EXPECT_EQ(i->attempts, 1U);
  EXPECT_EQ(i->last_error, "no route");
}

TEST_P(state_table, fail_on_stopping_cancels_it) {
  const revision token = make_stopping();
  EXPECT_EQ(own.again("t", token, past, "no route"), finish_result::finished);
  expect_ended(task_state::cancelled);
  expect_counts(1, 0);
}

TEST_P(state_table, fail_on_running_periodic_keeps_the_period) {
  const durable::task what = periodic();
  own.put(what);
  const time next = own.now() + 5h;
  EXPECT_EQ(own.again("t", own.begin("t").token, next, "no route"), finish_result::finished);
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::pending);
  EXPECT_EQ(i->what.due, what.due);
  EXPECT_EQ(i->next, next);
  EXPECT_EQ(i->attempts, 1U);
}

TEST_P(state_table, bury_on_running_makes_it_dead) {
  const revision token = make_running();
  EXPECT_EQ(own.dead("t", token, "broken"), finish_result::finished);
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::dead);
  EXPECT_EQ(i->next, time::max());
  EXPECT_EQ(i->what.due, past);
  EXPECT_EQ(i->what.payload, "data") << "a dead task can be revived";
  EXPECT_EQ(i->attempts, 1U);
  EXPECT_EQ(i->last_error, "broken");
  EXPECT_TRUE(own.load(24h).empty());
  EXPECT_EQ(own.list(task_state::dead), std::vector<std::string>{"t"});
}

TEST_P(state_table, bury_on_running_periodic_makes_it_dead) {
  own.put(periodic());
  EXPECT_EQ(own.dead("t", own.begin("t").token, "broken"), finish_result::finished);
  EXPECT_EQ(state_of(), task_state::dead);
}

TEST_P(state_table, bury_on_stopping_cancels_it) {
  const revision token = make_stopping();
  EXPECT_EQ(own.dead("t", token, "broken"), finish_result::finished);
  expect_ended(task_state::cancelled);
}

// the token of the last answer

TEST_P(state_table, answered_token_on_pending_answers_finished) {
  const revision token = make_running();
  EXPECT_EQ(own.again("t", token, past, "failed"), finish_result::finished);
  expect_answered(token);
}

TEST_P(state_table, answered_token_on_running_answers_finished) {
  const two_starts tokens = make_running_again();
  expect_answered(tokens.first);
  EXPECT_EQ(own.done("t", tokens.second), finish_result::finished);
}

TEST_P(state_table, answered_token_on_dead_answers_finished) { expect_answered(make_dead()); }

TEST_P(state_table, answered_token_on_finished_answers_finished) { expect_answered(make_finished()); }

TEST_P(state_table, answered_token_on_cancelled_answers_finished) {
  const revision token = make_running();
  EXPECT_EQ(own.again("t", token, past), finish_result::finished);
  EXPECT_EQ(own.cancel("t"), cancel_result::cancelled);
  expect_answered(token);
}

TEST_P(state_table, answered_token_on_revived_answers_finished) {
  const revision token = make_dead();
  EXPECT_EQ(own.revive("t").result, revive_result::revived);
  expect_answered(token);
}

TEST_P(state_table, answered_token_on_replaced_answers_finished) {
  const revision token = make_finished();
  EXPECT_EQ(replace(other()), schedule_result::replaced);
  expect_answered(token);
}

TEST_P(state_table, token_before_the_last_answered_is_stale) {
  const two_starts tokens = make_running_again();
  EXPECT_EQ(own.done("t", tokens.second), finish_result::finished);
  expect_stale(tokens.first);
  expect_answered(tokens.second);
}

TEST_P(state_table, recovered_token_is_stale) {
  const revision token = make_orphan();
  own.recover();
  expect_stale(token);
}

// recover

TEST_P(state_table, recover_on_running_makes_it_pending) {
  make_orphan();
  EXPECT_EQ(own.recover(), (node::recovery{.recovered = 1, .died = 0}));
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::pending);
  EXPECT_EQ(i->what.due, past);
  EXPECT_EQ(i->next, past) << "at the time it had";
  EXPECT_EQ(i->attempts, 1U) << "a lost start counts";
  EXPECT_EQ(i->lost, 1U);
  const auto rows = own.load();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].lost, 1U);
  const auto started = own.begin("t");
  EXPECT_EQ(started.attempt, 2U);
  EXPECT_EQ(started.lost, 1U);
}

TEST_P(state_table, recover_keeps_the_time_of_a_retry) {
  EXPECT_EQ(own.again("t", make_running(), past + 5s), finish_result::finished);
  own.begin("t");
  own.lose();
  own.recover();
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->next, past + 5s);
  EXPECT_EQ(i->what.due, past);
}

TEST_P(state_table, recover_on_stopping_cancels_it) {
  make_stopping();
  own.lose();
  EXPECT_EQ(own.recover(), node::recovery{});
  expect_ended(task_state::cancelled);
  expect_counts(1, 1);
}

TEST_P(state_table, recover_after_third_loss_makes_it_dead) {
  make_pending();
  for (unsigned losses = 1; losses <= 3; ++losses) {
    own.begin("t");
    own.lose();
    const bool is_last = losses == 3;
    EXPECT_EQ(own.recover(), (node::recovery{.recovered = is_last ? 0U : 1U, .died = is_last ? 1U : 0U}));
    EXPECT_EQ(state_of(), is_last ? task_state::dead : task_state::pending);
  }
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->lost, 3U);
  EXPECT_EQ(i->next, time::max());
  EXPECT_EQ(i->what.payload, "data");
}

TEST_P(state_table, recover_after_third_loss_makes_periodic_dead) {
  own.put(periodic());
  for (int losses = 1; losses <= 3; ++losses) {
    own.begin("t");
    own.lose();
    own.recover();
  }
  EXPECT_EQ(state_of(), task_state::dead);
}

TEST_P(state_table, recover_without_attempts_makes_it_dead) {
  make_orphan();
  EXPECT_EQ(own.recover(1), (node::recovery{.recovered = 0, .died = 1}));
  EXPECT_EQ(state_of(), task_state::dead);
  EXPECT_EQ(own.list(task_state::dead).size(), 1U);
}

TEST_P(state_table, recover_without_attempts_starts_next_period) {
  const durable::task what = periodic();
  own.put(what);
  own.begin("t");
  own.lose();
  EXPECT_EQ(own.recover(1), (node::recovery{.recovered = 1, .died = 0}));
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::pending);
  EXPECT_EQ(i->what.due, what.due + 1h);
  EXPECT_EQ(i->next, what.due + 1h);
  EXPECT_EQ(i->attempts, 0U);
  EXPECT_EQ(i->lost, 0U);
}

TEST_P(state_table, recover_without_attempts_and_stop_cancels) {
  make_stopping();
  own.lose();
  EXPECT_EQ(own.recover(1), node::recovery{});
  expect_ended(task_state::cancelled);
}

TEST_P(state_table, recover_leaves_other_states) {
  make_pending("pending");
  make_dead("dead");
  make_finished("finished");
  make_cancelled("cancelled");
  own.lose();
  const std::vector<std::string> ids{"pending", "dead", "finished", "cancelled"};
  std::vector<std::string> before;
  for (const std::string& id : ids) before.push_back(described(own.get(id)));
  EXPECT_EQ(own.recover(1), node::recovery{});
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(described(own.get(ids[i])), before[i]);
}

TEST_P(state_table, recover_leaves_running_of_living_session) {
  const revision token = make_running();
  expect_same([&] { EXPECT_EQ(own.recover(1), node::recovery{}); });
  EXPECT_EQ(own.done("t", token), finish_result::finished);
}

TEST_P(state_table, doubted_on_running_gives_its_attempt_back) {
  const revision token = make_running();
  EXPECT_EQ(own.recover(8, {"t"}), node::recovery{}) << "its session is not gone";
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::pending);
  EXPECT_EQ(i->next, past);
  EXPECT_EQ(i->attempts, 0U);
  EXPECT_EQ(i->lost, 0U);
  expect_stale(token);
}

TEST_P(state_table, doubted_on_stopping_cancels_it) {
  make_stopping();
  own.recover(8, {"t"});
  expect_ended(task_state::cancelled);
  expect_counts(0, 0);
}

TEST_P(state_table, doubted_leaves_other_states) {
  make_pending("pending");
  make_dead("dead");
  make_finished("finished");
  make_cancelled("cancelled");
  const std::vector<std::string> ids{"pending", "dead", "finished", "cancelled"};
  std::vector<std::string> before;
  for (const std::string& id : ids) before.push_back(described(own.get(id)));
  EXPECT_EQ(own.recover(8, {"pending", "dead", "finished", "cancelled", "none"}), node::recovery{});
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(described(own.get(ids[i])), before[i]);
}

// revive

TEST_P(state_table, revive_on_none_answers_not_found) { EXPECT_EQ(own.revive("t").result, revive_result::not_found); }

TEST_P(state_table, revive_on_expired_answers_not_found) {
  forget_ended_at_once();
  make_finished();
  fixture->advance(1ms);
  EXPECT_EQ(own.revive("t").result, revive_result::not_found);
}

TEST_P(state_table, revive_on_pending_answers_not_dead) {
  make_pending();
  expect_same([&] { EXPECT_EQ(own.revive("t").result, revive_result::not_dead); });
}

TEST_P(state_table, revive_on_running_answers_not_dead) {
  const revision token = make_running();
  expect_same([&] { EXPECT_EQ(own.revive("t").result, revive_result::not_dead); });
  EXPECT_EQ(own.done("t", token), finish_result::finished);
}

TEST_P(state_table, revive_on_dead_answers_revived) {
  const revision token = make_dead();
  const auto answer = own.revive("t");
  const time revived_at = own.now();
  EXPECT_EQ(answer.result, revive_result::revived);
  EXPECT_GT(answer.rev, token);
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->state, task_state::pending);
  EXPECT_EQ(i->next, revived_at);
  EXPECT_EQ(i->what.due, past) << "the due time of a task is the same in all attempts";
  EXPECT_EQ(i->what.payload, "data");
  EXPECT_EQ(i->attempts, 0U);
  EXPECT_EQ(i->lost, 0U);
  EXPECT_EQ(i->last_error, "");
  const auto started = own.begin("t", answer.rev);
  ASSERT_TRUE(started.has_value());
  EXPECT_EQ(started->attempt, 1U);
}

TEST_P(state_table, revive_forgets_losses) {
  make_pending();
  for (int losses = 1; losses <= 3; ++losses) {
    own.begin("t");
    own.lose();
    own.recover();
  }
  EXPECT_EQ(own.revive("t").result, revive_result::revived);
  const auto i = own.get("t");
  ASSERT_TRUE(i.has_value());
  EXPECT_EQ(i->attempts, 0U);
  EXPECT_EQ(i->lost, 0U);
}

TEST_P(state_table, revive_on_finished_answers_not_dead) {
  make_finished();
  expect_same([&] { EXPECT_EQ(own.revive("t").result, revive_result::not_dead); });
}

TEST_P(state_table, revive_on_cancelled_answers_not_dead) {
  make_cancelled();
  expect_same([&] { EXPECT_EQ(own.revive("t").result, revive_result::not_dead); });
}

}  // namespace
