// Attempts, on a clock turned by hand.
#include <tickwheel/net/retry_timer.hpp>

#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

using namespace std::chrono_literals;
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
class operation {
 public:
  explicit operation(tickwheel::timer_service& timers,
                     const retry_options& options = {.max_attempts = 4, .backoff = exact},
                     retry_budget* budget = nullptr, std::uint64_t seed = 1)
      : retry{timers, *this, options, budget, seed}, timers_{timers} {}

  std::vector<time_point> again;
  std::function<void()> then;

 private:
  void attempt() noexcept {
    again.push_back(timers_.read_clock());
    const auto call = then;  // a copy, since the call may destroy this
    if (call) call();
  }

 public:
  tickwheel::retry_timer<&operation::attempt> retry;

 private:
  tickwheel::timer_service& timers_;
};

deadline in(const manual_service& service, std::chrono::nanoseconds budget) {
  return deadline::after(budget, service.timers.now());
}

TEST(retry_timer, counts_the_first_attempt_which_its_owner_makes) {
  manual_service service;
  operation o{service.timers};
  EXPECT_EQ(o.retry.attempts(), 0U);
  ASSERT_EQ(o.retry.start(), 0);
  EXPECT_EQ(o.retry.attempts(), 1U);
  EXPECT_FALSE(o.retry.armed());
  service.advance(1h);
  EXPECT_EQ(o.again.size(), 0U);
}

TEST(retry_timer, attempts_again_after_the_delay_and_not_before) {
  manual_service service;
  operation o{service.timers};
  ASSERT_EQ(o.retry.start(), 0);
  const auto begin = service.time.now();
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  EXPECT_TRUE(o.retry.armed());
  EXPECT_GE(o.retry.deadline(), begin + 100ms);
  service.advance(100ms - 1ns);
  EXPECT_EQ(o.again.size(), 0U);
  EXPECT_EQ(o.retry.attempts(), 1U);
  service.advance(1ns + service.tick());
  EXPECT_EQ(o.again.size(), 1U);
  EXPECT_EQ(o.retry.attempts(), 2U);
  EXPECT_FALSE(o.retry.armed());
}

TEST(retry_timer, waits_longer_each_time) {
  manual_service service;
  operation o{service.timers, {.max_attempts = 6, .backoff = exact}};
  o.then = [&] { (void)o.retry.retry(); };
  ASSERT_EQ(o.retry.start(), 0);
  auto before = service.time.now();
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  service.advance(1h);
  const std::chrono::nanoseconds delays[]{100ms, 200ms, 400ms, 800ms, 1s};
  ASSERT_EQ(o.again.size(), std::size(delays));
  for (std::size_t i = 0; i < o.again.size(); ++i) {
    EXPECT_GE(o.again[i] - before, delays[i]);
    EXPECT_LE(o.again[i] - before, delays[i] + service.tick());
    before = o.again[i];
  }
}

TEST(retry_timer, makes_no_more_attempts_than_it_may) {
  manual_service service;
  operation o{service.timers, {.max_attempts = 3, .backoff = exact}};
  ASSERT_EQ(o.retry.start(), 0);
  auto last = retry_result::scheduled;
  o.then = [&] { last = o.retry.retry(); };
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  service.advance(1h);
  EXPECT_EQ(o.again.size(), 2U);
  EXPECT_EQ(o.retry.attempts(), 3U);
  EXPECT_EQ(last, retry_result::out_of_attempts);
}

TEST(retry_timer, of_a_single_attempt_never_tries_again) {
  manual_service service;
  operation o{service.timers, {.max_attempts = 1}};
  ASSERT_EQ(o.retry.start(), 0);
  EXPECT_EQ(o.retry.retry(), retry_result::out_of_attempts);
}

TEST(retry_timer, of_unlimited_attempts_goes_on) {
  manual_service service;
  operation o{service.timers, {.max_attempts = retry_options::unlimited, .backoff = exact}};
  o.then = [&] { EXPECT_EQ(o.retry.retry(), retry_result::scheduled); };
  ASSERT_EQ(o.retry.start(), 0);
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  service.advance(1000s);
  EXPECT_GT(o.again.size(), 990U);
}

// --- the deadline ----------------------------------------------------------------------------------------------------

TEST(retry_timer, refuses_at_once_an_attempt_that_could_not_begin_in_time) {
  manual_service service;
  operation o{service.timers};
  ASSERT_EQ(o.retry.start(in(service, 100ms)), 0);
  EXPECT_EQ(o.retry.retry(), retry_result::past_deadline);
  EXPECT_FALSE(o.retry.armed());
  service.advance(1h);
  EXPECT_EQ(o.again.size(), 0U);
}

TEST(retry_timer, makes_an_attempt_that_begins_just_in_time) {
  manual_service service;
  operation o{service.timers};
  ASSERT_EQ(o.retry.start(in(service, 100ms + 1ns)), 0);
  EXPECT_EQ(o.retry.retry(), retry_result::scheduled);
}

TEST(retry_timer, judges_each_attempt_by_what_is_left) {
  manual_service service;
  operation o{service.timers};
  std::vector<retry_result> answers;
  o.then = [&] { answers.push_back(o.retry.retry()); };
  ASSERT_EQ(o.retry.start(in(service, 600ms)), 0);
  answers.push_back(o.retry.retry());  // at 100 ms, then at 300 ms; at 700 ms it would be too late
  service.advance(1h);
  EXPECT_EQ(answers, (std::vector{retry_result::scheduled, retry_result::scheduled, retry_result::past_deadline}));
}

TEST(retry_timer, judges_by_the_true_time) {
  manual_service service;
  operation o{service.timers};
  ASSERT_EQ(o.retry.start(in(service, 200ms)), 0);
  service.time.block(100ms);
  EXPECT_EQ(o.retry.retry(), retry_result::past_deadline);
}

TEST(retry_timer, refuses_to_start_when_the_deadline_has_passed) {
  manual_service service;
  retry_budget budget{{.percent = 100, .max_tokens = 1}};
  ASSERT_TRUE(budget.withdraw(service.time.now()));
  operation o{service.timers, {}, &budget};
  EXPECT_EQ(o.retry.start(in(service, 0s)), UV_ETIMEDOUT);
  EXPECT_EQ(o.retry.start(in(service, -1s)), UV_ETIMEDOUT);
  EXPECT_EQ(o.retry.attempts(), 0U);
  EXPECT_EQ(budget.available(service.time.now()), 0U) << "no request, no deposit";
}

TEST(retry_timer, waits_as_long_as_the_server_asked_for) {
  manual_service service;
  operation o{service.timers};
  ASSERT_EQ(o.retry.start(), 0);
  ASSERT_EQ(o.retry.retry(5s), retry_result::scheduled);
  service.advance(5s - 1ns);
  EXPECT_EQ(o.again.size(), 0U);
  service.advance(1ns + service.tick());
  EXPECT_EQ(o.again.size(), 1U);
}

TEST(retry_timer, waits_no_less_than_its_backoff_whatever_the_server_asked_for) {
  manual_service service;
  operation o{service.timers};
  ASSERT_EQ(o.retry.start(), 0);
  ASSERT_EQ(o.retry.retry(-1h), retry_result::scheduled);
  service.advance(100ms - 1ns);
  EXPECT_EQ(o.again.size(), 0U);
}

TEST(retry_timer, refuses_a_wait_that_the_server_asked_for_beyond_the_deadline) {
  manual_service service;
  operation o{service.timers};
  ASSERT_EQ(o.retry.start(in(service, 1s)), 0);
  EXPECT_EQ(o.retry.retry(1s), retry_result::past_deadline);
  EXPECT_EQ(o.retry.retry(std::chrono::hours::max()), retry_result::past_deadline);
}

TEST(retry_timer, says_until_when_it_tries) {
  manual_service service;
  operation o{service.timers};
  EXPECT_TRUE(o.retry.until().is_never());
  const auto until = in(service, 1s);
  ASSERT_EQ(o.retry.start(until), 0);
  EXPECT_EQ(o.retry.until(), until);
}

// --- the budget ------------------------------------------------------------------------------------------------------

TEST(retry_timer, takes_each_retry_from_the_budget_and_is_refused_when_it_is_empty) {
  manual_service service;
  retry_budget budget{{.percent = 1, .max_tokens = 1}};
  operation a{service.timers, {.backoff = exact}, &budget};
  operation b{service.timers, {.backoff = exact}, &budget};
  ASSERT_EQ(a.retry.start(), 0);
  ASSERT_EQ(b.retry.start(), 0);
  EXPECT_EQ(a.retry.retry(), retry_result::scheduled);
  EXPECT_EQ(b.retry.retry(), retry_result::out_of_budget);
  EXPECT_FALSE(b.retry.armed());
  service.advance(1h);
  EXPECT_EQ(a.again.size(), 1U);
  EXPECT_EQ(b.again.size(), 0U);
}

TEST(retry_timer, deposits_for_each_operation_it_starts) {
  manual_service service;
  retry_budget budget{{.percent = 50, .max_tokens = 1}};
  ASSERT_TRUE(budget.withdraw(service.time.now()));
  operation o{service.timers, {.backoff = exact}, &budget};
  ASSERT_EQ(o.retry.start(), 0);
  EXPECT_EQ(o.retry.retry(), retry_result::out_of_budget);
  ASSERT_EQ(o.retry.start(), 0);
  EXPECT_EQ(o.retry.retry(), retry_result::scheduled);
}

TEST(retry_timer, that_is_refused_for_another_reason_takes_nothing_from_the_budget) {
  manual_service service{{.max_armed = 1}};
  retry_budget budget{{.max_tokens = 5}};
  operation too_late{service.timers, {.backoff = exact}, &budget};
  operation too_often{service.timers, {.max_attempts = 1}, &budget};
  operation too_many{service.timers, {.backoff = exact}, &budget};
  probe other{service.timers};
  ASSERT_EQ(other.timeout.arm(1h), 0);
  ASSERT_EQ(too_late.retry.start(in(service, 1ms)), 0);
  ASSERT_EQ(too_often.retry.start(), 0);
  ASSERT_EQ(too_many.retry.start(), 0);
  EXPECT_EQ(too_late.retry.retry(), retry_result::past_deadline);
  EXPECT_EQ(too_often.retry.retry(), retry_result::out_of_attempts);
  EXPECT_EQ(too_many.retry.retry(), retry_result::limit_reached);
  EXPECT_EQ(budget.available(service.time.now()), 5U);
  EXPECT_EQ(budget.withdrawn(), 0U);
}

TEST(a_refusal, changes_nothing) {
  manual_service service;
  retry_budget budget{{.percent = 0, .per_second = 10, .max_tokens = 1}};
  ASSERT_TRUE(budget.withdraw(service.time.now()));
  operation o{service.timers, {.max_attempts = 4, .backoff = exact}, &budget};
  ASSERT_EQ(o.retry.start(), 0);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(o.retry.retry(), retry_result::out_of_budget);
  service.advance(100ms);  // which earns one
  const auto now = service.time.now();
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  EXPECT_LE(o.retry.deadline(), now + 100ms + service.tick()) << "the first delay still, not the eleventh";
  EXPECT_EQ(o.retry.attempts(), 1U);
}

// --- cancelling and starting again -----------------------------------------------------------------------------------

TEST(retry_timer, cancelled_does_not_try_again) {
  manual_service service;
  operation o{service.timers};
  EXPECT_FALSE(o.retry.cancel());
  ASSERT_EQ(o.retry.start(), 0);
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  EXPECT_TRUE(o.retry.cancel());
  EXPECT_FALSE(o.retry.cancel());
  service.advance(1h);
  EXPECT_EQ(o.again.size(), 0U);
  EXPECT_EQ(o.retry.attempts(), 1U);
}

TEST(retry_timer, cancelled_refuses_a_failure_that_is_reported_later) {
  manual_service service;
  operation o{service.timers};
  ASSERT_EQ(o.retry.start(), 0);
  EXPECT_FALSE(o.retry.cancel());
  EXPECT_EQ(o.retry.retry(), retry_result::not_started);
  service.advance(1h);
  EXPECT_EQ(o.again.size(), 0U);
}

TEST(retry_timer, that_was_not_started_has_nothing_to_try_again) {
  manual_service service;
  operation o{service.timers};
  EXPECT_EQ(o.retry.retry(), retry_result::not_started);
}

TEST(retry_timer, that_waits_already_refuses_a_failure_that_is_reported_twice) {
  manual_service service;
  operation o{service.timers};
  ASSERT_EQ(o.retry.start(), 0);
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  const auto due = o.retry.deadline();
  service.advance(10ms);
  EXPECT_EQ(o.retry.retry(), retry_result::already_waiting);
  EXPECT_EQ(o.retry.deadline(), due);
}

TEST(retry_timer, started_again_counts_and_waits_from_the_beginning) {
  manual_service service;
  operation o{service.timers};
  o.then = [&] { (void)o.retry.retry(); };
  ASSERT_EQ(o.retry.start(), 0);
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  service.advance(400ms);  // it waits for the third retry
  ASSERT_TRUE(o.retry.armed());
  ASSERT_EQ(o.retry.start(in(service, 1s)), 0);
  EXPECT_FALSE(o.retry.armed());
  EXPECT_EQ(o.retry.attempts(), 1U);
  const auto begin = service.time.now();
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  EXPECT_LE(o.retry.deadline(), begin + 100ms + service.tick());
}

TEST(retry_timer, whose_start_is_refused_goes_on_with_what_it_did) {
  manual_service service;
  operation o{service.timers};
  ASSERT_EQ(o.retry.start(), 0);
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  EXPECT_EQ(o.retry.start(in(service, 0s)), UV_ETIMEDOUT);
  EXPECT_TRUE(o.retry.armed());
  service.advance(1s);
  EXPECT_EQ(o.again.size(), 1U);
}

TEST(retry_timer, cancelled_by_another_of_the_same_pass_does_not_try_again) {
  manual_service service;
  operation a{service.timers};
  operation b{service.timers};
  a.then = [&] { b.retry.cancel(); };
  b.then = [&] { a.retry.cancel(); };
  for (operation* o : {&a, &b}) {
    ASSERT_EQ(o->retry.start(), 0);
    ASSERT_EQ(o->retry.retry(), retry_result::scheduled);
  }
  service.advance(1h);
  EXPECT_EQ(a.again.size() + b.again.size(), 1U);
}

TEST(retry_timer, may_be_cancelled_and_started_in_its_handler) {
  manual_service service;
  operation o{service.timers};
  o.then = [&] {
    o.retry.cancel();
    EXPECT_EQ(o.retry.start(), 0);
  };
  ASSERT_EQ(o.retry.start(), 0);
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  service.advance(1h);
  EXPECT_EQ(o.retry.attempts(), 1U);
}

TEST(retry_timer, may_be_destroyed_with_its_owner_in_its_handler) {
  manual_service service;
  auto o = std::make_unique<operation>(service.timers);
  o->then = [&] { o.reset(); };
  ASSERT_EQ(o->retry.start(), 0);
  ASSERT_EQ(o->retry.retry(), retry_result::scheduled);
  service.advance(1h);
  EXPECT_EQ(o, nullptr);
}

TEST(retry_timer, may_close_the_service_in_its_handler) {
  manual_service service;
  operation o{service.timers};
  auto answer = retry_result::scheduled;
  o.then = [&] {
    service.timers.close();
    answer = o.retry.retry();
  };
  ASSERT_EQ(o.retry.start(), 0);
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  service.time.advance(1h);
  EXPECT_EQ(answer, retry_result::not_started);
  EXPECT_EQ(o.retry.start(), UV_ECANCELED);
}

TEST(retry_timer, outlives_its_service_to_be_asked_cancelled_and_destroyed) {
  tickwheel::manual_driver time;
  auto timers = std::make_unique<tickwheel::timer_service>();
  ASSERT_EQ(timers->open(time), 0);
  operation o{*timers};
  ASSERT_EQ(o.retry.start(), 0);
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  timers.reset();
  EXPECT_FALSE(o.retry.armed());
  EXPECT_FALSE(o.retry.cancel());
}

TEST(retry_timer, does_not_hold_the_loop_when_it_is_told_so) {
  manual_service service;
  operation o{service.timers};
  o.retry.unref();
  ASSERT_EQ(o.retry.start(), 0);
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  EXPECT_FALSE(service.time.alive());
}

// --- the jitter ------------------------------------------------------------------------------------------------------

TEST(retry_timer, waits_for_the_times_of_its_seed) {
  manual_service service;
  const retry_options options{.backoff = {.base = 1s, .cap = 8s}};
  operation o{service.timers, options, nullptr, 42};
  tickwheel::backoff expected{options.backoff, 42};
  ASSERT_EQ(o.retry.start(), 0);
  const auto due = service.time.now() + expected.next();
  ASSERT_EQ(o.retry.retry(), retry_result::scheduled);
  EXPECT_GE(o.retry.deadline(), due);
  EXPECT_LT(o.retry.deadline(), due + service.tick());
}

TEST(retry_timer, allocates_nothing) {
  manual_service service;
  retry_budget budget;
  operation o{service.timers, {.max_attempts = 3, .backoff = exact}, &budget};
  o.again.reserve(10'000);
  const auto before = allocations::count();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(o.retry.start(in(service, 1s)), 0);
    (void)o.retry.retry();  // the budget refuses some
    service.time.advance(200ms);
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_GT(o.again.size(), 200U);
}

// --- what is refused -------------------------------------------------------------------------------------------------

TEST(retry_options, name_what_is_wrong) {
  EXPECT_EQ(retry_options{}.problem(), nullptr);
  EXPECT_THAT(retry_options{.max_attempts = 0}.problem(), HasSubstr("retry_options::max_attempts "));
  EXPECT_THAT((retry_options{.backoff = {.base = 1s, .cap = 1ms}}).problem(), HasSubstr("::cap "));
}

TEST(a_retry_timer_of_impossible_options, stops_the_process_and_names_the_field) {
  manual_service service;
  EXPECT_DEATH(operation(service.timers, {.max_attempts = 0}), "retry_options::max_attempts is zero");
  EXPECT_DEATH(operation(service.timers, {.backoff = {.jitter = 2}}), "backoff_options::jitter");
}

struct handlers {
  void may_throw() {}
  void attempt() noexcept {}
};
template <auto Member>
concept makes_a_retry_timer = requires {
  sizeof(tickwheel::retry_timer<Member>);
};
static_assert(makes_a_retry_timer<&handlers::attempt>);
static_assert(!makes_a_retry_timer<&handlers::may_throw>);

}  // namespace
