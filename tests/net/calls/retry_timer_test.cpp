// Attempts, on a clock turned by hand.
#include <tickwheel/net/retry_timer.hpp>

#include "../../support/allocation_probe.hpp"
#include "../support/subject_test.hpp"

#include <gmock/gmock.h>

using testing::HasSubstr;

namespace {

using tickwheel::backoff_options;
using tickwheel::deadline;
using tickwheel::jitter_kind;
using tickwheel::retry_budget;
using tickwheel::retry_options;
using tickwheel::retry_result;
using time_point = tickwheel::clock::time_point;

// delays of exactly 100, 200, 400 and 800 ms, then 1 s
constexpr backoff_options exact{.base = 100ms, .cap = 1s, .kind = jitter_kind::none};

/// An operation that notes when it was attempted again.
struct operation {
  explicit operation(tickwheel::timer_service& timers,
                     const retry_options& options = {.max_attempts = 4, .backoff = exact},
                     retry_budget* budget = nullptr, std::uint64_t seed = 1)
      : timer{timers, *this, options, budget, seed}, timers_{timers} {}

  void attempt() noexcept {
    again.push_back(timers_.read_clock());
    const auto call = then;  // a copy, since the call may destroy this
    if (call) call();
  }

  std::vector<time_point> again;
  std::function<void()> then;
  tickwheel::retry_timer<&operation::attempt> timer;

 private:
  tickwheel::timer_service& timers_;
};

class retry_timer : public subject_test<operation> {
 protected:
  /// Starts an operation, whose first attempt fails at once.
  static void start_and_fail(operation& o) {
    ASSERT_EQ(o.timer.start(), 0);
    ASSERT_EQ(o.timer.retry(), retry_result::scheduled);
  }
  deadline in(std::chrono::nanoseconds budget) const { return deadline::after(budget, service.timers); }
};

TEST_F(retry_timer, start_counts_first_attempt) {
  EXPECT_EQ(c.timer.attempts(), 0U);
  ASSERT_EQ(c.timer.start(), 0);
  EXPECT_EQ(c.timer.attempts(), 1U);
  EXPECT_FALSE(c.timer.armed());
  advance(1h);
  EXPECT_EQ(c.again.size(), 0U);
}

TEST_F(retry_timer, waits_longer_each_time) {
  operation o{service.timers, {.max_attempts = 6, .backoff = exact}};
  o.then = [&] { (void)o.timer.retry(); };
  ASSERT_EQ(o.timer.start(), 0);
  auto before = service.time.now();
  ASSERT_EQ(o.timer.retry(), retry_result::scheduled);
  advance(1h);
  const std::chrono::nanoseconds delays[]{100ms, 200ms, 400ms, 800ms, 1s};
  ASSERT_EQ(o.again.size(), std::size(delays));
  EXPECT_EQ(o.timer.attempts(), 1 + std::size(delays));
  for (std::size_t i = 0; i < o.again.size(); ++i) {
    EXPECT_GE(o.again[i] - before, delays[i]);
    EXPECT_LE(o.again[i] - before, delays[i] + tick());
    before = o.again[i];
  }
}

TEST_F(retry_timer, makes_no_more_than_max_attempts) {
  operation o{service.timers, {.max_attempts = 3, .backoff = exact}};
  ASSERT_EQ(o.timer.start(), 0);
  auto last = retry_result::scheduled;
  o.then = [&] { last = o.timer.retry(); };
  ASSERT_EQ(o.timer.retry(), retry_result::scheduled);
  advance(1h);
  EXPECT_EQ(o.again.size(), 2U);
  EXPECT_EQ(o.timer.attempts(), 3U);
  EXPECT_EQ(last, retry_result::out_of_attempts);
}

TEST_F(retry_timer, unlimited_attempts_go_on) {
  operation o{service.timers, {.max_attempts = retry_options::unlimited, .backoff = exact}};
  o.then = [&] { EXPECT_EQ(o.timer.retry(), retry_result::scheduled); };
  start_and_fail(o);
  advance(1000s);
  EXPECT_GT(o.again.size(), 990U);
}

TEST_F(retry_timer, attempt_beyond_deadline_is_refused_at_once) {
  ASSERT_EQ(c.timer.start(in(100ms)), 0);
  EXPECT_EQ(c.timer.retry(), retry_result::past_deadline);
  EXPECT_FALSE(c.timer.armed());
  advance(1h);
  EXPECT_EQ(c.again.size(), 0U);
}

TEST_F(retry_timer, attempt_just_before_deadline_is_made) {
  ASSERT_EQ(c.timer.start(in(100ms + 1ns)), 0);
  EXPECT_EQ(c.timer.retry(), retry_result::scheduled);
}

TEST_F(retry_timer, judges_each_attempt_by_remaining_time) {
  std::vector<retry_result> answers;
  c.then = [&] { answers.push_back(c.timer.retry()); };
  ASSERT_EQ(c.timer.start(in(600ms)), 0);
  answers.push_back(c.timer.retry());  // at 100 ms, then at 300 ms; at 700 ms it would be too late
  advance(1h);
  EXPECT_EQ(answers, (std::vector{retry_result::scheduled, retry_result::scheduled, retry_result::past_deadline}));
}

TEST_F(retry_timer, judges_by_true_time) {
  ASSERT_EQ(c.timer.start(in(200ms)), 0);
  service.time.block(100ms);
  EXPECT_EQ(c.timer.retry(), retry_result::past_deadline);
}

TEST_F(retry_timer, start_with_passed_deadline_is_refused) {
  retry_budget budget{{.percent = 100, .max_tokens = 1}};
  ASSERT_TRUE(budget.withdraw(service.time.now()));
  operation o{service.timers, {}, &budget};
  EXPECT_EQ(o.timer.start(in(0s)), UV_ETIMEDOUT);
  EXPECT_EQ(o.timer.start(in(-1s)), UV_ETIMEDOUT);
  EXPECT_EQ(o.timer.attempts(), 0U);
  EXPECT_EQ(budget.available(service.time.now()), 0U) << "no request, no deposit";
}

TEST_F(retry_timer, waits_no_less_than_backoff) {
  ASSERT_EQ(c.timer.start(), 0);
  ASSERT_EQ(c.timer.retry(-1h), retry_result::scheduled);
  advance(100ms - 1ns);
  EXPECT_EQ(c.again.size(), 0U);
}

TEST_F(retry_timer, wait_beyond_deadline_is_refused) {
  ASSERT_EQ(c.timer.start(in(1s)), 0);
  EXPECT_EQ(c.timer.retry(1s), retry_result::past_deadline);
  EXPECT_EQ(c.timer.retry(std::chrono::hours::max()), retry_result::past_deadline);
}

TEST_F(retry_timer, tells_its_deadline) {
  EXPECT_TRUE(c.timer.until().is_never());
  const auto until = in(1s);
  ASSERT_EQ(c.timer.start(until), 0);
  EXPECT_EQ(c.timer.until(), until);
}

TEST_F(retry_timer, empty_budget_refuses_retry) {
  retry_budget budget{{.percent = 1, .max_tokens = 1}};
  operation a{service.timers, {.backoff = exact}, &budget};
  operation b{service.timers, {.backoff = exact}, &budget};
  ASSERT_EQ(a.timer.start(), 0);
  ASSERT_EQ(b.timer.start(), 0);
  EXPECT_EQ(a.timer.retry(), retry_result::scheduled);
  EXPECT_EQ(b.timer.retry(), retry_result::out_of_budget);
  EXPECT_FALSE(b.timer.armed());
  advance(1h);
  EXPECT_EQ(a.again.size(), 1U);
  EXPECT_EQ(b.again.size(), 0U);
}

TEST_F(retry_timer, each_start_deposits_in_budget) {
  retry_budget budget{{.percent = 50, .max_tokens = 1}};
  ASSERT_TRUE(budget.withdraw(service.time.now()));
  operation o{service.timers, {.backoff = exact}, &budget};
  ASSERT_EQ(o.timer.start(), 0);
  EXPECT_EQ(o.timer.retry(), retry_result::out_of_budget);
  ASSERT_EQ(o.timer.start(), 0);
  EXPECT_EQ(o.timer.retry(), retry_result::scheduled);
}

TEST_F(retry_timer, refused_retry_takes_nothing_from_budget) {
  reopen({.max_armed = 1});
  retry_budget budget{{.max_tokens = 5}};
  operation too_late{service.timers, {.backoff = exact}, &budget};
  operation too_often{service.timers, {.max_attempts = 1}, &budget};
  operation too_many{service.timers, {.backoff = exact}, &budget};
  probe other{service.timers, 1h};
  ASSERT_EQ(too_late.timer.start(in(1ms)), 0);
  ASSERT_EQ(too_often.timer.start(), 0);
  ASSERT_EQ(too_many.timer.start(), 0);
  EXPECT_EQ(too_late.timer.retry(), retry_result::past_deadline);
  EXPECT_EQ(too_often.timer.retry(), retry_result::out_of_attempts);
  EXPECT_EQ(too_many.timer.retry(), retry_result::limit_reached);
  EXPECT_EQ(budget.available(service.time.now()), 5U);
  EXPECT_EQ(budget.withdrawn(), 0U);
}

TEST_F(retry_timer, refused_retry_changes_nothing) {
  retry_budget budget{{.percent = 0, .per_second = 10, .max_tokens = 1}};
  ASSERT_TRUE(budget.withdraw(service.time.now()));
  operation o{service.timers, {.max_attempts = 4, .backoff = exact}, &budget};
  ASSERT_EQ(o.timer.start(), 0);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(o.timer.retry(), retry_result::out_of_budget);
  EXPECT_EQ(service.timers.stats().armed, 0U) << "nor does it ask for a wakeup";
  EXPECT_EQ(budget.refused(), 10U);
  advance(100ms);  // which earns one
  const auto now = service.time.now();
  ASSERT_EQ(o.timer.retry(), retry_result::scheduled);
  EXPECT_LE(o.timer.deadline(), now + 100ms + tick()) << "the first delay still, not the eleventh";
  EXPECT_EQ(o.timer.attempts(), 1U);
}

TEST_F(retry_timer, failure_after_cancel_is_refused) {
  ASSERT_EQ(c.timer.start(), 0);
  EXPECT_FALSE(c.timer.cancel());
  EXPECT_EQ(c.timer.retry(), retry_result::not_started);
  advance(1h);
  EXPECT_EQ(c.again.size(), 0U);
  EXPECT_EQ(c.timer.attempts(), 1U);
}

TEST_F(retry_timer, failure_before_start_is_refused) { EXPECT_EQ(c.timer.retry(), retry_result::not_started); }

TEST_F(retry_timer, failure_reported_twice_is_refused) {
  start_and_fail(c);
  const auto due = c.timer.deadline();
  advance(10ms);
  EXPECT_EQ(c.timer.retry(), retry_result::already_waiting);
  EXPECT_EQ(c.timer.deadline(), due);
}

TEST_F(retry_timer, start_of_started_one_begins_anew) {
  c.then = [&] { (void)c.timer.retry(); };
  start_and_fail(c);
  advance(400ms);  // it waits for the third retry
  ASSERT_TRUE(c.timer.armed());
  ASSERT_EQ(c.timer.start(in(1s)), 0);
  EXPECT_FALSE(c.timer.armed());
  EXPECT_EQ(c.timer.attempts(), 1U);
  const auto begin = service.time.now();
  ASSERT_EQ(c.timer.retry(), retry_result::scheduled);
  EXPECT_LE(c.timer.deadline(), begin + 100ms + tick());
}

TEST_F(retry_timer, refused_start_keeps_earlier_operation) {
  start_and_fail(c);
  EXPECT_EQ(c.timer.start(in(0s)), UV_ETIMEDOUT);
  EXPECT_TRUE(c.timer.armed());
  advance(1s);
  EXPECT_EQ(c.again.size(), 1U);
}

TEST_F(retry_timer, handler_may_cancel_and_start_it) {
  c.then = [&] {
    c.timer.cancel();
    EXPECT_EQ(c.timer.start(), 0);
  };
  start_and_fail(c);
  advance(1h);
  EXPECT_EQ(c.timer.attempts(), 1U);
}

TEST_F(retry_timer, retry_after_close_is_refused) {
  auto answer = retry_result::scheduled;
  c.then = [&] {
    service.timers.close();
    answer = c.timer.retry();
  };
  start_and_fail(c);
  service.time.advance(1h);
  EXPECT_EQ(answer, retry_result::not_started);
  EXPECT_EQ(c.timer.start(), UV_ECANCELED);
}

TEST_F(retry_timer, waits_for_times_of_its_seed) {
  const retry_options options{.backoff = {.base = 1s, .cap = 8s}};
  operation o{service.timers, options, nullptr, 42};
  tickwheel::backoff expected{options.backoff, 42};
  ASSERT_EQ(o.timer.start(), 0);
  const auto due = service.time.now() + expected.next();
  ASSERT_EQ(o.timer.retry(), retry_result::scheduled);
  EXPECT_GE(o.timer.deadline(), due);
  EXPECT_LT(o.timer.deadline(), due + tick());
}

TEST_F(retry_timer, retries_allocate_nothing) {
  retry_budget budget;
  operation o{service.timers, {.max_attempts = 3, .backoff = exact}, &budget};
  o.again.reserve(10'000);
  const auto before = allocations::count();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(o.timer.start(in(1s)), 0);
    (void)o.timer.retry();
    service.time.advance(200ms);
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_GT(o.again.size(), 200U);
}

TEST_F(retry_timer, problem_names_invalid_option) {
  EXPECT_EQ(retry_options{}.problem(), nullptr);
  EXPECT_THAT(retry_options{.max_attempts = 0}.problem(), HasSubstr("retry_options::max_attempts "));
  EXPECT_THAT((retry_options{.backoff = {.base = 1s, .cap = 1ms}}).problem(), HasSubstr("::cap "));
}

TEST_F(retry_timer, invalid_options_stop_process_and_are_named) {
  EXPECT_DEATH(operation(service.timers, {.max_attempts = 0}), "retry_options::max_attempts is zero");
  EXPECT_DEATH(operation(service.timers, {.backoff = {.jitter = 2}}), "backoff_options::jitter");
}

// A failure that is reported twice must not end an operation whose next attempt waits.
TEST_F(retry_timer, answers_tell_whether_retries_end) {
  for (const auto answer : {retry_result::scheduled, retry_result::already_waiting}) EXPECT_FALSE(ends_retries(answer));
  for (const auto answer : {retry_result::past_deadline, retry_result::out_of_attempts, retry_result::out_of_budget,
                            retry_result::limit_reached, retry_result::not_started})
    EXPECT_TRUE(ends_retries(answer));
}

}  // namespace
