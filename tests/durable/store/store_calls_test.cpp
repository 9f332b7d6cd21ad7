// All calls of a store share this: when they are answered, in which order, and what `close` answers.
#include "conformance.hpp"

#include <array>
#include <deque>

using namespace conformance;
using durable::store_call;
using durable::store_status;

namespace {

class store_calls : public store_test {
 protected:
  /// Calls all at once and waits for their answers.
  template <class... Calls>
  void run_together(asked<Calls>&... calls) {
    (call(own.store(), calls), ...);
    call_runner runner{*fixture};
    (runner.wait_for(calls), ...);
    for (const store_status s : {calls.status...}) EXPECT_EQ(s, store_status::ok);
  }

  std::vector<store_call*> answered_;
};

TICKWHEEL_CONFORMANCE(store_calls);

TEST_P(store_calls, empty_batches_are_answered) {
  asked<durable::begin_call> begin;
  begin.session = own.session();
  asked<durable::finish_call> finish;
  asked<durable::put_call> put;
  asked<durable::cancel_call> cancel;
  asked<durable::revive_call> revive;
  asked<durable::get_call> get;
  asked<durable::load_call> load;
  run_together(begin, finish, put, cancel, revive, get, load);
  EXPECT_TRUE(begin.starts.empty() && finish.results.empty() && put.results.empty() && cancel.results.empty());
  EXPECT_TRUE(revive.results.empty() && get.results.empty() && load.rows.empty());
}

TEST_P(store_calls, of_one_verb_are_answered_in_order) {
  std::deque<asked<durable::put_call>> puts(20);
  std::vector<store_call*> called;
  for (std::size_t i = 0; i < puts.size(); ++i) {
    puts[i].order = &answered_;
    puts[i].items.push_back({due_now("t" + std::to_string(i)), durable::on_conflict::keep});
    called.push_back(&puts[i]);
    call(own.store(), puts[i]);
  }
  EXPECT_TRUE(answered_.empty()) << "answered within the verb";
  for (auto& put : puts) call_runner{*fixture}.wait_for(put);
  EXPECT_EQ(answered_, called);
}

TEST_P(store_calls, of_requests_take_effect_in_order) {
  asked<durable::put_call> first, second, third;
  first.items.push_back({due_now("t", "first"), durable::on_conflict::keep});
  second.items.push_back({due_now("t", "second"), durable::on_conflict::keep});
  third.items.push_back({due_now("t", "third"), durable::on_conflict::replace});
  asked<durable::get_call> before, after_first, after_cancel, after_third;
  for (auto* const get : {&before, &after_first, &after_cancel, &after_third}) get->ids.emplace_back("t");
  asked<durable::cancel_call> cancel;
  cancel.ids.emplace_back("t");
  asked<durable::revive_call> revive;
  revive.ids.emplace_back("t");
  asked<durable::list_call> cancelled, pending;
  cancelled.state = durable::task_state::cancelled;
  pending.state = durable::task_state::pending;
  cancelled.limit = pending.limit = 10;

  run_together(before, first, after_first, cancel, after_cancel, revive, cancelled, second, third, pending,
               after_third);
  EXPECT_FALSE(before.results.at(0));
  EXPECT_EQ(first.results.at(0).result, durable::schedule_result::scheduled);
  EXPECT_EQ(after_first.results.at(0)->state, durable::task_state::pending);
  EXPECT_EQ(cancel.results.at(0), durable::cancel_result::cancelled);
  EXPECT_EQ(after_cancel.results.at(0)->state, durable::task_state::cancelled);
  EXPECT_EQ(revive.results.at(0).result, durable::revive_result::not_dead);
  EXPECT_EQ(cancelled.results.size(), 1U);
  EXPECT_EQ(second.results.at(0).result, durable::schedule_result::ended);
  EXPECT_EQ(third.results.at(0).result, durable::schedule_result::replaced);
  EXPECT_EQ(pending.results.size(), 1U);
  EXPECT_EQ(after_third.results.at(0)->what.payload, "third");
}

TEST_P(store_calls, release_takes_effect_after_earlier_begin) {
  const durable::revision first = make_pending("first"), second = make_pending("second");
  asked<durable::begin_call> before, after;
  before.session = after.session = own.session();
  before.items.push_back({"first", first});
  after.items.push_back({"second", second});
  asked<durable::release_call> release;
  release.session = own.session();
  release.partitions = own.owned();
  run_together(before, release, after);
  EXPECT_EQ(before.starts.size(), 1U);
  EXPECT_TRUE(after.starts.empty());
}

TEST_P(store_calls, finish_takes_effect_before_later_begin) {
  const durable::revision token = make_running();
  asked<durable::finish_call> done;
  done.items.push_back({.id = "t", .token = token, .how = durable::outcome::done});
  asked<durable::begin_call> begin;
  begin.session = own.session();
  begin.items.push_back({"t", token});
  asked<durable::finish_call> again;
  again.items.push_back({.id = "t", .token = token, .how = durable::outcome::dead});
  run_together(done, begin, again);
  EXPECT_TRUE(begin.starts.empty());
  EXPECT_EQ(done.results.at(0), durable::finish_result::finished);
  EXPECT_EQ(again.results.at(0), durable::finish_result::finished);
  EXPECT_EQ(state_of(), durable::task_state::finished) << "the later answer changed the earlier one";
}

TEST_P(store_calls, of_all_verbs_at_once_are_answered) {
  const durable::revision rev = make_pending("t");
  asked<durable::renew_call> renew;
  renew.session = own.session();
  renew.lease = 1h;
  asked<durable::bury_call> bury;
  asked<durable::acquire_call> acquire;
  acquire.session = own.session();
  acquire.limit = 1;
  asked<durable::release_call> release;
  release.session = own.session();
  asked<durable::load_call> load;
  load.page = 1;
  asked<durable::begin_call> begin;
  begin.session = own.session();
  begin.items.push_back({"t", rev});
  asked<durable::finish_call> finish;
  asked<durable::recover_call> recover;
  recover.session = own.session();
  recover.max_attempts = 8;
  asked<durable::put_call> put;
  asked<durable::cancel_call> cancel;
  asked<durable::revive_call> revive;
  asked<durable::get_call> get;
  asked<durable::list_call> list;
  list.limit = 1;
  asked<durable::purge_call> purge;
  purge.limit = 1;
  run_together(renew, bury, acquire, release, load, begin, finish, recover, put, cancel, revive, get, list, purge);
  EXPECT_EQ(begin.starts.size(), 1U);
}

TEST_P(store_calls, answer_may_call_verbs) {
  struct chain final : durable::put_call {
    chain(durable::store& s, int calls) : put_call{&on_answered}, on{s}, left{calls} {}
    static void on_answered(store_call& c) noexcept {
      auto& self = static_cast<chain&>(c);
      EXPECT_FALSE(self.calling) << "answered within the verb";
      if (--self.left != 0) self.ask();
    }
    void ask() {
      items.clear();
      items.push_back({due_now("t" + std::to_string(left)), durable::on_conflict::keep});
      calling = true;
      on.put(*this);
      calling = false;
    }
    durable::store& on;
    int left;
    bool calling = false;
  };
  chain puts{own.store(), 5};
  puts.ask();
  for (int turns = 0; puts.left != 0 && turns < 1'000'000; ++turns) fixture->turn();
  EXPECT_EQ(own.list(durable::task_state::pending), (std::vector<std::string>{"t1", "t2", "t3", "t4", "t5"}));
}

TEST_P(store_calls, answers_carry_the_clock) {
  own.get("t");
  const time before = own.now();
  EXPECT_GT(before, time{}) << "the store's clock is after 1970";
  fixture->advance(2ms);
  own.get("t");
  EXPECT_GE(own.now() - before, 2ms);
}

TEST_P(store_calls, before_join_are_unavailable) {
  own.close();
  ASSERT_EQ(own.store().open(fixture->timers()), 0);
  asked<durable::put_call> put;
  put.items.push_back({due_now(), durable::on_conflict::keep});
  asked<durable::get_call> get;
  get.ids.emplace_back("t");
  asked<durable::renew_call> renew;
  renew.session = own.session();
  call_runner runner{*fixture};
  runner.run(own.store(), put);
  runner.run(own.store(), get);
  runner.run(own.store(), renew);
  EXPECT_EQ(put.status, store_status::unavailable);
  EXPECT_EQ(get.status, store_status::unavailable);
  EXPECT_EQ(renew.status, store_status::unavailable);
  own.lose();
  EXPECT_FALSE(own.get("t"));
}

// close

TEST_P(store_calls, close_answers_all_in_order) {
  const durable::revision rev = make_pending("started");
  std::deque<asked<durable::put_call>> puts(10);
  std::deque<asked<durable::get_call>> gets(10);
  asked<durable::begin_call> begin;
  std::vector<store_call*> called;
  const auto ask = [&](auto& c) {
    c.order = &answered_;
    called.push_back(&c);
    call(own.store(), c);
  };
  for (std::size_t i = 0; i < puts.size(); ++i) {
    const std::string id = "t" + std::to_string(i);
    puts[i].items.push_back({due_now(id), durable::on_conflict::keep});
    gets[i].ids.push_back(id);
    ask(puts[i]);
    ask(gets[i]);
    if (i != 5) continue;
    begin.session = own.session();
    begin.items.push_back({"started", rev});
    ask(begin);
  }
  own.close();
  EXPECT_EQ(answered_, called);
  for (const auto& put : puts) EXPECT_NE(put.status, store_status::ok);
  for (const auto& get : gets) EXPECT_EQ(get.status, store_status::unavailable) << "a read has no effect";
  EXPECT_NE(begin.status, store_status::ok);

  own.start();
  for (std::size_t i = 0; i < puts.size(); ++i)
    EXPECT_FALSE(puts[i].status == store_status::unavailable && own.get("t" + std::to_string(i))) << i;
  EXPECT_TRUE(begin.status == store_status::unknown || state_of("started") == durable::task_state::pending);
  for (int turns = 0; turns < 10; ++turns) fixture->turn();
  EXPECT_EQ(answered_.size(), called.size()) << "a call was answered again after close";
}

TEST_P(store_calls, close_answers_join) {
  own.close();
  ASSERT_EQ(own.store().open(fixture->timers()), 0);
  asked<durable::join_call> join;
  join.name = "a";
  join.lease = 1h;
  call(own.store(), join);
  own.close();
  EXPECT_EQ(join.answers, 1);
  EXPECT_NE(join.status, store_status::ok);
  own.start();
}

TEST_P(store_calls, close_twice_is_harmless) {
  own.close();
  own.close();
  own.start();
  EXPECT_EQ(own.put(due_now()).result, durable::schedule_result::scheduled);
}

TEST_P(store_calls, close_keeps_what_was_answered) {
  own.put({.id = "t", .due = time{} + 123'456'789ns, .payload = "data", .period = 7ms});
  const std::string before = described(own.get("t"));
  own.close();
  own.start();
  EXPECT_EQ(described(own.get("t")), before);
}

TEST_P(store_calls, close_frees_the_database) {
  own.put(due_now());
  own.close();
  node next{*fixture};
  next.start(1h, "next");
  EXPECT_TRUE(next.get("t").has_value());
}

TEST_P(store_calls, never_opened_store_is_destroyed) {
  own.close();
  const node unused{*fixture};
}

TEST_P(store_calls, of_thousand_elements_are_answered) {
  constexpr std::size_t most = 1000;
  const auto id_of = [](std::size_t i) { return "t" + std::to_string(i); };
  asked<durable::put_call> put;
  for (std::size_t i = 0; i < most; ++i) put.items.push_back({due_now(id_of(i)), durable::on_conflict::keep});
  own.run(put);
  ASSERT_EQ(put.results.size(), most);

  asked<durable::begin_call> begin;
  begin.session = own.session();
  for (std::size_t i = 0; i < most; ++i) begin.items.push_back({id_of(i), put.results[i].rev});
  own.run(begin);
  ASSERT_EQ(begin.starts.size(), most);

  asked<durable::finish_call> finish;
  for (const auto& s : begin.starts)
    finish.items.push_back({.id = id_of(s.index), .token = s.token, .how = durable::outcome::dead});
  own.run(finish);
  EXPECT_EQ(finish.results, std::vector(most, durable::finish_result::finished));

  asked<durable::revive_call> revive;
  asked<durable::cancel_call> cancel;
  asked<durable::get_call> get;
  for (std::size_t i = 0; i < most; ++i) {
    revive.ids.push_back(id_of(i));
    cancel.ids.push_back(id_of(i));
    get.ids.push_back(id_of(i));
  }
  own.run(revive);
  ASSERT_EQ(revive.results.size(), most);
  for (const auto& r : revive.results) EXPECT_EQ(r.result, durable::revive_result::revived);
  own.run(cancel);
  EXPECT_EQ(cancel.results, std::vector(most, durable::cancel_result::cancelled));
  own.run(get);
  ASSERT_EQ(get.results.size(), most);
  for (std::size_t i = 0; i < most; ++i) EXPECT_EQ(get.results[i].value().what.id, id_of(i));
}

}  // namespace
