// Each promise is broken in a journal that was written by hand, and the judge names it.
#include "judge.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace {

using crash::judging;
using crash::verdict;

// Writes the lines of a journal. Times are in milliseconds.
class script {
 public:
  // The store fails now and then.
  script& doubts() {
    text_.insert(text_.find('\n'), " doubts");
    return *this;
  }
  // Several processes share the store.
  script& cluster(const std::string& how) {
    text_.insert(text_.find('\n'), " " + how);
    return *this;
  }
  // All lines of a child that follow are of this process.
  script& of(unsigned process) {
    process_ = process;
    return *this;
  }
  // A line about this process.
  script& member(const std::string& what, int at, const std::string& rest = {}) {
    return parent(what + " " + ns(at) + rest + " " + std::to_string(process_));
  }
  script& parent(const std::string& line) {
    text_ += line + "\n";
    return *this;
  }
  script& start(int at) {
    numbers_[0] = 0;
    return parent("start " + ns(at));
  }
  script& end(int at) { return parent("end " + ns(at) + " 9"); }
  script& quiet(int at) { return parent("quiet " + ns(at)); }
  script& child(int at, const std::string& line) {
    const std::string whose = process_ == 0 ? "" : "@" + std::to_string(process_) + " ";
    return parent(whose + std::to_string(++numbers_[process_]) + " " + ns(at) + " " + line);
  }
  // Orders a request, and lets the child ask it.
  script& ask(int at, const std::string& request) {
    const std::string n = std::to_string(++orders_);
    parent("order " + n + " " + request);
    return child(at, "asked " + n);
  }
  script& answer(int at, const std::string& result) {
    return child(at, "answered " + std::to_string(orders_) + " " + result);
  }
  script& schedule(int at, const std::string& id, int due, int period = 0, const std::string& conflict = "keep") {
    return ask(at, "schedule " + id + " " + ns(due) + " " + ns(period) + " " + conflict);
  }
  script& enter(int at, const std::string& id, int token, int attempt, int due, int order = 1) {
    return child(at, "entered " + id + " " + std::to_string(token) + " " + std::to_string(attempt) + " " + ns(due) +
                         " " + std::to_string(order));
  }
  script& finish(int at, const std::string& id, int token, const std::string& how = "done",
                 const std::string& result = "finished") {
    child(at, "ending " + id + " " + std::to_string(token) + " " + how);
    return child(at, "ended " + id + " " + std::to_string(token) + " " + result);
  }

  verdict judged(judging how = judging::events_and_lists) const {
    return crash::judge(crash::read_journal(text_), how);
  }
  // The promises that are broken.
  std::vector<std::string> broken(judging how = judging::events_and_lists) const {
    std::vector<std::string> promises;
    for (const auto& v : judged(how).violations) promises.push_back(v.promise);
    return promises;
  }

 private:
  static std::string ns(int ms) { return std::to_string(ms) + (ms == 0 ? "" : "000000"); }
  std::string text_ = "config 4 300000000000\n";
  unsigned process_ = 0;
  std::map<unsigned, int> numbers_;  // of the lines of each process
  int orders_ = 0;
};

using promises = std::vector<std::string>;

// A task that was confirmed at 10 ms, and is due at 50 ms.
script confirmed() { return script{}.start(1).schedule(5, "t", 50).answer(10, "scheduled"); }

TEST(crash_judge, accepts_a_task_that_starts_and_finishes) {
  EXPECT_EQ(
      confirmed().enter(60, "t", 7, 1, 50).finish(61, "t", 7).quiet(70).child(80, "row finished t 1 0 0").broken(),
      promises{});
}

TEST(crash_judge, accepts_an_unknown_request_that_took_effect) {
  EXPECT_EQ(script{}
                .start(1)
                .schedule(5, "t", 50)
                .end(8)
                .start(9)
                .enter(60, "t", 7, 1, 50)
                .finish(61, "t", 7)
                .quiet(70)
                .broken(judging::events),
            promises{});
}

TEST(crash_judge, accepts_an_unknown_request_without_effect) {
  EXPECT_EQ(script{}.start(1).schedule(5, "t", 50).end(8).start(9).quiet(70).broken(), promises{});
}

TEST(crash_judge, accepts_a_start_that_was_lost_and_repeated) {
  EXPECT_EQ(confirmed()
                .enter(60, "t", 7, 1, 50)
                .end(61)
                .start(62)
                .enter(70, "t", 9, 2, 50)
                .finish(71, "t", 9)
                .quiet(80)
                .child(81, "row finished t 2 1 0")
                .broken(),
            promises{});
}

TEST(crash_judge, accepts_a_third_loss_as_death) {
  auto s = confirmed();
  for (int i = 1; i <= 3; ++i) s.enter(60 * i, "t", i, i, 50).end(60 * i + 1).start(60 * i + 2);
  EXPECT_EQ(s.quiet(300).child(301, "row dead t 3 3 0").broken(), promises{});
}

// A finish whose answer was lost is sent again, and finds no row an hour later.
script finished_an_hour_later() {
  return confirmed()
      .enter(60, "t", 7, 1, 50)
      .child(61, "ending t 7 done")
      .child(62, "clock 62000000 3600062000000")
      .child(3'600'063, "ended t 7 stale")
      .quiet(3'600'064);
}

TEST(crash_judge, accepts_a_repeated_finish_of_a_forgotten_task) {
  EXPECT_EQ(finished_an_hour_later().doubts().broken(judging::events), promises{});
}

TEST(crash_judge, finds_a_stale_finish_if_no_answer_was_lost) {
  EXPECT_EQ(finished_an_hour_later().broken(judging::events), promises{"D3"});
}

// A task that was confirmed before or after the copy, and finished; then the copy was restored.
script restored(bool is_in_copy) {
  script s;
  const auto copy = [&s] { s.parent("backup 11000000").child(12, "marked").parent("saved 12000000"); };
  s.start(1);
  if (!is_in_copy) copy();
  s.schedule(13, "t", 50).answer(14, "scheduled");
  if (is_in_copy) copy();
  return s.enter(60, "t", 7, 1, 50).finish(61, "t", 7).end(62).parent("restored 63000000").start(64);
}

TEST(crash_judge, accepts_a_second_start_from_a_restored_copy) {
  EXPECT_EQ(restored(true).enter(70, "t", 9, 1, 50).finish(71, "t", 9).quiet(80).broken(judging::events), promises{});
}

TEST(crash_judge, finds_a_task_that_a_restored_copy_has_lost) {
  EXPECT_EQ(restored(true).quiet(80).broken(judging::events), promises{"D1"});
}

TEST(crash_judge, accepts_the_loss_of_a_task_after_the_copy) {
  EXPECT_EQ(restored(false).quiet(80).broken(), promises{});
}

TEST(crash_judge, finds_a_start_that_a_restored_copy_cannot_have) {
  EXPECT_EQ(restored(false).enter(70, "t", 9, 1, 50).quiet(80).broken(judging::events), promises{"D11"});
}

TEST(crash_judge, finds_a_token_that_comes_again_after_a_restore) {
  EXPECT_EQ(restored(true).enter(70, "t", 7, 1, 50).finish(71, "t", 7).quiet(80).broken(judging::events),
            (promises{"D3", "D3"}));
}

// A request whose answer comes while the file is copied is in the copy or not.
TEST(crash_judge, accepts_both_outcomes_of_a_request_during_the_copy) {
  const auto during = [] {
    return script{}
        .start(1)
        .parent("backup 2000000")
        .schedule(5, "t", 50)
        .answer(6, "scheduled")
        .parent("saved 7000000")
        .end(8)
        .parent("restored 9000000")
        .start(10);
  };
  EXPECT_EQ(during().enter(70, "t", 9, 1, 50).finish(71, "t", 9).quiet(80).broken(judging::events), promises{});
  EXPECT_EQ(during().quiet(80).broken(), promises{});
}

TEST(crash_judge, finds_a_lost_task) {
  const auto v = confirmed().quiet(100).judged();
  ASSERT_EQ(v.violations.size(), 1U);
  EXPECT_EQ(v.violations[0].promise, "D1");
  EXPECT_EQ(v.violations[0].id, "t");
  EXPECT_EQ(v.lost, 1U);
}

TEST(crash_judge, finds_a_task_that_was_lost_with_its_node) {
  EXPECT_EQ(confirmed().enter(60, "t", 7, 1, 50).end(61).start(62).quiet(100).broken(), promises{"D1"});
}

TEST(crash_judge, finds_a_confirmed_task_that_was_forgotten) {
  EXPECT_EQ(confirmed().schedule(12, "t", 50).answer(13, "scheduled").broken(), promises{"D1"});
  EXPECT_EQ(confirmed().ask(12, "get t").answer(13, "not_found").broken(), promises{"D1"});
}

TEST(crash_judge, finds_a_start_with_an_old_payload) {
  EXPECT_EQ(confirmed().schedule(12, "t", 40, 0, "replace").answer(13, "replaced").enter(60, "t", 7, 1, 50, 1).broken(),
            promises{"D1"});
}

TEST(crash_judge, finds_an_early_start) {
  const auto v = confirmed().enter(49, "t", 7, 1, 50).judged();
  ASSERT_EQ(v.violations.size(), 1U);
  EXPECT_EQ(v.violations[0].promise, "D2");
  EXPECT_EQ(v.early, 1U);
}

TEST(crash_judge, accepts_a_start_before_the_clock_was_set_back) {
  EXPECT_EQ(confirmed().child(30, "clock 55000000 30000000").enter(31, "t", 7, 1, 50).finish(32, "t", 7).broken(),
            promises{});
}

TEST(crash_judge, finds_an_early_start_after_the_clock_was_set_back) {
  EXPECT_EQ(script{}
                .start(1)
                .child(30, "clock 55000000 30000000")
                .schedule(31, "t", 50)
                .answer(32, "scheduled")
                .enter(40, "t", 7, 1, 50)
                .broken(),
            promises{"D2"});
}

TEST(crash_judge, finds_a_token_that_was_used_twice) {
  const auto v = confirmed()
                     .enter(60, "t", 7, 1, 50)
                     .finish(61, "t", 7)
                     .schedule(62, "u", 50)
                     .answer(63, "scheduled")
                     .enter(64, "u", 7, 1, 50, 2)
                     .finish(65, "u", 7)
                     .judged();
  ASSERT_EQ(v.violations.size(), 1U);
  EXPECT_EQ(v.violations[0].promise, "D3");
  EXPECT_EQ(v.tokens_twice, 1U);
}

TEST(crash_judge, finds_a_token_that_does_not_grow) {
  EXPECT_EQ(confirmed().enter(60, "t", 7, 1, 50).finish(61, "t", 7, "fail").enter(70, "t", 6, 2, 50).broken(),
            promises{"D3"});
}

TEST(crash_judge, finds_a_stale_token_that_is_accepted) {
  EXPECT_EQ(confirmed()
                .enter(60, "t", 7, 1, 50)
                .end(61)
                .start(62)
                .enter(70, "t", 9, 2, 50)
                .ask(71, "finish t 7")
                .answer(72, "finished")
                .broken(),
            promises{"D3"});
}

TEST(crash_judge, finds_a_repeated_finish_that_is_called_stale) {
  EXPECT_EQ(confirmed().enter(60, "t", 7, 1, 50).finish(61, "t", 7).ask(71, "finish t 7").answer(72, "stale").broken(),
            promises{"D3"});
}

TEST(crash_judge, finds_two_starts_at_once) {
  EXPECT_EQ(confirmed().enter(60, "t", 7, 1, 50).enter(61, "t", 8, 1, 50).broken(), promises{"D3"});
}

TEST(crash_judge, finds_a_start_after_a_confirmed_cancel) {
  const auto v = confirmed().ask(12, "cancel t").answer(13, "cancelled").enter(60, "t", 7, 1, 50).judged();
  ASSERT_EQ(v.violations.size(), 1U);
  EXPECT_EQ(v.violations[0].promise, "D4");
  EXPECT_EQ(v.after_cancel, 1U);
}

TEST(crash_judge, finds_a_retry_after_a_cancel_while_running) {
  EXPECT_EQ(confirmed()
                .enter(60, "t", 7, 1, 50)
                .ask(61, "cancel t")
                .answer(62, "running")
                .finish(63, "t", 7, "fail")
                .enter(70, "t", 8, 2, 50)
                .broken(),
            promises{"D4"});
}

TEST(crash_judge, finds_a_recovery_after_a_cancel_while_running) {
  EXPECT_EQ(confirmed()
                .enter(60, "t", 7, 1, 50)
                .ask(61, "cancel t")
                .answer(62, "running")
                .end(63)
                .start(64)
                .enter(70, "t", 8, 2, 50)
                .broken(),
            promises{"D4"});
}

TEST(crash_judge, finds_a_request_that_is_never_answered) {
  EXPECT_EQ(confirmed().ask(12, "cancel t").quiet(100).broken(), promises{"D9"});
}

TEST(crash_judge, finds_an_unavailable_request_with_an_effect) {
  EXPECT_EQ(script{}.start(1).schedule(5, "t", 50).answer(6, "unavailable").enter(60, "t", 7, 1, 50).broken(),
            promises{"D11"});
}

TEST(crash_judge, finds_a_forgotten_attempt) {
  EXPECT_EQ(confirmed().enter(60, "t", 7, 1, 50).end(61).start(62).enter(70, "t", 9, 1, 50).broken(), promises{"D10"});
}

TEST(crash_judge, finds_a_start_of_a_dead_task) {
  EXPECT_EQ(confirmed().enter(60, "t", 7, 1, 50).finish(61, "t", 7, "bury").enter(70, "t", 8, 2, 50).broken(),
            promises{"D10"});
}

TEST(crash_judge, finds_a_death_without_a_reason) {
  EXPECT_EQ(confirmed().enter(60, "t", 7, 1, 50).end(61).start(62).quiet(80).child(81, "row dead t 1 1 0").broken(),
            promises{"D10"});
}

TEST(crash_judge, finds_a_second_start_of_a_finished_task) {
  EXPECT_EQ(confirmed()
                .enter(60, "t", 7, 1, 50)
                .finish(61, "t", 7)
                .schedule(62, "t", 50)
                .answer(63, "scheduled")
                .enter(70, "t", 8, 1, 50, 2)
                .broken(),
            promises{"D11"});
}

TEST(crash_judge, finds_requests_out_of_order) {
  script s;
  s.start(1).schedule(5, "t", 50).ask(6, "cancel t").child(7, "answered 1 scheduled").child(8, "answered 2 not_found");
  EXPECT_EQ(s.broken(), promises{"D1"});
}

TEST(crash_judge, accepts_missed_periods) {
  EXPECT_EQ(script{}
                .start(1)
                .schedule(5, "t", 50, 10)
                .answer(6, "scheduled")
                .enter(50, "t", 7, 1, 50)
                .finish(75, "t", 7)
                .enter(80, "t", 8, 1, 80)
                .broken(),
            promises{});
}

TEST(crash_judge, finds_a_period_that_was_missed_and_starts) {
  EXPECT_EQ(script{}
                .start(1)
                .schedule(5, "t", 50, 10)
                .answer(6, "scheduled")
                .enter(50, "t", 7, 1, 50)
                .finish(75, "t", 7)
                .enter(80, "t", 8, 1, 60)
                .broken(),
            promises{"D12"});
}

TEST(crash_judge, finds_a_periodic_task_that_ends) {
  EXPECT_EQ(script{}
                .start(1)
                .schedule(5, "t", 50, 10)
                .answer(6, "scheduled")
                .enter(50, "t", 7, 1, 50)
                .finish(75, "t", 7)
                .ask(76, "cancel t")
                .answer(77, "finished")
                .broken(),
            promises{"D12"});
}

TEST(crash_judge, finds_a_missing_line) {
  EXPECT_EQ(script{}.start(1).parent("1 1 ready 0").parent("3 1 ready 0").broken(), promises{"journal"});
}

TEST(crash_judge, finds_a_request_that_nobody_ordered) {
  EXPECT_EQ(script{}.start(1).child(2, "asked 5").broken(), promises{"journal"});
}

TEST(crash_judge, second_judge_finds_a_row_in_a_wrong_state) {
  auto s = confirmed().enter(60, "t", 7, 1, 50).finish(61, "t", 7).quiet(70).child(71, "row cancelled t 1 0 0");
  EXPECT_EQ(s.broken(judging::events), promises{});
  EXPECT_EQ(s.broken(), promises{"D11"});
}

TEST(crash_judge, second_judge_finds_a_row_in_no_list) {
  auto s = confirmed().enter(60, "t", 7, 1, 50).finish(61, "t", 7, "bury").quiet(70);
  EXPECT_EQ(s.broken(judging::events), promises{});
  EXPECT_EQ(s.broken(), promises{"D1"});
}

TEST(crash_judge, second_judge_finds_a_row_in_two_lists) {
  EXPECT_EQ(confirmed()
                .enter(60, "t", 7, 1, 50)
                .finish(61, "t", 7)
                .quiet(70)
                .child(71, "row finished t 1 0 0")
                .child(72, "row finished t 1 0 0")
                .broken(),
            promises{"D1"});
}

TEST(crash_judge, second_judge_finds_a_row_that_nobody_put) {
  EXPECT_EQ(script{}.start(1).quiet(70).child(71, "row finished t 1 0 0").broken(), promises{"D11"});
}

TEST(crash_judge, second_judge_accepts_a_tombstone_forgotten_before_the_list) {
  EXPECT_EQ(script{}
                .start(1)
                .schedule(5, "t", 500'000)
                .answer(10, "scheduled")
                .ask(20, "cancel t")
                .answer(25, "cancelled")
                .schedule(299'000, "u", 299'010)
                .answer(299'011, "scheduled")
                .enter(299'020, "u", 7, 1, 299'010, 3)
                .finish(299'021, "u", 7)
                .quiet(300'000)
                .child(300'100, "row finished u 1 0 0")
                .broken(),
            promises{});
}

// Two processes share the store. A task that the second one put is due at 50 ms, and the first one has begun it.
script shared(const std::string& how) {
  script s;
  s.cluster(how);
  for (const unsigned process : {1U, 2U}) {
    s.of(process).member("start", 1);
    if (how == "cluster sessions") s.member("joined", 2);
  }
  return s.schedule(5, "t", 50).answer(10, "scheduled").of(1);
}
script& repeated_by_second(script& s) { return s.of(2).enter(90, "t", 9, 2, 50); }
script& ended_by_second(script& s) { return s.finish(91, "t", 9).quiet(95).child(96, "row finished t 2 1 0"); }

TEST(crash_judge, accepts_a_start_of_another_process_after_a_burial) {
  script s = shared("cluster sessions").enter(60, "t", 7, 1, 50).member("buried", 70);
  EXPECT_EQ(ended_by_second(repeated_by_second(s)).broken(), promises{});
}

TEST(crash_judge, finds_a_start_of_another_process_without_a_burial) {
  script s = shared("cluster sessions").enter(60, "t", 7, 1, 50);
  EXPECT_EQ(ended_by_second(repeated_by_second(s)).broken(), promises{"D3"});
}

TEST(crash_judge, finds_a_start_of_another_process_if_only_a_third_is_buried) {
  script s = shared("cluster sessions").enter(60, "t", 7, 1, 50).of(2).member("buried", 70);
  EXPECT_EQ(s.member("joined", 71).enter(90, "t", 9, 2, 50).broken(), promises{"D3"});
}

TEST(crash_judge, finds_a_start_by_a_process_buried_before_the_task_was_due) {
  script s = shared("cluster sessions").member("buried", 40).enter(60, "t", 7, 1, 50);
  EXPECT_EQ(s.broken(judging::events), promises{"D1"});
}

TEST(crash_judge, accepts_a_start_that_was_recovered_before_its_late_handler) {
  script s = shared("cluster sessions").member("buried", 70);
  repeated_by_second(s).of(1).enter(91, "t", 7, 1, 50).finish(92, "t", 7, "done", "stale").of(2);
  EXPECT_EQ(ended_by_second(s).broken(), promises{});
}

TEST(crash_judge, finds_a_late_handler_of_a_process_that_joined_again) {
  script s = shared("cluster sessions").member("buried", 70);
  repeated_by_second(s).of(1).member("joined", 91).enter(92, "t", 7, 1, 50);
  EXPECT_EQ(s.broken(judging::events), promises{"D3"});
}

TEST(crash_judge, finds_a_late_handler_if_nothing_was_recovered) {
  script s =
      shared("cluster sessions").of(2).enter(60, "t", 9, 1, 50).finish(61, "t", 9).of(1).enter(70, "t", 7, 1, 50);
  EXPECT_EQ(s.broken(judging::events), promises{"D3"});
}

TEST(crash_judge, accepts_a_start_of_another_process_after_trouble) {
  script s = shared("cluster").enter(60, "t", 7, 1, 50).parent("trouble 70000000 1 stopped");
  EXPECT_EQ(ended_by_second(repeated_by_second(s)).broken(), promises{});
}

TEST(crash_judge, accepts_a_start_of_another_process_after_an_end) {
  script s = shared("cluster").enter(60, "t", 7, 1, 50).member("end", 70, " 9");
  EXPECT_EQ(ended_by_second(repeated_by_second(s)).broken(), promises{});
}

TEST(crash_judge, finds_a_start_of_another_process_without_trouble) {
  script s = shared("cluster").enter(60, "t", 7, 1, 50).parent("trouble 70000000 2 stopped");
  EXPECT_EQ(ended_by_second(repeated_by_second(s)).broken(), promises{"D3"});
}

// A process is stopped between its last look at the clock and the first line of a handler. Meanwhile the second one repeats the start.
script stopped_before_a_handler() {
  script s = shared("cluster").parent("trouble 55000000 1 stopped");
  return repeated_by_second(s).of(1);
}

TEST(crash_judge, accepts_an_old_token_in_the_first_line_after_a_stop) {
  script s = stopped_before_a_handler().enter(91, "t", 7, 1, 50).finish(92, "t", 7, "done", "stale").of(2);
  EXPECT_EQ(ended_by_second(s).broken(), promises{});
}

TEST(crash_judge, finds_an_old_token_after_another_line_since_a_stop) {
  script s = stopped_before_a_handler().ask(90, "get u").enter(91, "t", 7, 1, 50);
  EXPECT_EQ(s.broken(judging::events), promises{"D3"});
}

TEST(crash_judge, finds_an_old_token_after_other_trouble_than_a_stop) {
  script s = shared("cluster").parent("trouble 55000000 1 network");
  repeated_by_second(s).of(1).enter(91, "t", 7, 1, 50);
  EXPECT_EQ(s.broken(judging::events), promises{"D3"});
}

// The answer of the first process is lost. The second one starts the next period, and ends it, before the finish is sent again.
script finish_after_another(script s) {
  return s.enter(60, "t", 7, 1, 50)
      .child(61, "ending t 7 done")
      .of(2)
      .enter(90, "t", 9, 1, 80)
      .finish(91, "t", 9)
      .of(1)
      .child(92, "ended t 7 stale");
}
script periodic(const std::string& how) {
  return script{}
      .cluster(how)
      .doubts()
      .of(1)
      .member("start", 1)
      .of(2)
      .member("start", 1)
      .schedule(5, "t", 50, 30)
      .answer(10, "scheduled")
      .of(1);
}

TEST(crash_judge, accepts_a_repeated_finish_after_another_start_has_ended) {
  script s = periodic("cluster").parent("trouble 55000000 1 network");
  EXPECT_EQ(finish_after_another(s).broken(judging::events), promises{});
}

// A statement reads the clock before its commit. The row was still running for a get in between.
TEST(crash_judge, accepts_a_period_counted_from_before_a_read) {
  script s = periodic("cluster").enter(51, "t", 7, 1, 50).finish(52, "t", 7, "fail");
  s.enter(60, "t", 8, 2, 50).child(61, "ending t 8 done");
  s.of(2).ask(85, "get t").answer(86, "ok running 2 0 0").of(1).child(87, "ended t 8 finished");
  EXPECT_EQ(s.enter(88, "t", 9, 1, 80).broken(judging::events), promises{});
}

TEST(crash_judge, finds_a_period_that_was_missed_before_the_finish) {
  script s = periodic("cluster").enter(60, "t", 7, 1, 50).finish(85, "t", 7);
  EXPECT_EQ(s.enter(88, "t", 8, 1, 80).broken(judging::events), promises{"D12"});
}

TEST(crash_judge, accepts_a_start_by_another_process) {
  EXPECT_EQ(shared("cluster").of(2).enter(60, "t", 7, 1, 50).finish(61, "t", 7).quiet(5000).broken(judging::events),
            promises{});
}

TEST(crash_judge, accepts_a_late_effect_of_a_dead_process) {
  EXPECT_EQ(shared("cluster").ask(20, "cancel t").member("end", 21, " 9").quiet(5000).broken(judging::events),
            promises{});
}

TEST(crash_judge, accepts_requests_of_two_processes_in_any_order) {
  EXPECT_EQ(shared("cluster")
                .ask(20, "schedule t 60000000 0 replace")
                .of(2)
                .ask(21, "cancel t")
                .child(30, "answered 3 cancelled")
                .of(1)
                .child(31, "answered 2 replaced")
                .child(70, "entered t 7 1 60000000 2")
                .finish(71, "t", 7)
                .quiet(5000)
                .broken(judging::events),
            promises{});
}

TEST(crash_judge, finds_a_start_after_a_cancel_by_another_process) {
  script s = shared("cluster").of(2).ask(20, "cancel t").child(25, "answered 2 cancelled");
  EXPECT_EQ(s.of(1).enter(60, "t", 7, 1, 50).quiet(5000).broken(judging::events), promises{"D4"});
}

TEST(crash_judge, finds_a_token_that_two_processes_got) {
  script s = shared("cluster").enter(60, "t", 7, 1, 50).member("end", 70, " 9");
  s.of(2).enter(1200, "t", 7, 2, 50).finish(1201, "t", 7).quiet(5000);
  EXPECT_EQ(s.broken(judging::events), (promises{"D3", "D3"}));
}

TEST(crash_judge, finds_a_task_that_nobody_runs) {
  script s = shared("cluster").enter(60, "t", 7, 1, 50).member("end", 70, " 9").quiet(5000);
  EXPECT_EQ(s.broken(judging::events), promises{"D1"});
}

}  // namespace
