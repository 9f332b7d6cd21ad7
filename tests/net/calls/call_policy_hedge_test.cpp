// Hedges: a second attempt while the first one waits, after a quantile of the last answers.
#include <tickwheel/net/call_policy.hpp>

#include "../support/policy_client.hpp"

#include <tickwheel/uv/remote.hpp>

#include <list>

namespace {

using std::chrono::nanoseconds;
using tickwheel::call_policy_options;
using tickwheel::deadline;
using tickwheel::retry_result;

/// A hedge after 200 ms at first, later after the median.
template <class Change>
call_policy_options hedging(Change change) {
  call_policy_options changed = exact_policy;
  changed.hedge_quantile = 0.5;
  changed.hedge_delay = 200ms;
  change(changed);
  return changed;
}
call_policy_options hedging() {
  return hedging([](auto&) {});
}

struct call_policy_hedge : testing::Test {
  policy_client on{hedging()};
  policed_call c{on.timers};

  nanoseconds slack() const { return 2 * on.tick(); }
  /// Starts the call and waits until its hedge was begun.
  void start_and_hedge() {
    ASSERT_EQ(on.calls.start(c), 0);
    on.advance(200ms + slack());
    ASSERT_EQ(c.sent.size(), 2U);
    ASSERT_TRUE(c.sent[1].is_hedge);
  }
};

TEST_F(call_policy_hedge, is_off_by_default) {
  static_assert(call_policy_options{}.hedge_quantile == 0);
  policy_client own;
  policed_call one{own.timers};
  EXPECT_EQ(own.calls.hedge_delay(), nanoseconds::max());
  ASSERT_EQ(own.calls.start(one), 0);
  own.advance(1s - 1ns);
  EXPECT_EQ(one.sent.size(), 1U);
}

// Both timers are due in one late pass, in any order.
TEST_F(call_policy_hedge, does_not_begin_after_stall_past_first_attempt) {
  std::list<policed_call> calls;  // in many slots of the wheel
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(on.calls.start(calls.emplace_back(on.timers)), 0);
    on.advance(1ms);
  }
  on.time.block(1s);
  on.advance(0ns);
  EXPECT_EQ(on.calls.stats().expired, 50U);
  EXPECT_EQ(on.calls.stats().hedges, 0U);
  EXPECT_EQ(on.calls.stats().hedges_refused, 0U);
  for (const policed_call& call : calls) EXPECT_EQ(call.last_retry(), retry_result::scheduled);
}

TEST_F(call_policy_hedge, begins_after_delay_and_not_early) {
  const auto begin = on.time.now();
  ASSERT_EQ(on.calls.start(c), 0);
  on.advance(200ms - 1ns);
  EXPECT_EQ(c.sent.size(), 1U);
  on.advance(1ns + on.tick());
  ASSERT_EQ(c.sent.size(), 2U);
  EXPECT_TRUE(c.sent[1].is_hedge);
  EXPECT_EQ(c.sent[1].number, 2U);
  EXPECT_GE(c.sent_at[1], begin + 200ms);
  EXPECT_EQ(c.sent[1].until, deadline::at(c.sent_at[1] + 1s)) << "it has an attempt's time of its own";
  EXPECT_EQ(c.attempts(), 2U);
  EXPECT_EQ(on.calls.stats().hedges, 1U);
  EXPECT_EQ(on.calls.stats().retries, 0U);
}

TEST_F(call_policy_hedge, answered_call_has_none) {
  ASSERT_EQ(on.calls.start(c), 0);
  on.advance(200ms - 1ns);
  ASSERT_EQ(on.calls.complete(c.id()), &c);
  on.advance(1h);
  EXPECT_EQ(c.sent.size(), 1U);
}

TEST_F(call_policy_hedge, first_answer_wins_and_other_is_unmatched) {
  for (const std::size_t winner : {0U, 1U}) {
    c.sent.clear();
    start_and_hedge();
    EXPECT_EQ(on.calls.find(c.sent[1 - winner].id), &c);
    EXPECT_EQ(on.calls.complete(c.sent[winner].id), &c);
    EXPECT_FALSE(c.pending());
    EXPECT_EQ(on.calls.complete(c.sent[1 - winner].id), nullptr);
    EXPECT_EQ(on.calls.stats().unmatched, winner + 1);
    EXPECT_EQ(on.calls.stats().hedges_won, winner);
    EXPECT_FALSE(on.time.alive());
  }
  on.advance(1h);
  EXPECT_EQ(c.failed, 0);
}

TEST_F(call_policy_hedge, goes_on_when_first_attempt_fails) {
  start_and_hedge();
  EXPECT_TRUE(on.calls.fail(c.sent[0].id, UV_EAGAIN));
  EXPECT_EQ(c.last_retry(), retry_result::not_started) << "no retry is needed";
  on.advance(500ms);
  EXPECT_EQ(c.sent.size(), 2U);
  EXPECT_EQ(on.calls.complete(c.sent[1].id), &c);
}

TEST_F(call_policy_hedge, goes_on_when_first_attempt_expires) {
  start_and_hedge();
  on.advance(800ms);
  EXPECT_EQ(on.calls.stats().expired, 1U);
  EXPECT_EQ(on.calls.complete(c.sent[0].id), nullptr);
  EXPECT_EQ(on.calls.complete(c.sent[1].id), &c);
}

TEST_F(call_policy_hedge, first_attempt_goes_on_when_it_fails) {
  start_and_hedge();
  EXPECT_TRUE(on.calls.fail(c.sent[1].id, UV_EAGAIN));
  on.advance(500ms);
  EXPECT_EQ(c.sent.size(), 2U);
  EXPECT_EQ(on.calls.complete(c.sent[0].id), &c);
}

TEST_F(call_policy_hedge, error_of_its_attempt_leaves_first_waiting) {
  c.on_send = [](auto a) { return a.is_hedge ? UV_EPIPE : 0; };
  start_and_hedge();
  EXPECT_EQ(on.calls.find(c.sent[1].id), nullptr);
  EXPECT_EQ(on.calls.complete(c.sent[0].id), &c);
}

TEST_F(call_policy_hedge, both_may_fail_and_then_retry_follows) {
  start_and_hedge();
  EXPECT_TRUE(on.calls.fail(c.sent[1].id, UV_EAGAIN));
  EXPECT_TRUE(on.calls.fail(c.sent[0].id, UV_EAGAIN));
  EXPECT_EQ(c.last_retry(), retry_result::scheduled);
  on.advance(100ms + slack());
  ASSERT_EQ(c.sent.size(), 3U);
  EXPECT_EQ(c.sent[2].number, 3U);
  EXPECT_FALSE(c.sent[2].is_hedge);
  on.advance(900ms);
  EXPECT_EQ(c.sent.size(), 3U) << "one hedge for a call";
}

TEST_F(call_policy_hedge, both_may_fail_while_it_is_sent) {
  c.on_send = [&](auto a) -> int {
    if (!a.is_hedge) return 0;
    EXPECT_TRUE(on.calls.fail(c.sent[0].id, UV_EAGAIN));
    EXPECT_EQ(c.last_retry(), retry_result::not_started);
    return UV_EPIPE;
  };
  ASSERT_EQ(on.calls.start(c), 0);
  on.advance(200ms + slack());
  EXPECT_EQ(c.last_retry(), retry_result::scheduled);
  EXPECT_EQ(c.failed, 0);
}

TEST_F(call_policy_hedge, fail_all_fails_both) {
  start_and_hedge();
  EXPECT_EQ(on.calls.fail_all(UV_ECONNRESET), 2U);
  EXPECT_EQ(c.last_retry(), retry_result::scheduled);
  EXPECT_EQ(on.calls.stats().retries, 0U);
  on.advance(100ms + slack());
  EXPECT_EQ(c.sent.size(), 3U) << "one retry, not two";
}

TEST_F(call_policy_hedge, server_that_says_when_to_retry_is_heard_of_either) {
  start_and_hedge();
  EXPECT_TRUE(on.calls.fail(c.sent[0].id, UV_EAGAIN, 3s));
  EXPECT_TRUE(on.calls.fail(c.sent[1].id, UV_EAGAIN));
  on.advance(3s - 1ns);
  EXPECT_EQ(c.sent.size(), 2U);
  on.advance(1ns + on.tick());
  EXPECT_EQ(c.sent.size(), 3U);
}

TEST_F(call_policy_hedge, failed_first_attempt_is_retried_instead) {
  ASSERT_EQ(on.calls.start(c), 0);
  on.advance(150ms);
  EXPECT_TRUE(on.calls.fail(c.id(), UV_EAGAIN));
  on.advance(99ms);
  EXPECT_EQ(c.sent.size(), 1U);
  on.advance(1ms + on.tick());
  ASSERT_EQ(c.sent.size(), 2U);
  EXPECT_FALSE(c.sent[1].is_hedge);
  on.advance(900ms);
  EXPECT_EQ(c.sent.size(), 2U) << "a retry has no hedge";
}

TEST_F(call_policy_hedge, counts_in_max_attempts) {
  for (const unsigned most : {1U, 2U, 3U}) {
    policy_client own{hedging([&](auto& o) { o.max_attempts = most; })};
    policed_call one{own.timers};
    ASSERT_EQ(own.calls.start(one), 0);
    own.advance(1h);
    EXPECT_EQ(one.sent.size(), most);
    EXPECT_EQ(one.failed, 1);
    EXPECT_EQ(own.calls.stats().hedges, most == 1 ? 0U : 1U);
  }
}

TEST_F(call_policy_hedge, takes_a_token_only_when_it_begins) {
  ASSERT_EQ(on.calls.start(c), 0);
  on.advance(100ms);
  ASSERT_EQ(on.calls.complete(c.id()), &c);
  EXPECT_EQ(on.calls.budget().withdrawn(), 0U);
  c.sent.clear();
  start_and_hedge();
  EXPECT_EQ(on.calls.budget().withdrawn(), 1U);
}

TEST_F(call_policy_hedge, without_token_is_not_begun) {
  policy_client own{hedging([](auto& o) { o.budget = {.percent = 1, .max_tokens = 1}; })};
  policed_call first{own.timers}, second{own.timers};
  ASSERT_EQ(own.calls.start(first), 0);
  ASSERT_EQ(own.calls.start(second), 0);
  own.advance(200ms + slack());
  EXPECT_EQ(first.sent.size() + second.sent.size(), 3U);
  EXPECT_EQ(own.calls.stats().hedges, 1U);
  EXPECT_EQ(own.calls.stats().hedges_refused, 1U);
  own.advance(799ms);
  EXPECT_EQ(first.sent.size() + second.sent.size(), 3U) << "it is not tried again";
  EXPECT_TRUE(first.pending() && second.pending());
}

TEST_F(call_policy_hedge, is_not_begun_if_first_attempt_would_expire) {
  for (const auto attempt : {200ms - 1ns, nanoseconds{200ms}, 200ms + 1ns}) {
    policy_client own{hedging([&](auto& o) {
      o.attempt_timeout = attempt;
      o.max_attempts = 2;
      o.backoff = {.base = 1s, .cap = 1s, .kind = tickwheel::jitter_kind::none};
    })};
    policed_call one{own.timers};
    ASSERT_EQ(own.calls.start(one), 0);
    if (attempt <= 200ms) {
      EXPECT_EQ(own.timers.stats().pending, 1U);
    }
    own.advance(1h);
    EXPECT_EQ(one.sent.size(), 2U);
    EXPECT_EQ(one.failed, 1);
    if (attempt <= 200ms) {
      EXPECT_EQ(own.calls.stats().hedges, 0U);
    }
  }
}

TEST_F(call_policy_hedge, is_not_begun_after_deadline_of_call) {
  ASSERT_EQ(on.calls.start(c, on.in(200ms)), 0);
  EXPECT_EQ(on.timers.stats().pending, 1U);
  on.advance(1h);
  EXPECT_EQ(c.sent.size(), 1U);
  EXPECT_EQ(c.failed, 1);
}

TEST_F(call_policy_hedge, full_service_makes_call_without_it) {
  policy_client own{hedging(), {.max_armed = 1}};
  policed_call one{own.timers};
  ASSERT_EQ(own.calls.start(one), 0);
  EXPECT_EQ(own.calls.stats().hedges_refused, 1U);
  own.advance(500ms);
  EXPECT_EQ(one.sent.size(), 1U);
  EXPECT_EQ(own.calls.budget().withdrawn(), 0U);
  EXPECT_EQ(own.calls.complete(one.id()), &one);
}

TEST_F(call_policy_hedge, full_service_when_due_takes_no_token) {
  policy_client own{hedging(), {.max_armed = 2}};
  policed_call one{own.timers};
  ASSERT_EQ(own.calls.start(one), 0);
  ASSERT_EQ(own.timers.remote().post(1h, []() noexcept {}), 0);  // those are never refused later
  own.advance(200ms + slack());
  EXPECT_EQ(one.sent.size(), 1U);
  EXPECT_EQ(own.calls.stats().hedges_refused, 1U);
  EXPECT_EQ(own.calls.budget().withdrawn(), 0U);
  EXPECT_TRUE(one.pending());
}

TEST_F(call_policy_hedge, delay_is_fixed_until_100_answers) {
  on.answer(99, 10ms);
  EXPECT_EQ(on.calls.hedge_delay(), 200ms);
  on.answer(1, 10ms);
  EXPECT_EQ(on.calls.hedge_delay(), 10ms);
}

TEST_F(call_policy_hedge, delay_is_quantile_of_last_1024_answers) {
  for (const double share : {0.5, 0.9, 1.0}) {
    policy_client own{hedging([&](auto& o) { o.hedge_quantile = share; })};
    own.answer(102, 30ms);
    own.answer(922, 10ms);
    EXPECT_EQ(own.calls.hedge_delay(), share == 1.0 ? 30ms : 10ms);
    own.answer(1, 30ms);  // the oldest of 30 ms has left
    EXPECT_EQ(own.calls.hedge_delay(), share == 1.0 ? 30ms : 10ms);
    own.answer(102, 20ms);
    EXPECT_EQ(own.calls.hedge_delay(), share == 0.5 ? 10ms : share == 0.9 ? 20ms : 30ms);
    own.answer(1023, 5ms);
    own.answer(1, 5ms);
    EXPECT_EQ(own.calls.hedge_delay(), 5ms);
  }
}

TEST_F(call_policy_hedge, begins_after_quantile) {
  on.answer(100, 30ms);
  const auto begin = on.time.now();
  ASSERT_EQ(on.calls.start(c), 0);
  on.advance(30ms + slack());
  ASSERT_EQ(c.sent.size(), 2U);
  EXPECT_GE(c.sent_at[1], begin + 30ms);
}

TEST_F(call_policy_hedge, answers_in_no_time_have_delay_of_zero) {
  c.on_send = [&](auto a) -> int {
    EXPECT_EQ(on.calls.complete(a.id), &c);
    return 0;
  };
  for (int i = 0; i < 100; ++i) ASSERT_EQ(on.calls.start(c), 0);
  EXPECT_EQ(on.calls.hedge_delay(), 0ns);
  c.on_send = {};
  ASSERT_EQ(on.calls.start(c), 0);
  EXPECT_FALSE(c.sent.back().is_hedge) << "never within start";
  on.advance(1ms);
  EXPECT_TRUE(c.sent.back().is_hedge);
}

TEST_F(call_policy_hedge, won_answer_counts_from_first_attempt) {
  policy_client own{hedging([](auto& o) {
    o.hedge_quantile = 1;
    o.budget.percent = 100;
    o.budget.max_tokens = 200;
  })};
  policed_call one{own.timers};
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(own.calls.start(one), 0);
    own.time.advance(250ms);
    ASSERT_TRUE(one.sent.back().is_hedge);
    ASSERT_EQ(own.calls.complete(one.id()), &one);
  }
  EXPECT_EQ(own.calls.hedge_delay(), 250ms) << "not the 50 ms of the hedge";
}

TEST_F(call_policy_hedge, answer_alone_counts_from_its_own_attempt) {
  policy_client own{hedging([](auto& o) {
    o.hedge_quantile = 1;
    o.budget.percent = 300;
    o.budget.max_tokens = 500;
  })};
  policed_call one{own.timers};
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(own.calls.start(one), 0);
    ASSERT_TRUE(own.calls.fail(one.id(), UV_EAGAIN));
    own.time.advance(150ms);
    ASSERT_EQ(one.sent.back().number, 2U);
    ASSERT_EQ(own.calls.complete(one.id()), &one);
  }
  EXPECT_LE(own.calls.hedge_delay(), 50ms) << "not the 150 ms of the call";
  EXPECT_GE(own.calls.hedge_delay(), 50ms - own.tick());
}

TEST_F(call_policy_hedge, failures_are_no_answers) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(on.calls.start(c, on.in(10ms)), 0);
    on.time.advance(20ms);
  }
  EXPECT_EQ(c.failed, 200);
  EXPECT_EQ(on.calls.hedge_delay(), 200ms);
}

TEST_F(call_policy_hedge, open_forgets_answers) {
  on.answer(100, 30ms);
  on.calls.close();
  EXPECT_EQ(on.calls.hedge_delay(), nanoseconds::max());
  ASSERT_EQ(on.calls.open(hedging()), 0);
  EXPECT_EQ(on.calls.hedge_delay(), 200ms);
}

// A hedge is no answer to our own lateness: answers that wait in the socket are read first.
TEST_F(call_policy_hedge, answer_before_pass_of_late_loop_prevents_it) {
  ASSERT_EQ(on.calls.start(c), 0);
  on.time.block(400ms);
  EXPECT_EQ(on.calls.complete(c.id()), &c);
  on.advance(1h);
  EXPECT_EQ(c.sent.size(), 1U);
  EXPECT_EQ(on.calls.budget().withdrawn(), 0U);
}

TEST_F(call_policy_hedge, its_attempt_may_end_or_destroy_all) {
  for (int how = 0; how < 5; ++how) {
    for (const int answer : {0, int{UV_EPIPE}}) {
      mortal_service own;
      auto calls = std::make_unique<policy>();
      ASSERT_EQ(calls->open(hedging()), 0);
      auto one = std::make_unique<policed_call>(*own.timers);
      const policed_call* const address = one.get();
      one->on_send = [&, answer](auto a) -> int {
        const int error = answer;  // before the callable is destroyed
        if (!a.is_hedge) return 0;
        if (how == 0) {
          EXPECT_EQ(calls->complete(a.id), address);
        }
        if (how == 1) one->cancel();
        if (how == 2) one.reset();
        if (how == 3) calls.reset();
        if (how == 4) {
          one->cancel();
          own.timers.reset();
        }
        return error;
      };
      ASSERT_EQ(calls->start(*one), 0);
      own.time.advance(1h);
      if (one) {
        EXPECT_EQ(one->failed, 0);
        EXPECT_FALSE(one->pending());
        EXPECT_EQ(one->sent.size(), 2U);
      }
    }
  }
}

}  // namespace
