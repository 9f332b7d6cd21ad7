// A memory_database adds these to a store: its clock, delays, faults and crashes, and what a test reads of it.
#include "memory_fixtures.hpp"

#include <gtest/gtest.h>

#include <deque>

using namespace conformance;
using durable::memory_fault;
using durable::schedule_result;
using durable::store_status;
using durable::store_verb;
using durable::task_state;

namespace {

class memory_database : public testing::Test {
 protected:
  void SetUp() override { a.start(); }
  void TearDown() override {
    std::string why;
    EXPECT_TRUE(database.validate(&why)) << why;
  }

  using time = durable::clock::time_point;
  static constexpr time past{1s};

  /// A put of one task, and the number of its answers.
  struct one_put {
    explicit one_put(std::string id = "t", durable::on_conflict conflict = durable::on_conflict::keep) {
      call.items.push_back({{.id = std::move(id), .due = past, .payload = "data"}, conflict});
    }
    asked<durable::put_call> call;
  };
  struct one_get {
    explicit one_get(std::string id = "t") { call.ids.push_back(std::move(id)); }
    asked<durable::get_call> call;
  };
  void ask(one_put& c) { a.store().put(c.call); }
  void ask(one_get& c) { a.store().get(c.call); }
  template <class C>
  static bool is_answered(const C& c, store_status status) {
    return c.call.answers == 1 && c.call.status == status;
  }
  void turn() { fixture.turn(); }

  manual_memory_fixture fixture;
  tickwheel::manual_service& manual = fixture.manual;
  durable::memory_database& database = *fixture.database;
  node a{fixture};
};

// the clock

TEST_F(memory_database, clock_starts_when_the_first_store_is_opened) {
  durable::memory_database own{1, time{24h}};
  EXPECT_EQ(own.now(), time{24h});
  manual.advance(5s);
  EXPECT_EQ(own.now(), time{24h});
  auto shared = std::make_shared<durable::memory_database>(std::uint16_t{1}, time{24h});
  const auto s = durable::memory_store(shared);
  ASSERT_EQ(s->open(manual.timers), 0);
  EXPECT_EQ(shared->now(), time{24h});
  manual.advance(5s);
  EXPECT_EQ(shared->now(), time{24h} + 5s);
  s->close();
}

TEST_F(memory_database, clock_is_moved_forward_and_back) {
  const time before = database.now();
  database.shift_clock(1h);
  EXPECT_EQ(database.now(), before + 1h);
  database.shift_clock(-2h);
  EXPECT_EQ(database.now(), before - 1h);
  manual.advance(1s);
  EXPECT_EQ(database.now(), before - 1h + 1s);
}

TEST_F(memory_database, clock_goes_on_while_its_store_is_closed) {
  const time before = database.now();
  a.close();
  manual.advance(10s);
  a.start();
  EXPECT_EQ(database.now(), before + 10s);
}

TEST_F(memory_database, clock_never_goes_back_with_a_new_service) {
  manual.advance(10s);
  const time before = database.now();
  a.close();
  tickwheel::manual_service next;
  const auto s = fixture.make_store();
  ASSERT_EQ(s->open(next.timers), 0);
  EXPECT_EQ(database.now(), before);
  next.advance(1s);
  EXPECT_EQ(database.now(), before + 1s);
  s->close();
}

TEST_F(memory_database, clock_of_a_stopped_loop_does_not_count) {
  tickwheel::manual_service stopped;
  const auto s = fixture.make_store();
  ASSERT_EQ(s->open(stopped.timers), 0);
  const time before = database.now();
  manual.advance(10s);
  EXPECT_EQ(database.now(), before + 10s);
  stopped.advance(4s);
  EXPECT_EQ(database.now(), before + 10s);
  s->close();
}

// answers

TEST_F(memory_database, call_is_carried_out_and_answered_in_next_pass) {
  one_put put;
  ask(put);
  EXPECT_FALSE(database.info("t"));
  turn();
  EXPECT_TRUE(is_answered(put, store_status::ok));
  EXPECT_TRUE(database.info("t"));
}

TEST_F(memory_database, call_of_an_answer_waits_for_the_pass_after) {
  struct twice final : durable::get_call {
    explicit twice(durable::store& s) : get_call{&on_answered}, on{s} {}
    static void on_answered(durable::store_call& c) noexcept {
      auto& self = static_cast<twice&>(c);
      if (++self.answers == 1) self.on.get(self);
    }
    durable::store& on;
    int answers = 0;
  };
  twice get{a.store()};
  a.store().get(get);
  turn();
  EXPECT_EQ(get.answers, 1);
  turn();
  EXPECT_EQ(get.answers, 2);
}

TEST_F(memory_database, open_store_and_its_calls_do_not_hold_the_loop) {
  one_put put;
  ask(put);
  EXPECT_FALSE(manual.time.alive());
  turn();
}

TEST_F(memory_database, answer_comes_after_its_delay) {
  database.answer_after(store_verb::put, 10s);
  one_put put;
  ask(put);
  turn();
  EXPECT_TRUE(database.info("t")) << "only the answer is late";
  manual.advance(10s - 1ms);
  EXPECT_EQ(put.call.answers, 0);
  EXPECT_EQ(database.open_calls(store_verb::put), 1U);
  manual.advance(2ms);
  EXPECT_TRUE(is_answered(put, store_status::ok));
  EXPECT_EQ(database.open_calls(store_verb::put), 0U);
}

TEST_F(memory_database, delayed_call_is_carried_out_after_its_delay) {
  database.carry_out_after(store_verb::put, 10s);
  one_put put;
  ask(put);
  manual.advance(10s - 1ms);
  EXPECT_FALSE(database.info("t"));
  manual.advance(2ms);
  EXPECT_TRUE(database.info("t"));
  EXPECT_TRUE(is_answered(put, store_status::ok));
}

TEST_F(memory_database, delays_keep_the_order_within_a_verb) {
  database.answer_after(store_verb::put, 10s);
  one_put slow{"slow"}, quick{"quick"};
  ask(slow);
  database.answer_after(store_verb::put, 0s);
  ask(quick);
  manual.advance(9s);
  EXPECT_EQ(quick.call.answers, 0);
  manual.advance(2s);
  EXPECT_TRUE(is_answered(slow, store_status::ok));
  EXPECT_TRUE(is_answered(quick, store_status::ok));
}

TEST_F(memory_database, delays_change_the_order_between_verbs) {
  database.answer_after(store_verb::put, 10s);
  one_put put;
  one_get get;
  ask(put);
  ask(get);
  turn();
  EXPECT_TRUE(is_answered(get, store_status::ok));
  EXPECT_TRUE(get.call.results.at(0).has_value()) << "requests take effect in the order of the calls";
  EXPECT_EQ(put.call.answers, 0);
  manual.advance(11s);
}

TEST_F(memory_database, delayed_request_holds_up_later_requests) {
  database.carry_out_after(store_verb::put, 10s);
  one_put put;
  one_get get;
  ask(put);
  ask(get);
  turn();
  EXPECT_EQ(get.call.answers, 0);
  manual.advance(11s);
  EXPECT_TRUE(get.call.results.at(0).has_value());
}

TEST_F(memory_database, store_never_loses_its_place_in_max_armed) {
  tickwheel::manual_service narrow{{.max_armed = 1}};
  const auto s = fixture.make_store();
  ASSERT_EQ(s->open(narrow.timers), 0);
  tickwheel::callback_timer other{narrow.timers, []() noexcept {}};
  EXPECT_EQ(other.arm(1s), UV_ENOBUFS);
  one_get get;
  for (int calls = 1; calls <= 3; ++calls) {
    s->get(get.call);
    narrow.turn();
    EXPECT_EQ(get.call.answers, calls);
  }
  EXPECT_EQ(fixture.make_store()->open(narrow.timers), UV_ENOMEM);
  s->close();
  EXPECT_EQ(other.arm(1s), 0);
}

TEST_F(memory_database, closed_service_refuses_a_store) {
  manual.timers.close();
  a.close();
  EXPECT_EQ(fixture.make_store()->open(manual.timers), UV_ECANCELED);
}

TEST_F(memory_database, calls_on_a_closed_service_wait_for_close) {
  one_put before, after;
  ask(before);
  manual.timers.close();
  ask(after);
  EXPECT_EQ(before.call.answers + after.call.answers, 0);
  a.close();
  EXPECT_TRUE(is_answered(before, store_status::unavailable));
  EXPECT_TRUE(is_answered(after, store_status::unavailable));
}

TEST_F(memory_database, close_answers_unknown_only_if_it_had_effect) {
  database.answer_after(store_verb::put, 10s);
  one_put done{"done"}, not_done{"not done"};
  ask(done);
  turn();
  ask(not_done);
  a.close();
  EXPECT_TRUE(is_answered(done, store_status::unknown));
  EXPECT_TRUE(is_answered(not_done, store_status::unavailable));
  EXPECT_TRUE(database.info("done"));
  EXPECT_FALSE(database.info("not done"));
}

// faults

TEST_F(memory_database, call_that_is_unavailable_is_not_done) {
  database.fail_next(store_verb::put, memory_fault::unavailable);
  one_put put;
  ask(put);
  turn();
  EXPECT_TRUE(is_answered(put, store_status::unavailable));
  EXPECT_FALSE(database.info("t"));
  EXPECT_NE(a.store().problem(), "");
}

TEST_F(memory_database, unknown_call_is_done_or_not) {
  database.fail_next(store_verb::put, memory_fault::unknown_done);
  database.fail_next(store_verb::put, memory_fault::unknown_not_done);
  one_put done{"done"}, not_done{"not done"};
  ask(done);
  ask(not_done);
  turn();
  EXPECT_TRUE(is_answered(done, store_status::unknown));
  EXPECT_TRUE(is_answered(not_done, store_status::unknown));
  EXPECT_TRUE(database.info("done"));
  EXPECT_FALSE(database.info("not done"));
}

TEST_F(memory_database, fault_is_for_so_many_calls_of_its_verb) {
  database.fail_next(store_verb::put, memory_fault::unavailable, 2);
  std::deque<one_put> puts(3);
  one_get get;
  for (one_put& put : puts) ask(put);
  ask(get);
  turn();
  EXPECT_TRUE(is_answered(puts[0], store_status::unavailable));
  EXPECT_TRUE(is_answered(puts[1], store_status::unavailable));
  EXPECT_TRUE(is_answered(puts[2], store_status::ok));
  EXPECT_TRUE(is_answered(get, store_status::ok));
}

TEST_F(memory_database, lost_answers_come_as_unknown_when_asked_for) {
  database.fail_next(store_verb::put, memory_fault::lost_done);
  database.fail_next(store_verb::put, memory_fault::lost_not_done);
  one_put done{"done"}, not_done{"not done"}, later{"later"};
  ask(done);
  ask(not_done);
  ask(later);
  manual.advance(1h);
  EXPECT_EQ(done.call.answers + not_done.call.answers + later.call.answers, 0);
  EXPECT_TRUE(database.info("done"));
  EXPECT_FALSE(database.info("not done"));
  EXPECT_TRUE(database.info("later")) << "a later call is carried out";
  database.answer_lost();
  EXPECT_EQ(done.call.answers, 0);
  turn();
  EXPECT_TRUE(is_answered(done, store_status::unknown));
  EXPECT_TRUE(is_answered(not_done, store_status::unknown));
  EXPECT_TRUE(is_answered(later, store_status::ok));
}

TEST_F(memory_database, lost_answers_come_when_the_store_is_closed) {
  database.fail_next(store_verb::put, memory_fault::lost_done);
  database.fail_next(store_verb::put, memory_fault::lost_not_done);
  one_put done{"done"}, not_done{"not done"};
  ask(done);
  ask(not_done);
  turn();
  a.close();
  EXPECT_TRUE(is_answered(done, store_status::unknown));
  EXPECT_TRUE(is_answered(not_done, store_status::unavailable));
}

TEST_F(memory_database, outage_makes_all_calls_unavailable) {
  database.outage(true);
  one_put put;
  one_get get;
  ask(put);
  ask(get);
  turn();
  EXPECT_TRUE(is_answered(put, store_status::unavailable));
  EXPECT_TRUE(is_answered(get, store_status::unavailable));
  const auto other = fixture.make_store();
  ASSERT_EQ(other->open(manual.timers), 0);
  asked<durable::join_call> join;
  join.name = "b";
  other->join(join);
  turn();
  EXPECT_EQ(join.status, store_status::unavailable);
  other->close();
  database.outage(false);
  EXPECT_EQ(a.put({.id = "t", .due = past}).result, schedule_result::scheduled);
}

TEST_F(memory_database, outage_makes_open_writes_unknown) {
  database.answer_after(store_verb::put, 10s);
  database.answer_after(store_verb::get, 10s);
  one_put put;
  one_get get;
  ask(put);
  ask(get);
  turn();
  database.outage(true);
  manual.advance(11s);
  EXPECT_TRUE(is_answered(put, store_status::unknown));
  EXPECT_TRUE(is_answered(get, store_status::unavailable));
  EXPECT_TRUE(database.info("t"));
}

TEST_F(memory_database, outage_of_a_node_leaves_the_others) {
  node b{fixture};
  b.start(1h, "b");
  database.outage("b", true);
  EXPECT_EQ(a.put({.id = "a", .due = past}).result, schedule_result::scheduled);
  one_put put;
  b.store().put(put.call);
  turn();
  EXPECT_TRUE(is_answered(put, store_status::unavailable));
  database.outage("b", false);
  EXPECT_EQ(b.put({.id = "b", .due = past}).result, schedule_result::scheduled);
}

TEST_F(memory_database, join_answers_the_error_that_a_test_sets) {
  a.close();
  database.fail_join(UV_EBUSY);
  EXPECT_EQ(a.join(), UV_EBUSY);
  EXPECT_NE(a.store().problem(), "");
  a.close();
  database.fail_join(0);
  EXPECT_EQ(a.join(), 0);
}

TEST_F(memory_database, buried_session_is_no_member) {
  EXPECT_TRUE(database.bury(a.session()));
  EXPECT_FALSE(database.bury(a.session()));
  EXPECT_TRUE(database.nodes().empty());
  for (durable::partition_number p = 0; p < database.partitions(); ++p) EXPECT_EQ(database.owner_of(p), 0U);
}

// crashes

TEST_F(memory_database, crash_answers_nothing_until_close) {
  one_put before, after{"after"};
  ask(before);
  database.crash(true);
  ask(after);
  manual.advance(1s);
  EXPECT_EQ(before.call.answers + after.call.answers, 0);
  EXPECT_FALSE(database.info("t"));
  EXPECT_FALSE(database.info("after"));
  a.close();
  EXPECT_TRUE(is_answered(before, store_status::unknown));
  EXPECT_TRUE(is_answered(after, store_status::unknown));
  a.start();
  EXPECT_EQ(a.put({.id = "t", .due = past}).result, schedule_result::scheduled);
}

TEST_F(memory_database, crash_keeps_unconfirmed_writes_if_asked) {
  database.answer_after(store_verb::put, 10s);
  one_put put;
  ask(put);
  turn();
  database.crash(true);
  EXPECT_TRUE(database.info("t"));
  a.close();
}

TEST_F(memory_database, crash_rolls_unconfirmed_writes_back) {
  a.put({.id = "replaced", .due = past, .payload = "first"});
  a.put({.id = "begun", .due = past});
  const auto rev = database.row("begun")->rev;
  database.answer_after(store_verb::put, 10s);
  database.answer_after(store_verb::begin, 10s);
  one_put put, replace{"replaced", durable::on_conflict::replace};
  ask(put);
  ask(replace);
  asked<durable::begin_call> begin;
  begin.session = a.session();
  begin.items.push_back({"begun", rev});
  a.store().begin(begin);
  turn();
  EXPECT_EQ(database.info("begun")->state, task_state::running);
  database.crash(false);
  EXPECT_FALSE(database.info("t"));
  EXPECT_EQ(database.info("replaced")->what.payload, "first");
  EXPECT_EQ(database.info("begun")->state, task_state::pending);
  EXPECT_EQ(database.row("begun")->rev, rev);
  a.close();
  database.answer_after(store_verb::begin, 0s);
  a.start();
  EXPECT_GT(a.begin("begun").token, rev + 1) << "the token of the start that was rolled back was given again";
}

TEST_F(memory_database, crash_keeps_confirmed_writes) {
  a.put({.id = "t", .due = past});
  database.crash(false);
  EXPECT_TRUE(database.info("t"));
}

TEST_F(memory_database, crash_keeps_a_write_that_a_confirmed_one_needs) {
  database.answer_after(store_verb::put, 10s);
  one_put needed{"needed"}, other{"other"};
  ask(needed);
  ask(other);
  EXPECT_EQ(a.cancel("needed"), durable::cancel_result::cancelled);
  database.crash(false);
  EXPECT_EQ(database.info("needed")->state, task_state::cancelled);
  EXPECT_FALSE(database.info("other"));
  a.close();
}

TEST_F(memory_database, crash_keeps_a_write_that_a_confirmed_answer_has_seen) {
  database.answer_after(store_verb::cancel, 10s);
  a.put({.id = "t", .due = past});
  a.put({.id = "other", .due = past});
  asked<durable::cancel_call> seen, unseen;
  seen.ids.emplace_back("t");
  unseen.ids.emplace_back("other");
  a.store().cancel(seen);
  a.store().cancel(unseen);
  turn();
  EXPECT_EQ(a.put({.id = "t", .due = past}).result, schedule_result::ended);
  database.crash(false);
  EXPECT_EQ(database.info("t")->state, task_state::cancelled);
  EXPECT_EQ(database.info("other")->state, task_state::pending);
  a.close();
}

TEST_F(memory_database, crash_keeps_what_a_call_of_another_node_has_seen) {
  node b{fixture};
  b.start(1h, "b");
  database.answer_after(store_verb::put, 10s);
  database.answer_after(store_verb::get, 1s);
  one_put put;
  b.store().put(put.call);
  turn();
  asked<durable::get_call> get;
  get.ids.emplace_back("t");
  a.store().get(get);
  turn();
  database.crash("b", false);
  manual.advance(2s);
  EXPECT_TRUE(get.results.at(0).has_value());
  EXPECT_TRUE(database.info("t"));
  b.close();
}

TEST_F(memory_database, crash_keeps_or_rolls_back_a_call_as_a_whole) {
  database.answer_after(store_verb::put, 10s);
  asked<durable::put_call> both;
  both.items.push_back({{.id = "t", .due = past}, durable::on_conflict::keep});
  both.items.push_back({{.id = "other", .due = past}, durable::on_conflict::keep});
  a.store().put(both);
  EXPECT_EQ(a.cancel("t"), durable::cancel_result::cancelled);
  database.crash(false);
  EXPECT_TRUE(database.info("other"));
  a.close();
}

TEST_F(memory_database, crash_keeps_a_burial_after_which_the_name_joined_again) {
  node b{fixture}, c{fixture};
  b.start(1s, "b");
  c.start(1h, "c");
  const auto beat = database.nodes().at(1).beat;
  const auto former = b.session();
  database.answer_after(store_verb::bury, 10s);
  asked<durable::bury_call> bury;
  bury.session = former;
  bury.beat = beat;
  c.store().bury(bury);
  turn();
  ASSERT_EQ(database.session_of("b"), 0U);
  b.close();
  b.start(1s, "b");
  database.crash("c", false);
  EXPECT_NE(database.session_of("b"), former);
  EXPECT_EQ(database.nodes().size(), 3U);
  b.close();
  c.close();
}

TEST_F(memory_database, lost_release_of_a_buried_node_frees_partition) {
  node b{fixture};
  b.start(1h, "b");
  database.answer_after(store_verb::release, 10s);
  asked<durable::release_call> release;
  release.session = a.session();
  release.to = b.session();
  release.partitions = {0};
  a.store().release(release);
  turn();
  ASSERT_EQ(database.owner_of(0), b.session());
  asked<durable::bury_call> bury;
  bury.session = a.session();
  bury.beat = database.nodes().at(0).beat;
  b.run(bury);
  ASSERT_TRUE(bury.is_buried);
  database.crash("a", false);
  EXPECT_EQ(database.owner_of(0), 0U);
  a.close();
  b.close();
}

TEST_F(memory_database, lost_release_of_a_living_node_gives_partition_back) {
  node b{fixture};
  b.start(1h, "b");
  database.answer_after(store_verb::release, 10s);
  asked<durable::release_call> release;
  release.session = a.session();
  release.to = b.session();
  release.partitions = {0};
  a.store().release(release);
  turn();
  database.crash("a", false);
  EXPECT_EQ(database.owner_of(0), a.session());
  a.close();
  b.close();
}

TEST_F(memory_database, lost_join_frees_partitions_handed_to_it) {
  node b{fixture};
  ASSERT_EQ(b.store().open(fixture.timers()), 0);
  database.answer_after(store_verb::join, 10s);
  asked<durable::join_call> join;
  join.name = "b";
  join.lease = 1h;
  b.store().join(join);
  turn();
  a.release({0}, database.session_of("b"));
  ASSERT_EQ(database.owner_of(0), database.session_of("b"));
  database.crash("b", false);
  EXPECT_EQ(database.owner_of(0), 0U);
  b.close();
}

TEST_F(memory_database, lost_renewal_does_not_undo_a_burial) {
  database.answer_after(store_verb::renew, 10s);
  asked<durable::renew_call> renew;
  renew.session = a.session();
  renew.lease = 1h;
  a.store().renew(renew);
  turn();
  EXPECT_TRUE(database.bury(a.session()));
  database.crash(false);
  EXPECT_EQ(database.session_of("a"), 0U);
  EXPECT_EQ(database.owner_of(0), 0U);
  a.close();
}

TEST_F(memory_database, lost_burial_gives_partitions_back) {
  node b{fixture};
  b.start(1h, "b");
  database.answer_after(store_verb::bury, 10s);
  asked<durable::bury_call> bury;
  bury.session = a.session();
  bury.beat = database.nodes().at(0).beat;
  b.store().bury(bury);
  turn();
  ASSERT_EQ(database.owner_of(0), 0U);
  database.crash("b", false);
  EXPECT_EQ(database.session_of("a"), a.session());
  EXPECT_EQ(database.owner_of(0), a.session());
  b.close();
}

TEST_F(memory_database, crash_rolls_several_writes_of_a_row_back) {
  database.answer_after(store_verb::put, 10s);
  database.answer_after(store_verb::cancel, 10s);
  one_put put, replace{"t", durable::on_conflict::replace};
  asked<durable::cancel_call> cancel;
  cancel.ids.emplace_back("t");
  ask(put);
  a.store().cancel(cancel);
  ask(replace);
  turn();
  EXPECT_EQ(database.info("t")->state, task_state::pending);
  database.crash(false);
  EXPECT_FALSE(database.row("t"));
  a.close();
}

TEST_F(memory_database, crash_of_a_node_leaves_the_others) {
  node b{fixture};
  b.start(1h, "b");
  database.answer_after(store_verb::put, 10s);
  one_put of_a{"of a"}, of_b{"of b"};
  ask(of_a);
  b.store().put(of_b.call);
  turn();
  database.crash("b", false);
  EXPECT_TRUE(database.info("of a"));
  EXPECT_FALSE(database.info("of b"));
  manual.advance(11s);
  EXPECT_TRUE(is_answered(of_a, store_status::ok));
  EXPECT_EQ(of_b.call.answers, 0);
  EXPECT_NE(database.session_of("b"), 0U) << "its lease has not run out";
  b.close();
}

TEST_F(memory_database, fail_over_returns_to_the_copy) {
  a.put({.id = "kept", .due = past});
  database.save();
  const auto lost = a.put({.id = "lost", .due = past});
  const auto token = a.begin("kept").token;
  database.fail_over();
  EXPECT_EQ(database.info("kept")->state, task_state::pending);
  EXPECT_FALSE(database.info("lost"));
  EXPECT_EQ(database.session_of("a"), a.session());
  EXPECT_EQ(a.done("kept", token), durable::finish_result::stale);
  const auto next = a.begin("kept").token;
  EXPECT_GT(next, token);
  EXPECT_GT(next, lost.rev);
}

TEST_F(memory_database, fail_over_ends_open_calls) {
  database.save();
  database.answer_after(store_verb::put, 10s);
  one_put done{"done"}, not_done{"not done"};
  ask(done);
  turn();
  ask(not_done);
  database.fail_over();
  manual.advance(11s);
  EXPECT_TRUE(is_answered(done, store_status::unknown));
  EXPECT_TRUE(is_answered(not_done, store_status::unavailable));
  EXPECT_FALSE(database.info("done"));
  EXPECT_FALSE(database.info("not done"));
}

TEST_F(memory_database, fail_over_forgets_nodes_that_joined_since) {
  database.save();
  node b{fixture};
  b.start(1h, "b");
  database.fail_over();
  asked<durable::renew_call> c;
  b.renew(c);
  EXPECT_TRUE(c.is_buried);
}

// reading

TEST_F(memory_database, row_shows_what_the_store_does_not) {
  const auto put = a.put({.id = "t", .due = past, .payload = "data"});
  auto row = database.row("t");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->rev, put.rev);
  EXPECT_EQ(row->partition, put.partition);
  EXPECT_EQ(row->partition, database.partition_of("t"));
  EXPECT_EQ(row->session, 0U);
  EXPECT_EQ(described(row->info), described(a.get("t")));
  const auto token = a.begin("t").token;
  row = database.row("t");
  EXPECT_EQ(row->rev, token);
  EXPECT_EQ(row->session, a.session());
  a.done("t", token);
  row = database.row("t");
  EXPECT_EQ(row->ended, token);
  EXPECT_EQ(row->session, 0U);
}

TEST_F(memory_database, row_of_an_ended_task_stays_until_purge) {
  a.lose(0ns);
  a.put({.id = "t", .due = past});
  a.cancel("t");
  EXPECT_FALSE(database.info("t"));
  EXPECT_TRUE(database.row("t"));
  EXPECT_EQ(database.size(), 1U);
  EXPECT_EQ(a.purge(), 1U);
  EXPECT_FALSE(database.row("t"));
  EXPECT_EQ(database.size(), 0U);
}

TEST_F(memory_database, size_counts_the_tasks_of_a_state) {
  for (const char* id : {"p", "r", "d", "f", "c"}) a.put({.id = id, .due = past});
  a.begin("r");
  a.dead("d", a.begin("d").token);
  a.done("f", a.begin("f").token);
  a.cancel("c");
  for (const task_state s :
       {task_state::pending, task_state::running, task_state::dead, task_state::finished, task_state::cancelled})
    EXPECT_EQ(database.size(s), 1U) << durable::to_string(s);
  EXPECT_EQ(database.size(), 5U);
}

TEST_F(memory_database, counts_and_shows_calls) {
  std::vector<std::string> seen;
  database.on_call([&](store_verb v, const durable::store_call& c) {
    EXPECT_EQ(c.on_answer != nullptr, true);
    seen.emplace_back(durable::to_string(v));
  });
  const auto before = database.calls(store_verb::put);
  a.put({.id = "t", .due = past});
  a.cancel("t");
  EXPECT_EQ(database.calls(store_verb::put), before + 1);
  EXPECT_EQ(seen, (std::vector<std::string>{"put", "cancel"}));
  database.on_call(nullptr);
  a.get("t");
  EXPECT_EQ(seen.size(), 2U);
}

TEST_F(memory_database, each_verb_has_its_name) {
  std::vector<std::string> names;
  for (std::size_t v = 0; v <= durable::store_verbs; ++v)
    names.emplace_back(durable::to_string(static_cast<store_verb>(v)));
  EXPECT_EQ(names, (std::vector<std::string>{"join", "renew", "bury", "acquire", "release", "load", "begin", "finish",
                                             "recover", "put", "cancel", "revive", "get", "list", "purge", "invalid"}));
}

TEST_F(memory_database, partition_of_an_id_is_fnv_1a) {
  const durable::memory_database wide{64};
  EXPECT_EQ(wide.partitions(), 64U);
  EXPECT_EQ(wide.partition_of(""), 0xcbf29ce484222325U % 64);
  EXPECT_EQ(wide.partition_of("a"), 0xaf63dc4c8601ec8cU % 64);
  EXPECT_EQ(wide.partition_of("foobar"), 0x85944171f73967e8U % 64);
}

TEST_F(memory_database, store_without_database_has_its_own) {
  const auto first = durable::memory_store();
  ASSERT_EQ(first->open(manual.timers), 0);
  asked<durable::join_call> join;
  join.name = "a";
  join.lease = 1h;
  const time before = durable::clock::now();
  first->join(join);
  turn();
  EXPECT_EQ(join.error, 0) << "no other node has this name there";
  EXPECT_EQ(join.partitions, 1U);
  EXPECT_LE(join.now, before) << "its clock starts at the system's time";
  EXPECT_GT(join.now, before - 24h);
  first->close();
}

// misuse

TEST_F(memory_database, verb_of_a_closed_store_stops_the_process) {
  a.close();
  one_get get;
  EXPECT_DEATH(ask(get), "a verb of a memory_store is called while it is closed");
}

TEST_F(memory_database, call_made_again_before_its_answer_stops_the_process) {
  one_get get;
  ask(get);
  EXPECT_DEATH(ask(get), "a memory_store is given a call that it has not answered");
  turn();
}

TEST_F(memory_database, close_within_on_answer_stops_the_process) {
  struct closing final : durable::get_call {
    explicit closing(durable::store& s) : get_call{&on_answered}, on{s} {}
    static void on_answered(durable::store_call& c) noexcept { static_cast<closing&>(c).on.close(); }
    durable::store& on;
  };
  closing get{a.store()};
  const auto ask_and_turn = [&] {
    a.store().get(get);
    turn();
  };
  EXPECT_DEATH(ask_and_turn(), "a memory_store is closed within on_answer");
}

}  // namespace
