// Calls that are attempted again, on a clock turned by hand: attempts, limits, results and ends.
#include <tickwheel/net/call_policy.hpp>

#include "../../support/allocation_probe.hpp"
#include "../support/policy_client.hpp"

#include <tickwheel/uv/remote.hpp>

namespace {

using tickwheel::call_policy_options;
using tickwheel::deadline;
using tickwheel::retry_budget;
using tickwheel::retry_result;

/// `exact_policy`, changed.
template <class Change>
call_policy_options with(Change change) {
  call_policy_options changed = exact_policy;
  change(changed);
  return changed;
}

struct call_policy : testing::Test {
  policy_client on;
  policed_call c{on.timers};

  std::chrono::nanoseconds slack() const { return 2 * on.tick(); }
};
struct call_policy_start : call_policy {};
struct call_policy_retry : call_policy {};
struct call_policy_end : call_policy {};

TEST_F(call_policy, start_makes_first_attempt) {
  ASSERT_EQ(on.calls.start(c), 0);
  ASSERT_EQ(c.sent.size(), 1U);
  EXPECT_EQ(c.sent[0].number, 1U);
  EXPECT_FALSE(c.sent[0].is_hedge);
  EXPECT_EQ(c.sent[0].until, on.in(1s));
  EXPECT_EQ(c.until(), on.in(10s));
  EXPECT_TRUE(c.pending());
  EXPECT_EQ(c.attempts(), 1U);
  EXPECT_EQ(on.calls.pending(), 1U);
}

TEST_F(call_policy, answer_completes_call) {
  ASSERT_EQ(on.calls.start(c), 0);
  EXPECT_EQ(on.calls.find(c.id()), &c);
  EXPECT_EQ(on.calls.complete(c.id()), &c);
  EXPECT_FALSE(c.pending());
  EXPECT_FALSE(on.time.alive());
  on.advance(1h);
  EXPECT_EQ(c.failed, 0);
  EXPECT_EQ(c.sent.size(), 1U);
  EXPECT_EQ(on.calls.stats().answered, 1U);
  EXPECT_EQ(on.calls.pending(), 0U);
}

TEST_F(call_policy, repeated_answer_is_unmatched) {
  ASSERT_EQ(on.calls.start(c), 0);
  ASSERT_EQ(on.calls.complete(c.id()), &c);
  EXPECT_EQ(on.calls.complete(c.id()), nullptr);
  EXPECT_EQ(on.calls.find(c.id()), nullptr);
  EXPECT_FALSE(on.calls.fail(c.id(), UV_EAGAIN));
  EXPECT_EQ(on.calls.stats().unmatched, 2U);
}

TEST_F(call_policy, answer_of_expired_attempt_is_unmatched) {
  ASSERT_EQ(on.calls.start(c), 0);
  on.advance(1s + slack());
  EXPECT_EQ(on.calls.complete(c.sent[0].id), nullptr);
  EXPECT_TRUE(c.pending()) << "it waits for its next attempt";
  EXPECT_EQ(on.calls.stats().expired, 1U);
  on.advance(100ms + slack());
  ASSERT_EQ(c.sent.size(), 2U);
  EXPECT_EQ(on.calls.complete(c.sent[0].id), nullptr);
  EXPECT_EQ(on.calls.complete(c.sent[1].id), &c);
  EXPECT_EQ(c.failed, 0);
}

TEST_F(call_policy, ids_of_attempts_are_never_used_again) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(on.calls.start(c), 0);
    on.advance(1h);
  }
  for (std::size_t i = 0; i < c.sent.size(); ++i) EXPECT_EQ(c.sent[i].id, i + 1);
  EXPECT_EQ(c.sent.size(), 9U);
}

TEST_F(call_policy, attempt_expires_and_not_early) {
  ASSERT_EQ(on.calls.start(c), 0);
  on.advance(1s - 1ns);
  EXPECT_NE(on.calls.find(c.id()), nullptr);
  on.advance(1ns + on.tick());
  EXPECT_EQ(on.calls.find(c.id()), nullptr);
}

TEST_F(call_policy, call_tells_when_something_happens_next) {
  const auto begin = on.time.now();
  EXPECT_EQ(c.due_at(), tickwheel::clock::time_point::max());
  ASSERT_EQ(on.calls.start(c), 0);
  EXPECT_GE(c.due_at(), begin + 1s);
  EXPECT_LT(c.due_at(), begin + 1s + on.tick());
  ASSERT_TRUE(on.calls.fail(c.id(), UV_EAGAIN));
  EXPECT_GE(c.due_at(), begin + 100ms);
  EXPECT_LT(c.due_at(), begin + 100ms + on.tick());
  c.cancel();
  EXPECT_EQ(c.due_at(), tickwheel::clock::time_point::max());
}

TEST_F(call_policy_start, deadline_shortens_total_timeout) {
  ASSERT_EQ(on.calls.start(c, on.in(3s)), 0);
  EXPECT_EQ(c.until(), on.in(3s));
  policed_call other{on.timers};
  ASSERT_EQ(on.calls.start(other, on.in(11s)), 0);
  EXPECT_EQ(other.until(), on.in(10s));
}

TEST_F(call_policy_start, attempt_has_no_more_time_than_call) {
  ASSERT_EQ(on.calls.start(c, on.in(300ms)), 0);
  EXPECT_EQ(c.sent[0].until, on.in(300ms));
  on.advance(300ms - 1ns);
  EXPECT_EQ(c.failed, 0);
  on.advance(1ns + on.tick());
  EXPECT_EQ(c.failed, 1);
  EXPECT_EQ(c.error, UV_ETIMEDOUT);
  EXPECT_EQ(c.last_retry(), retry_result::past_deadline);
  EXPECT_EQ(c.sent.size(), 1U);
}

TEST_F(call_policy_start, without_limits_waits_for_answer) {
  policy_client own{with([](auto& o) { o.attempt_timeout = o.total_timeout = std::chrono::nanoseconds::max(); })};
  policed_call one{own.timers};
  ASSERT_EQ(own.calls.start(one), 0);
  EXPECT_TRUE(one.sent[0].until.is_never());
  own.advance(24h * 365);
  EXPECT_EQ(own.calls.complete(one.id()), &one);
}

TEST_F(call_policy_start, passed_deadline_is_refused_without_attempt) {
  EXPECT_EQ(on.calls.start(c, on.in(0s)), UV_ETIMEDOUT);
  EXPECT_EQ(on.calls.start(c, on.in(-1s)), UV_ETIMEDOUT);
  EXPECT_TRUE(c.sent.empty());
  EXPECT_FALSE(c.pending());
  EXPECT_EQ(on.calls.stats().refused, 2U);
  EXPECT_EQ(on.calls.stats().started, 0U);
  EXPECT_FALSE(on.time.alive());
}

TEST_F(call_policy_start, pending_call_is_refused) {
  policy other;
  ASSERT_EQ(other.open(exact_policy), 0);
  ASSERT_EQ(on.calls.start(c), 0);
  EXPECT_EQ(on.calls.start(c), UV_EALREADY);
  EXPECT_EQ(other.start(c), UV_EALREADY);
  EXPECT_EQ(c.sent.size(), 1U);
  ASSERT_TRUE(on.calls.fail(c.id(), UV_EAGAIN));
  EXPECT_EQ(on.calls.start(c), UV_EALREADY) << "it waits for its second attempt";
  c.cancel();
  EXPECT_EQ(other.start(c), 0) << "a call may change its policy";
}

TEST_F(call_policy_start, one_more_than_capacity_is_refused) {
  for (const double quantile : {0.0, 0.5}) {
    policy_client own{with([&](auto& o) {
      o.capacity = 2;
      o.hedge_quantile = quantile;
    })};
    policed_call a{own.timers}, b{own.timers}, more{own.timers};
    EXPECT_EQ(own.calls.capacity(), 2U);
    ASSERT_EQ(own.calls.start(a), 0);
    ASSERT_EQ(own.calls.start(b), 0);
    EXPECT_EQ(own.calls.start(more), UV_ENOBUFS);
    ASSERT_TRUE(own.calls.fail(a.id(), UV_EAGAIN));
    EXPECT_EQ(own.calls.start(more), UV_ENOBUFS) << "a call between two attempts counts";
    EXPECT_TRUE(more.sent.empty());
    a.cancel();
    EXPECT_EQ(own.calls.start(more), 0);
    own.advance(500ms);
    EXPECT_EQ(own.calls.stats().hedges, quantile == 0 ? 0U : 2U) << "hedges have places of their own";
  }
}

TEST_F(call_policy_start, refused_start_deposits_nothing) {
  retry_budget budget{{.percent = 100, .max_tokens = 10}};
  while (budget.withdraw(on.timers.now())) {
  }
  policy_client own{with([&](auto& o) { o.shared_budget = &budget; }), {.max_armed = 1}};
  policed_call one{own.timers}, more{own.timers};
  EXPECT_EQ(own.calls.start(more, own.in(0s)), UV_ETIMEDOUT);
  EXPECT_EQ(budget.available(own.timers.now()), 0U);
  ASSERT_EQ(own.calls.start(one), 0);
  EXPECT_EQ(own.calls.start(more), UV_ENOBUFS);
  EXPECT_EQ(budget.available(own.timers.now()), 1U);
}

TEST_F(call_policy_start, error_of_first_attempt_is_retried) {
  c.on_send = [](auto a) { return a.number == 1 ? UV_EPIPE : 0; };
  ASSERT_EQ(on.calls.start(c), 0);
  EXPECT_TRUE(c.pending());
  EXPECT_EQ(on.calls.find(1), nullptr);
  on.advance(100ms + slack());
  ASSERT_EQ(c.sent.size(), 2U);
  EXPECT_EQ(on.calls.complete(c.id()), &c);
}

TEST_F(call_policy_start, answers_error_of_first_attempt_that_is_the_last) {
  policy_client own{with([](auto& o) { o.max_attempts = 1; })};
  policed_call one{own.timers};
  one.on_send = [](auto) { return UV_EPIPE; };
  EXPECT_EQ(own.calls.start(one), UV_EPIPE);
  EXPECT_FALSE(one.pending());
  EXPECT_EQ(one.last_retry(), retry_result::out_of_attempts);
  own.advance(1h);
  EXPECT_EQ(one.failed, 0) << "the caller knows";
  EXPECT_EQ(own.calls.stats().started, 1U);
  EXPECT_EQ(own.calls.stats().failed, 1U);
  EXPECT_EQ(own.calls.stats().refused, 0U);
}

TEST_F(call_policy_start, attempt_may_be_answered_before_it_returns) {
  for (const int answer : {0, int{UV_EPIPE}}) {
    c.on_send = [&](auto a) -> int {
      EXPECT_EQ(on.calls.complete(a.id), &c);
      return answer;
    };
    EXPECT_EQ(on.calls.start(c), 0);
    EXPECT_FALSE(c.pending());
  }
  on.advance(1h);
  EXPECT_EQ(c.failed, 0);
  EXPECT_EQ(on.calls.stats().answered, 2U);
}

TEST_F(call_policy_start, attempt_may_fail_before_it_returns) {
  c.on_send = [&](auto a) -> int {
    on.calls.fail(a.id, UV_EPIPE);
    return UV_EINVAL;  // it has failed already
  };
  EXPECT_EQ(on.calls.start(c), 0);
  on.advance(1h);
  EXPECT_EQ(c.sent.size(), 3U);
  EXPECT_EQ(c.failed, 1);
  EXPECT_EQ(c.error, UV_EPIPE);
}

TEST_F(call_policy_start, attempt_may_cancel_or_destroy_call) {
  auto gone = std::make_unique<policed_call>(on.timers);
  for (const int answer : {0, int{UV_EPIPE}}) {
    c.on_send = [&](auto) -> int {
      EXPECT_TRUE(c.cancel());
      return answer;
    };
    EXPECT_EQ(on.calls.start(c), 0);
    EXPECT_FALSE(c.pending());

    gone = std::make_unique<policed_call>(on.timers);
    gone->on_send = [&gone, answer](auto) {
      const int error = answer;  // before the callable is destroyed
      gone.reset();
      return error;
    };
    EXPECT_EQ(on.calls.start(*gone), 0);
    EXPECT_EQ(gone, nullptr);
  }
  on.advance(1h);
  EXPECT_EQ(c.failed, 0);
  EXPECT_EQ(on.calls.stats().cancelled, 4U);
}

TEST_F(call_policy_start, attempt_may_start_its_call_anew) {
  c.on_send = [&](auto a) -> int {
    if (a.id != 1) return 0;
    c.cancel();
    EXPECT_EQ(on.calls.start(c), 0);
    return UV_EPIPE;  // of the first start
  };
  EXPECT_EQ(on.calls.start(c), 0);
  EXPECT_TRUE(c.pending());
  EXPECT_EQ(on.calls.complete(2), &c);
}

TEST_F(call_policy_start, attempt_may_close_or_destroy_policy) {
  for (const int how : {0, 1, 2}) {
    auto own = std::make_unique<policy>();
    ASSERT_EQ(own->open(exact_policy), 0);
    policed_call one{on.timers}, other{on.timers};
    ASSERT_EQ(own->start(other), 0);
    one.on_send = [&](auto) -> int {
      if (how == 2) {
        own.reset();
      } else {
        own->close();
        if (how == 1) {
          EXPECT_EQ(own->open(exact_policy), 0);
        }
      }
      return UV_EPIPE;
    };
    EXPECT_EQ(own->start(one), 0);
    EXPECT_FALSE(one.pending());
    EXPECT_FALSE(other.pending());
    on.advance(1h);
    EXPECT_EQ(one.failed + other.failed, 0);
  }
}

TEST_F(call_policy_retry, failure_is_retried_after_backoff) {
  const auto begin = on.time.now();
  ASSERT_EQ(on.calls.start(c), 0);
  EXPECT_TRUE(on.calls.fail(c.id(), UV_EAGAIN));
  EXPECT_EQ(c.last_retry(), retry_result::scheduled);
  on.advance(100ms - 1ns);
  EXPECT_EQ(c.sent.size(), 1U);
  on.advance(1ns + on.tick());
  ASSERT_EQ(c.sent.size(), 2U);
  EXPECT_EQ(c.sent[1].number, 2U);
  EXPECT_FALSE(c.sent[1].is_hedge);
  EXPECT_GE(c.sent_at[1], begin + 100ms);
  EXPECT_EQ(c.sent[1].until, deadline::at(c.sent_at[1] + 1s));
  EXPECT_EQ(on.calls.stats().retries, 1U);
}

TEST_F(call_policy_retry, delays_grow_and_begin_anew_with_each_start) {
  policy_client own{with([](auto& o) {
    o.max_attempts = 5;
    o.total_timeout = 1h;
  })};
  policed_call one{own.timers};
  one.on_send = [](auto) { return UV_EPIPE; };
  for (int round = 0; round < 2; ++round) {
    one.sent_at.clear();
    ASSERT_EQ(own.calls.start(one), 0);
    own.advance(1h);
    ASSERT_EQ(one.sent_at.size(), 5U);
    const std::chrono::nanoseconds delays[]{100ms, 200ms, 400ms, 800ms};
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_GE(one.sent_at[i + 1] - one.sent_at[i], delays[i]);
      EXPECT_LE(one.sent_at[i + 1] - one.sent_at[i], delays[i] + own.tick());
    }
    EXPECT_EQ(one.failed, round + 1);
  }
}

TEST_F(call_policy_retry, same_seed_gives_same_delays) {
  std::vector<tickwheel::clock::time_point> sent_at[3];
  for (std::size_t i = 0; i < 3; ++i) {
    policy_client own{with([&](auto& o) {
      o.backoff = {};
      o.seed = i == 2 ? 8 : 7;
    })};
    policed_call one{own.timers};
    one.on_send = [](auto) { return UV_EPIPE; };
    ASSERT_EQ(own.calls.start(one), 0);
    own.advance(1h);
    sent_at[i] = one.sent_at;
  }
  EXPECT_EQ(sent_at[0], sent_at[1]);
  EXPECT_NE(sent_at[0], sent_at[2]);
}

TEST_F(call_policy_retry, makes_no_more_than_max_attempts) {
  for (const unsigned most : {1U, 2U, 7U}) {
    policy_client own{with([&](auto& o) {
      o.max_attempts = most;
      o.total_timeout = 1h;
    })};
    policed_call one{own.timers};
    ASSERT_EQ(own.calls.start(one), 0);
    own.advance(1h);
    EXPECT_EQ(one.sent.size(), most);
    EXPECT_EQ(one.attempts(), most);
    EXPECT_EQ(one.failed, 1);
    EXPECT_EQ(one.error, UV_ETIMEDOUT);
    EXPECT_EQ(one.last_retry(), retry_result::out_of_attempts);
    EXPECT_EQ(own.calls.stats().expired, most);
  }
}

TEST_F(call_policy_retry, unlimited_attempts_go_on) {
  policy_client own{with([](auto& o) {
    o.max_attempts = call_policy_options::unlimited;
    o.total_timeout = std::chrono::nanoseconds::max();
    o.budget.percent = 100;
    o.budget.max_tokens = 1000;
  })};
  policed_call one{own.timers};
  one.on_send = [](auto) { return UV_EPIPE; };
  ASSERT_EQ(own.calls.start(one), 0);
  own.advance(900s);
  EXPECT_GT(one.attempts(), 890U);
  EXPECT_TRUE(one.pending());
}

TEST_F(call_policy_retry, failed_gets_error_of_last_attempt) {
  ASSERT_EQ(on.calls.start(c), 0);
  for (const int error : {UV_EAGAIN, UV_EPIPE}) {
    ASSERT_TRUE(on.calls.fail(c.id(), error));
    on.advance(300ms);
  }
  ASSERT_EQ(c.sent.size(), 3U);
  EXPECT_EQ(c.failed, 0);
  EXPECT_TRUE(on.calls.fail(c.id(), UV_ECONNRESET));
  EXPECT_EQ(c.failed, 1) << "within fail";
  EXPECT_EQ(c.error, UV_ECONNRESET);
}

TEST_F(call_policy_retry, attempt_beyond_deadline_is_given_up_at_once) {
  ASSERT_EQ(on.calls.start(c, on.in(100ms)), 0);
  ASSERT_TRUE(on.calls.fail(c.id(), UV_EAGAIN));
  EXPECT_EQ(c.failed, 1);
  EXPECT_EQ(c.error, UV_EAGAIN);
  EXPECT_EQ(c.last_retry(), retry_result::past_deadline);
}

TEST_F(call_policy_retry, attempt_just_before_deadline_is_made) {
  ASSERT_EQ(on.calls.start(c, on.in(100ms + 2 * on.tick())), 0);
  ASSERT_TRUE(on.calls.fail(c.id(), UV_EAGAIN));
  EXPECT_EQ(c.last_retry(), retry_result::scheduled);
  on.advance(100ms + on.tick());
  ASSERT_EQ(c.sent.size(), 2U);
  EXPECT_EQ(c.sent[1].until, c.until());
}

TEST_F(call_policy_retry, late_loop_ends_call_before_its_next_attempt) {
  ASSERT_EQ(on.calls.start(c, on.in(500ms)), 0);
  ASSERT_TRUE(on.calls.fail(c.id(), UV_EAGAIN));
  on.time.block(500ms);
  on.advance(1s);
  EXPECT_EQ(c.sent.size(), 1U);
  EXPECT_EQ(c.failed, 1);
  EXPECT_EQ(c.error, UV_ETIMEDOUT);
  EXPECT_EQ(c.last_retry(), retry_result::past_deadline);
  EXPECT_EQ(on.calls.stats().attempts, 1U);
}

TEST_F(call_policy_retry, begins_no_earlier_than_server_says) {
  ASSERT_EQ(on.calls.start(c), 0);
  ASSERT_TRUE(on.calls.fail(c.id(), UV_EAGAIN, 3s));
  on.advance(3s - 1ns);
  EXPECT_EQ(c.sent.size(), 1U);
  on.advance(1ns + on.tick());
  EXPECT_EQ(c.sent.size(), 2U);
  ASSERT_TRUE(on.calls.fail(c.id(), UV_EAGAIN, 1h));
  EXPECT_EQ(c.last_retry(), retry_result::past_deadline);
  ASSERT_EQ(on.calls.start(c), 0);
  ASSERT_TRUE(on.calls.fail(c.id(), UV_EAGAIN));
  EXPECT_EQ(c.last_retry(), retry_result::scheduled) << "a new call knows nothing of it";
}

TEST_F(call_policy_retry, empty_budget_allows_no_retry) {
  policy_client own{with([](auto& o) { o.budget = {.percent = 50, .max_tokens = 1}; })};
  const auto fail_one = [&] {
    policed_call one{own.timers};
    EXPECT_EQ(own.calls.start(one), 0);
    EXPECT_TRUE(own.calls.fail(one.id(), UV_EAGAIN));
    EXPECT_EQ(one.failed, one.last_retry() == retry_result::scheduled ? 0 : 1);
    return one.last_retry();
  };
  EXPECT_EQ(fail_one(), retry_result::scheduled);
  EXPECT_EQ(fail_one(), retry_result::out_of_budget) << "half a token was earned";
  EXPECT_EQ(fail_one(), retry_result::scheduled);
  EXPECT_EQ(own.calls.budget().withdrawn(), 2U);
  EXPECT_EQ(own.calls.budget().refused(), 1U);
}

TEST_F(call_policy_retry, refused_retry_takes_no_token) {
  policy_client own{with([](auto& o) { o.max_attempts = 2; })};
  policed_call one{own.timers};
  one.on_send = [](auto) { return UV_EPIPE; };
  ASSERT_EQ(own.calls.start(one), 0);
  own.advance(1s);
  EXPECT_EQ(one.last_retry(), retry_result::out_of_attempts);
  ASSERT_EQ(own.calls.start(one, own.in(100ms)), UV_EPIPE);
  EXPECT_EQ(one.last_retry(), retry_result::past_deadline);
  EXPECT_EQ(own.calls.budget().withdrawn(), 1U);
}

TEST_F(call_policy_retry, shared_budget_limits_all_policies) {
  retry_budget budget{{.percent = 1, .max_tokens = 1}};
  policy_client own{with([&](auto& o) { o.shared_budget = &budget; })};
  policy other;
  ASSERT_EQ(other.open(with([&](auto& o) { o.shared_budget = &budget; })), 0);
  EXPECT_EQ(&own.calls.budget(), &budget);
  policed_call a{own.timers}, b{own.timers};
  ASSERT_EQ(own.calls.start(a), 0);
  ASSERT_EQ(other.start(b), 0);
  ASSERT_TRUE(own.calls.fail(a.id(), UV_EAGAIN));
  ASSERT_TRUE(other.fail(b.id(), UV_EAGAIN));
  EXPECT_EQ(a.last_retry(), retry_result::scheduled);
  EXPECT_EQ(b.last_retry(), retry_result::out_of_budget);
}

TEST_F(call_policy_retry, full_service_ends_call) {
  policy_client own{exact_policy, {.max_armed = 1}};
  policed_call one{own.timers};
  probe in_place{own.timers};
  one.then = [&] { EXPECT_EQ(one.error, UV_EAGAIN); };
  ASSERT_EQ(own.calls.start(one), 0);
  one.on_send = [&](auto) -> int {
    ADD_FAILURE() << "there is no place for its timer";
    return 0;
  };
  ASSERT_TRUE(own.calls.fail(one.id(), UV_EAGAIN));
  EXPECT_EQ(one.last_retry(), retry_result::scheduled) << "it has the place of its attempt";
  EXPECT_EQ(in_place.timeout.arm(1h), UV_ENOBUFS);
  // Timers of other threads are not refused once they were accepted.
  ASSERT_EQ(own.timers.remote().post(1h, []() noexcept {}), 0);
  one.then = [&] { EXPECT_EQ(one.error, UV_ENOBUFS); };
  own.advance(200ms);
  EXPECT_EQ(one.failed, 1);
  EXPECT_EQ(one.last_retry(), retry_result::limit_reached);
}

TEST_F(call_policy_retry, fail_all_retries_each_waiting_call) {
  std::deque<policed_call> all;
  for (int i = 0; i < 50; ++i) ASSERT_EQ(on.calls.start(all.emplace_back(on.timers)), 0);
  ASSERT_TRUE(on.calls.fail(all[0].id(), UV_EAGAIN));
  EXPECT_EQ(on.calls.fail_all(UV_ECONNRESET), 49U) << "one waits for its next attempt";
  on.check_calls();
  EXPECT_EQ(on.calls.pending(), 50U);
  on.advance(100ms + slack());
  for (const policed_call& one : all) EXPECT_EQ(one.sent.size(), 2U);
}

TEST_F(call_policy_retry, fail_all_ends_calls_without_retry) {
  policy_client own{with([](auto& o) { o.max_attempts = 1; })};
  std::deque<policed_call> all;
  for (int i = 0; i < 50; ++i) {
    policed_call& one = all.emplace_back(own.timers);
    one.then = [&] { EXPECT_EQ(own.calls.start(one), 0); };
    ASSERT_EQ(own.calls.start(one), 0);
  }
  EXPECT_EQ(own.calls.fail_all(UV_ECONNRESET), 50U);
  own.check_calls();
  for (const policed_call& one : all) {
    EXPECT_EQ(one.failed, 1);
    EXPECT_TRUE(one.pending()) << "started anew by the handler";
  }
}

TEST_F(call_policy_retry, fail_all_stops_when_handler_destroys_policy) {
  auto own = std::make_unique<policy>();
  ASSERT_EQ(own->open(with([](auto& o) { o.max_attempts = 1; })), 0);
  std::deque<policed_call> all;
  for (int i = 0; i < 8; ++i) {
    policed_call& one = all.emplace_back(on.timers);
    one.then = [&] { own.reset(); };
    ASSERT_EQ(own->start(one), 0);
  }
  EXPECT_EQ(own->fail_all(UV_ECONNRESET), 1U);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const auto& one) { return one.failed == 1; }), 1);
}

TEST_F(call_policy_end, cancel_ends_call_in_each_state) {
  ASSERT_EQ(on.calls.start(c), 0);
  EXPECT_TRUE(c.cancel());
  EXPECT_FALSE(c.cancel());
  ASSERT_EQ(on.calls.start(c), 0);
  ASSERT_TRUE(on.calls.fail(c.id(), UV_EAGAIN));
  EXPECT_TRUE(c.cancel());
  EXPECT_FALSE(on.time.alive());
  on.advance(1h);
  EXPECT_EQ(c.sent.size(), 2U);
  EXPECT_EQ(c.failed, 0);
  EXPECT_EQ(on.calls.stats().cancelled, 2U);
  EXPECT_EQ(on.calls.complete(1), nullptr);
}

TEST_F(call_policy_end, destroyed_call_is_cancelled) {
  for (const bool waits : {false, true}) {
    policed_call one{on.timers};
    ASSERT_EQ(on.calls.start(one), 0);
    if (waits) on.calls.fail(one.id(), UV_EAGAIN);
  }
  EXPECT_EQ(on.calls.pending(), 0U);
  EXPECT_EQ(on.calls.stats().cancelled, 2U);
  EXPECT_FALSE(on.time.alive());
  on.advance(1h);
}

TEST_F(call_policy_end, handler_may_destroy_start_or_end_calls) {
  auto gone = std::make_unique<policed_call>(on.timers);
  policed_call other{on.timers}, third{on.timers};
  gone->then = [&] {
    EXPECT_FALSE(gone->pending());
    EXPECT_EQ(on.calls.complete(other.id()), &other);
    EXPECT_EQ(on.calls.start(third), 0);
    gone.reset();
  };
  ASSERT_EQ(on.calls.start(other), 0);
  ASSERT_EQ(on.calls.start(*gone, on.in(500ms)), 0);
  on.advance(500ms + slack());
  EXPECT_EQ(gone, nullptr);
  EXPECT_TRUE(third.pending());
  EXPECT_EQ(other.failed, 0);
}

TEST_F(call_policy_end, handler_may_close_policy_and_service) {
  for (const bool of_service : {false, true}) {
    policy_client own{with([](auto& o) { o.max_attempts = 1; })};
    policed_call one{own.timers}, other{own.timers};
    one.then = [&] {
      if (of_service)
        own.timers.close();
      else
        own.calls.close();
    };
    ASSERT_EQ(own.calls.start(one, own.in(500ms)), 0);
    ASSERT_EQ(own.calls.start(other), 0);
    own.time.advance(1h);
    EXPECT_EQ(one.failed, 1);
    EXPECT_EQ(other.failed, 0);
    EXPECT_EQ(other.pending(), of_service);
    EXPECT_EQ(own.calls.start(one), UV_ECANCELED);
  }
}

TEST_F(call_policy_end, close_cancels_calls_in_each_state) {
  policed_call waits{on.timers}, other{on.timers};
  ASSERT_EQ(on.calls.start(c), 0);
  ASSERT_EQ(on.calls.start(waits), 0);
  ASSERT_TRUE(on.calls.fail(waits.id(), UV_EAGAIN));
  on.calls.close();
  EXPECT_FALSE(c.pending());
  EXPECT_FALSE(waits.pending());
  EXPECT_FALSE(on.time.alive());
  EXPECT_EQ(on.calls.stats().cancelled, 2U);
  EXPECT_EQ(on.calls.capacity(), 0U);
  EXPECT_EQ(on.calls.start(other), UV_ECANCELED);
  EXPECT_EQ(on.calls.complete(1), nullptr);
  EXPECT_EQ(on.calls.fail_all(UV_EPIPE), 0U);
  on.calls.close();
  ASSERT_EQ(on.calls.open(exact_policy), 0);
  EXPECT_EQ(on.calls.stats().cancelled, 0U);
  ASSERT_EQ(on.calls.start(c), 0);
  EXPECT_EQ(on.calls.complete(c.id()), &c);
}

TEST_F(call_policy_end, answer_of_before_close_matches_no_later_call) {
  ASSERT_EQ(on.calls.start(c), 0);
  const auto old = c.id();
  on.calls.close();
  ASSERT_EQ(on.calls.open(exact_policy), 0);
  ASSERT_EQ(on.calls.start(c), 0);
  EXPECT_EQ(on.calls.complete(old), nullptr);
  EXPECT_NE(c.id(), old);
}

TEST_F(call_policy_end, closed_service_begins_no_attempt) {
  policed_call answered{on.timers}, fails{on.timers}, waits{on.timers};
  for (policed_call* one : {&answered, &fails, &waits}) ASSERT_EQ(on.calls.start(*one), 0);
  ASSERT_TRUE(on.calls.fail(waits.id(), UV_EAGAIN));
  on.timers.close();
  on.time.advance(1h);
  EXPECT_EQ(on.calls.complete(answered.id()), &answered);
  EXPECT_TRUE(on.calls.fail(fails.id(), UV_EAGAIN, 1s));
  EXPECT_EQ(fails.failed, 1);
  EXPECT_EQ(fails.last_retry(), retry_result::not_started);
  EXPECT_TRUE(waits.pending());
  EXPECT_EQ(waits.due_at(), tickwheel::clock::time_point::max());
  EXPECT_TRUE(waits.cancel());
  EXPECT_EQ(on.calls.start(waits), UV_ECANCELED);
}

TEST_F(call_policy_end, calls_outlive_service) {
  for (const double quantile : {0.0, 0.5}) {
    mortal_service own;
    policy calls;
    ASSERT_EQ(calls.open(with([&](auto& o) { o.hedge_quantile = quantile; })), 0);
    policed_call a{*own.timers}, b{*own.timers}, waits{*own.timers};
    for (policed_call* one : {&a, &b, &waits}) ASSERT_EQ(calls.start(*one), 0);
    ASSERT_TRUE(calls.fail(waits.id(), UV_EAGAIN));
    own.timers.reset();
    EXPECT_EQ(calls.complete(a.id()), &a);
    EXPECT_TRUE(waits.cancel());
    EXPECT_TRUE(b.pending());
  }
}

TEST_F(call_policy_end, handlers_may_destroy_service_within_fail_all) {
  mortal_service own;
  policy calls;
  ASSERT_EQ(calls.open(with([](auto& o) {
    o.max_attempts = 2;
    o.hedge_quantile = 0.5;
  })),
            0);
  std::deque<policed_call> all;
  for (int i = 0; i < 8; ++i) {
    policed_call& one = all.emplace_back(*own.timers);
    one.then = [&] { own.timers.reset(); };
    ASSERT_EQ(calls.start(one), 0);
  }
  ASSERT_TRUE(calls.fail(all[0].id(), UV_EAGAIN));
  own.time.advance(110ms);  // it is retried, and the others have hedges
  EXPECT_EQ(calls.fail_all(UV_ECONNRESET), 15U);
  EXPECT_EQ(own.timers, nullptr) << "the first handler has destroyed it";
  for (const policed_call& one : all) {
    EXPECT_EQ(one.failed, 1);
    EXPECT_FALSE(one.pending());
  }
}

TEST_F(call_policy_end, attempt_may_destroy_service_and_fail) {
  for (const bool first : {true, false}) {
    mortal_service own;
    policy calls;
    ASSERT_EQ(calls.open(exact_policy), 0);
    policed_call one{*own.timers};
    one.on_send = [&](auto a) -> int {
      if (first || a.number == 2) own.timers.reset();
      return UV_EPIPE;
    };
    EXPECT_EQ(calls.start(one), first ? UV_EPIPE : 0);
    own.time.advance(1h);
    EXPECT_FALSE(one.pending());
    EXPECT_EQ(one.failed, first ? 0 : 1);
    EXPECT_EQ(one.last_retry(), retry_result::not_started);
  }
}

TEST_F(call_policy_end, unreferenced_call_holds_no_loop) {
  policy_client own{with([](auto& o) { o.hedge_quantile = 0.5; })};
  policed_call one{own.timers};
  one.unref();
  EXPECT_FALSE(one.has_ref());
  ASSERT_EQ(own.calls.start(one), 0);
  EXPECT_FALSE(own.time.alive());
  own.advance(500ms);
  EXPECT_EQ(own.calls.stats().hedges, 1U);
  EXPECT_FALSE(own.time.alive());
  own.calls.fail_all(UV_EAGAIN);
  EXPECT_EQ(one.last_retry(), retry_result::scheduled);
  EXPECT_FALSE(own.time.alive());
  one.ref();
  EXPECT_TRUE(own.time.alive());
  one.cancel();
  EXPECT_FALSE(own.time.alive());
}

TEST(call_policy_open, refuses_invalid_options) {
  const auto problem = [](auto change) {
    policy calls;
    const call_policy_options changed = with(change);
    EXPECT_EQ(calls.open(changed), UV_EINVAL);
    EXPECT_FALSE(calls.is_open());
    return std::string{changed.problem()};
  };
  EXPECT_EQ(problem([](auto& o) { o.capacity = 0; }), "call_policy_options::capacity is zero");
  EXPECT_EQ(problem([](auto& o) { o.max_attempts = 0; }), "call_policy_options::max_attempts is zero");
  EXPECT_EQ(problem([](auto& o) { o.attempt_timeout = 0s; }), "call_policy_options::attempt_timeout is not positive");
  EXPECT_EQ(problem([](auto& o) { o.total_timeout = -1s; }), "call_policy_options::total_timeout is not positive");
  for (const double wrong : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(problem([&](auto& o) { o.hedge_quantile = wrong; }),
              "call_policy_options::hedge_quantile is not within 0..1");
  EXPECT_EQ(problem([](auto& o) { o.hedge_delay = 0s; }), "call_policy_options::hedge_delay is not positive");
  EXPECT_EQ(problem([](auto& o) { o.backoff.base = 0s; }), "backoff_options::base is not positive");
  EXPECT_EQ(problem([](auto& o) { o.budget.max_tokens = 0; }), "retry_budget_options::max_tokens is zero");
  static_assert(exact_policy.problem() == nullptr);
}

TEST(call_policy_open, without_memory_changes_nothing) {
  for (const double quantile : {0.0, 0.5}) {
    policy calls;
    const auto options = with([&](auto& o) { o.hedge_quantile = quantile; });
    for (std::size_t spared = 0; spared < (quantile == 0 ? 1U : 2U); ++spared) {
      const allocations::failure none{spared};
      EXPECT_EQ(calls.open(options), UV_ENOMEM);
      EXPECT_FALSE(calls.is_open());
    }
    EXPECT_EQ(calls.open(with([](auto& o) { o.capacity = std::numeric_limits<std::size_t>::max() / 2 + 1; })),
              UV_ENOMEM);
    EXPECT_EQ(calls.open(options), 0);
    EXPECT_EQ(calls.open(options), UV_EALREADY);
  }
}

TEST(call_policy_open, calls_allocate_nothing_afterwards) {
  struct quiet_call : tickwheel::policy_call {
    using policy_call::policy_call;
    int send(tickwheel::call_attempt a) noexcept {
      id = a.id;
      return 0;
    }
    void on_failed(int) noexcept {}
    std::uint64_t id = 0;
  };
  manual_service service;
  tickwheel::call_policy<&quiet_call::send, &quiet_call::on_failed> calls;
  ASSERT_EQ(calls.open(with([](auto& o) { o.hedge_quantile = 0.9; })), 0);
  std::deque<quiet_call> all;
  for (int i = 0; i < 64; ++i) all.emplace_back(service.timers);
  const auto before = allocations::count();
  for (int round = 0; round < 50; ++round) {
    for (quiet_call& one : all) ASSERT_EQ(calls.start(one), 0);
    service.time.advance(20ms);
    for (std::size_t i = 0; i < 32; ++i) ASSERT_EQ(calls.complete(all[i].id), &all[i]);
    service.time.advance(200ms);
    calls.fail_all(UV_EAGAIN);
    service.time.advance(20s);
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_GT(calls.stats().hedges, 0U);
  EXPECT_GT(calls.stats().retries, 0U);
}

TEST(call_policy_fail, without_error_stops_process) {
  policy_client own;
  policed_call one{own.timers};
  ASSERT_EQ(own.calls.start(one), 0);
  EXPECT_DEATH(own.calls.fail(one.id(), 0), "call_policy::fail was given 0");
  EXPECT_DEATH(own.calls.fail_all(0), "fail_all was given 0");
}

}  // namespace
