// The judge of timer_load finds each call that must not be. Without that its zeros would prove nothing.
#include "timer_server/load/ledger.hpp"
#include "timer_server/text/times.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

using namespace std::chrono_literals;
using namespace timer_load;

namespace {

/// A ledger of one timer, which is confirmed unless a test says otherwise.
struct ledger_test : testing::Test {
  ledger book{1};
  const wall_time due = std::chrono::ceil<std::chrono::milliseconds>(now() - 1h);
  const wall_time later = due + 10s;
  std::uint64_t token = 0;

  void schedule(bool is_to_change = false) {
    book.ask(0, due, is_to_change);
    book.confirm(0);
  }
  void call_with(const std::string& due_text, const std::string& key, const std::string& token_text, wall_time at) {
    book.call({.id = book.id_of(0), .due = due_text, .key = key, .token = token_text}, at);
  }
  /// A call as it should be, for this due time.
  void call_for(wall_time when, std::chrono::nanoseconds late = 1ms) {
    const std::string text = timer_server::write_moment(when);
    call_with(text, book.id_of(0) + ':' + text, std::to_string(++token), when + late);
  }
  std::size_t faults() const {
    const fault_counts& f = book.faults();
    return f.early + f.after_cancel + f.after_replacing + f.wrong_key + f.stale_token;
  }
};

TEST_F(ledger_test, calls_of_a_scheduled_timer_are_right) {
  schedule();
  EXPECT_TRUE(book[0].is_lost());
  EXPECT_FALSE(book.is_over());
  call_for(due);
  call_for(due);
  EXPECT_EQ(faults(), 0U);
  EXPECT_FALSE(book[0].is_lost());
  EXPECT_EQ(book[0].calls(), 2U);
  EXPECT_EQ(book[0].repeats(), 1U);
  EXPECT_TRUE(book.is_over());
}

TEST_F(ledger_test, call_before_its_due_time_is_early) {
  schedule();
  call_for(due, -1ns);
  EXPECT_EQ(book.faults().early, 1U);
  EXPECT_EQ(faults(), 1U);
}

TEST_F(ledger_test, wrong_due_time_or_key_is_found) {
  schedule();
  const std::string right = timer_server::write_moment(due);
  const std::string id = book.id_of(0);
  const std::string other = timer_server::write_moment(later);
  const std::pair<std::string, std::string> wrong[] = {{right, ""},
                                                       {right, right},
                                                       {right, id},
                                                       {right, id + ':'},
                                                       {right, id + ':' + other},
                                                       {right, id + "0:" + right},
                                                       {right, id + ':' + right + '0'},
                                                       {other, id + ':' + other},
                                                       {other, id + ':' + right},
                                                       {"", id + ':' + right},
                                                       {"", id + ':'}};
  std::size_t count = 0;
  for (const auto& [due_text, key] : wrong) {
    call_with(due_text, key, std::to_string(++token), later);
    EXPECT_EQ(book.faults().wrong_key, ++count) << due_text << ' ' << key;
  }
  EXPECT_EQ(faults(), count);
}

TEST_F(ledger_test, token_that_does_not_grow_is_found) {
  schedule();
  const std::string text = timer_server::write_moment(due);
  const std::string key = book.id_of(0) + ':' + text;
  for (const auto* const good : {"7", "8", "18446744073709551615"}) call_with(text, key, good, later);
  EXPECT_EQ(faults(), 0U);
  for (const auto* const bad : {"18446744073709551615", "9", "", "x", "1x", "-1", "18446744073709551616"})
    call_with(text, key, bad, later);
  EXPECT_EQ(book.faults().stale_token, 7U);
  EXPECT_EQ(faults(), 7U);
}

TEST_F(ledger_test, no_call_follows_a_confirmed_cancel) {
  schedule(true);
  call_for(due);
  EXPECT_EQ(faults(), 0U);
  EXPECT_FALSE(book.is_over());
  book.answer(0, change_answer::cancelled);
  EXPECT_TRUE(book.is_over());
  call_for(due);
  EXPECT_EQ(book.faults().after_cancel, 1U);
  EXPECT_EQ(faults(), 1U);
}

TEST_F(ledger_test, cancelled_timer_need_not_be_called) {
  for (const auto how : {change_answer::cancelled, change_answer::cancelling}) {
    ledger another{1};
    another.ask(0, due, true);
    another.confirm(0);
    EXPECT_TRUE(another[0].is_unanswered());
    another.answer(0, how);
    EXPECT_FALSE(another[0].is_lost());
    EXPECT_TRUE(another.is_over());
  }
}

TEST_F(ledger_test, cancel_of_a_running_timer_lets_one_call_through) {
  schedule(true);
  book.answer(0, change_answer::cancelling);
  call_for(due);
  EXPECT_EQ(faults(), 0U);
  call_for(due);
  EXPECT_EQ(book.faults().after_cancel, 1U);
}

TEST_F(ledger_test, confirmed_timer_that_is_not_known_is_lost) {
  schedule(true);
  call_for(due);
  book.answer(0, change_answer::missing);
  EXPECT_TRUE(book[0].is_lost());
  EXPECT_TRUE(book.is_over());
}

TEST_F(ledger_test, change_that_came_too_late_leaves_the_timer_as_it_was) {
  schedule(true);
  book.ask_replacement(0, later);
  book.answer(0, change_answer::kept);
  EXPECT_TRUE(book[0].is_lost());
  call_for(due);
  EXPECT_FALSE(book[0].is_lost());
  EXPECT_EQ(faults(), 0U);
  call_for(later);
  EXPECT_EQ(book.faults().wrong_key, 1U);
}

TEST_F(ledger_test, replaced_timer_must_be_called_for_its_new_due_time) {
  schedule(true);
  call_for(due);
  book.ask_replacement(0, later);
  book.answer(0, change_answer::replaced);
  EXPECT_TRUE(book[0].is_lost());
  EXPECT_EQ(book[0].due(), later);
  call_for(later);
  EXPECT_FALSE(book[0].is_lost());
  EXPECT_TRUE(book.is_over());
  EXPECT_EQ(book[0].repeats(), 0U);
  EXPECT_EQ(faults(), 0U);
}

TEST_F(ledger_test, call_for_a_replaced_due_time_is_found) {
  schedule(true);
  book.ask_replacement(0, later);
  book.answer(0, change_answer::replaced);
  call_for(due, 1h);
  EXPECT_EQ(book.faults().after_replacing, 1U);
  EXPECT_EQ(faults(), 1U);
  EXPECT_TRUE(book[0].is_lost());
}

TEST_F(ledger_test, new_due_time_counts_for_early_calls) {
  schedule(true);
  book.ask_replacement(0, later);
  book.answer(0, change_answer::replaced);
  call_for(later, -1ns);
  EXPECT_EQ(book.faults().early, 1U);
}

TEST_F(ledger_test, replacement_without_an_answer_may_have_been_carried_out) {
  schedule(true);
  book.ask_replacement(0, later);
  book.doubt(0);
  call_for(due);
  call_for(later);
  book.answer(0, change_answer::kept);  // the repeated request came too late
  call_for(later);
  EXPECT_EQ(faults(), 0U);
  EXPECT_FALSE(book[0].is_lost());
}

TEST_F(ledger_test, relative_timer_is_due_when_the_answer_says) {
  book.ask_relative(0, due, false);
  book.confirm(0, later);
  EXPECT_EQ(book[0].due(), later);
  call_for(due, 1h);
  EXPECT_EQ(book.faults().wrong_key, 1U);
  call_for(later);
  EXPECT_EQ(faults(), 1U);
}

TEST_F(ledger_test, relative_timer_that_is_due_too_soon_is_early) {
  book.ask_relative(0, due, false);
  book.confirm(0, due - 1ns);
  EXPECT_EQ(book.faults().early, 1U);
}

TEST_F(ledger_test, call_tells_when_an_unanswered_relative_timer_is_due) {
  book.ask_relative(0, due, false);
  call_for(later);
  book.confirm(0);
  call_for(later);
  EXPECT_EQ(faults(), 0U);
  call_for(due, 1h);
  EXPECT_EQ(book.faults().wrong_key, 1U);

  ledger another{1};
  another.ask_relative(0, due, false);
  const std::string text = timer_server::write_moment(due - 1ns);
  another.call({.id = another.id_of(0), .due = text, .key = another.id_of(0) + ':' + text, .token = "1"}, later);
  EXPECT_EQ(another.faults().early, 1U);
}

TEST_F(ledger_test, calls_of_an_earlier_run_do_not_count) {
  schedule();
  for (const auto* const id : {"", "load-1-0", "x", "load-1-"}) book.call({.id = id}, due);
  EXPECT_EQ(faults(), 0U);
  EXPECT_EQ(book[0].calls(), 0U);
}

}  // namespace
