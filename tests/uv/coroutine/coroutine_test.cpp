// Sleeping coroutines, and limits on what they wait for, on a clock turned by hand.
#include "../../support/allocation_probe.hpp"
#include "../support/probe.hpp"
#include "../support/routine.hpp"

#include <tickwheel/uv/coroutine.hpp>

#include <coroutine>
#include <exception>
#include <stdexcept>
#include <stop_token>

using tickwheel::sleep_for;
using tickwheel::sleep_until;
using tickwheel::timed_result;
using tickwheel::timer_service;
using tickwheel::with_timeout;

namespace {

/// A coroutine that begins when it is awaited, and then resumes who did; owns its frame.
class subroutine {
 public:
  struct promise_type {
    subroutine get_return_object() { return subroutine{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct back {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> ended) noexcept {
          return ended.promise().caller;
        }
        void await_resume() noexcept {}
      };
      return back{};
    }
    void return_value(int result) noexcept { value = result; }
    void unhandled_exception() noexcept { thrown = std::current_exception(); }

    std::coroutine_handle<> caller;
    int value = 0;
    std::exception_ptr thrown;
  };

  subroutine(subroutine&& other) noexcept : frame_{std::exchange(other.frame_, nullptr)} {}
  ~subroutine() {
    if (frame_) frame_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    frame_.promise().caller = caller;
    return frame_;
  }
  int await_resume() {
    if (frame_.promise().thrown) std::rethrow_exception(frame_.promise().thrown);
    return frame_.promise().value;
  }

 private:
  explicit subroutine(std::coroutine_handle<promise_type> frame) : frame_{frame} {}
  std::coroutine_handle<promise_type> frame_;
};

constexpr int not_set = 1;  // no libuv code, which are negative, and not 0

template <class Awaitable>
routine await_into(int& result, Awaitable awaitable) {
  result = co_await awaitable;
}

routine sleep_into(int& result, timer_service& timers, std::chrono::nanoseconds after, std::stop_token stop) {
  result = co_await sleep_for(timers, after, std::move(stop));
}

routine sleep_into(int& result, timer_service& timers, std::chrono::nanoseconds after) {
  result = co_await sleep_for(timers, after);
}

routine limit_into(timed_result<int>& result, timer_service& timers, event& e, std::chrono::nanoseconds after) {
  result = co_await with_timeout(timers, e.wait(), after);
}

/// A service, and the result of a wait.
class coroutine_test : public manual_test {
 protected:
  /// True if that becomes `wanted` after so long, and was `not_set` until then.
  testing::AssertionResult comes_in(std::chrono::nanoseconds after, const int& it, int wanted = 0) {
    service.advance(after - 1ns);
    if (it != not_set) return testing::AssertionFailure() << "it was " << it << " early";
    service.advance(1ns + service.tick());
    if (it != wanted) return testing::AssertionFailure() << "it is " << it;
    return testing::AssertionSuccess();
  }
  /// True if a coroutine that awaits it goes on after so long, and not before.
  template <class Awaitable>
  testing::AssertionResult ends_in(std::chrono::nanoseconds after, Awaitable awaitable) {
    int got = not_set;
    const routine r = await_into(got, awaitable);
    const testing::AssertionResult came = comes_in(after, got);
    EXPECT_TRUE(r.done());
    return came;
  }
  /// Returns how often a coroutine allocates that awaits what `wait` returns, again and again for a second.
  template <class Wait>
  std::size_t allocations_of(Wait wait) {
    std::size_t count = 0;
    const auto measure = [&]() -> routine {
      const std::size_t before = allocations::count();
      for (int i = 0; i < 100; ++i) static_cast<void>(co_await wait());
      count = allocations::count() - before;
    };
    const routine r = measure();
    service.time.advance(1s);
    EXPECT_TRUE(r.done());
    return count;
  }

  int result = not_set;
  mortal_service own;
};
using coroutine_sleep = coroutine_test;
using resumed_coroutine = coroutine_test;
using coroutine_stop = coroutine_test;

/// The same, and an event that is awaited with a limit.
class coroutine_timeout : public coroutine_test {
 protected:
  event e;
  timed_result<int> timed{not_set, {}};
};

// --- what all waits have in common -----------------------------------------------------------------------------------

// The kinds of waits. Each returns an awaitable whose result says with `ended` that its time is up.
struct sleeping {
  static constexpr int ended = 0;
  auto operator()(timer_service& timers, std::chrono::nanoseconds after) { return sleep_for(timers, after); }
};
struct sleeping_until_stop {
  static constexpr int ended = 0;
  auto operator()(timer_service& timers, std::chrono::nanoseconds after) {
    return sleep_for(timers, after, stop.get_token());
  }
  std::stop_source stop;
};
struct limited_wait {
  static constexpr int ended = UV_ETIMEDOUT;
  auto operator()(timer_service& timers, std::chrono::nanoseconds after) {
    return with_timeout(timers, e.wait(), after);
  }
  event e;
};

int error_of(int result) { return result; }
int error_of(const timed_result<int>& result) { return result.error; }

template <class Kind>
class coroutine_wait : public coroutine_test {
 protected:
  static constexpr int ended = Kind::ended;

  /// A coroutine that waits so long, and notes the result in `into`.
  routine start(int& into, timer_service& by, std::chrono::nanoseconds after) {
    into = error_of(co_await wait(by, after));
  }
  routine start(std::chrono::nanoseconds after) { return start(result, timers, after); }

  Kind wait;
};
using kinds_of_waits = testing::Types<sleeping, sleeping_until_stop, limited_wait>;
TYPED_TEST_SUITE(coroutine_wait, kinds_of_waits);

TYPED_TEST(coroutine_wait, ends_on_time_and_not_early) {
  const routine r = this->start(10ms);
  EXPECT_TRUE(this->service.time.alive());
  EXPECT_TRUE(this->comes_in(10ms, this->result, this->ended));
  EXPECT_TRUE(r.done());
  EXPECT_FALSE(this->service.time.alive());
}

TYPED_TEST(coroutine_wait, past_time_resumes_in_next_pass) {
  for (const auto after : {0ns, -1ns, std::chrono::nanoseconds::min()}) {
    this->result = not_set;
    const routine r = this->start(after);
    EXPECT_EQ(this->result, not_set);
    this->service.advance(this->service.tick());
    EXPECT_EQ(this->result, this->ended);
  }
}

TYPED_TEST(coroutine_wait, beyond_clock_never_ends) {
  const routine r = this->start(std::chrono::nanoseconds::max());
  this->service.advance(24h * 365);
  EXPECT_EQ(this->result, not_set);
  EXPECT_EQ(this->timers.stats().pending, 1U);
}

TYPED_TEST(coroutine_wait, is_cancelled_by_destroying_frame) {
  routine r = this->start(10ms);
  r.destroy();
  EXPECT_EQ(this->timers.stats().cancelled, 1U);
  EXPECT_FALSE(this->service.time.alive());
  this->service.advance(1h);
  EXPECT_EQ(this->result, not_set);
}

TYPED_TEST(coroutine_wait, is_refused_by_closed_service) {
  this->timers.close();
  const routine r = this->start(10ms);
  EXPECT_EQ(this->result, UV_ECANCELED);
}

TYPED_TEST(coroutine_wait, is_refused_by_service_that_failed_to_open) {
  timer_service never_opened;
  tickwheel::manual_driver driver{tickwheel::clock::time_point{-1ns}};
  ASSERT_EQ(never_opened.open(driver), UV_EINVAL);
  const routine r = this->start(this->result, never_opened, 10ms);
  EXPECT_EQ(this->result, UV_ECANCELED);
}

TYPED_TEST(coroutine_wait, is_refused_at_max_armed) {
  this->reopen({.max_armed = 1});
  int refused = not_set;
  const routine a = this->start(10ms);
  const routine b = this->start(refused, this->timers, 10ms);
  EXPECT_EQ(refused, UV_ENOBUFS);
  this->service.advance(20ms);
  EXPECT_EQ(this->result, this->ended);
}

TYPED_TEST(coroutine_wait, stays_suspended_when_service_closes) {
  const routine r = this->start(10ms);
  this->timers.close();
  this->service.time.advance(1h);
  EXPECT_EQ(this->result, not_set);
  EXPECT_FALSE(r.done());
}

// It is awaited once the service is open, which is a minute later.
TYPED_TEST(coroutine_wait, made_while_service_is_closed_counts_from_await) {
  this->timers.close();
  auto made = this->wait(this->timers, 500ms);
  auto longest = this->wait(this->timers, std::chrono::nanoseconds::max());
  this->service.time.advance(1min);
  ASSERT_EQ(this->timers.open(this->service.time), 0);
  const auto await = [&](auto& awaitable) -> routine { this->result = error_of(co_await std::move(awaitable)); };
  const routine r = await(made);
  EXPECT_TRUE(this->comes_in(500ms, this->result, this->ended));
  this->result = not_set;
  const routine never = await(longest);
  this->service.advance(24h);
  EXPECT_EQ(this->result, not_set);
}

TYPED_TEST(coroutine_wait, may_be_destroyed_after_service) {
  routine r = this->start(this->result, *this->own.timers, 10ms);
  this->own.timers.reset();
  r.destroy();
  EXPECT_EQ(this->result, not_set);
}

TYPED_TEST(coroutine_wait, resumed_coroutine_may_destroy_service) {
  const auto end = [](TypeParam& kind, std::unique_ptr<timer_service>& by) -> detached {
    if (error_of(co_await kind(*by, 10ms)) == TypeParam::ended) by.reset();
  };
  end(this->wait, this->own.timers);
  this->own.time.advance(1s);
  EXPECT_FALSE(this->own.timers);
}

TYPED_TEST(coroutine_wait, allocates_nothing_besides_frame) {
  EXPECT_EQ(this->allocations_of([&] { return this->wait(this->timers, 1ms); }), 0U);
}

// --- sleeping --------------------------------------------------------------------------------------------------------

TEST_F(coroutine_sleep, until_a_time_ends_then) {
  EXPECT_TRUE(ends_in(10ms, sleep_until(timers, service.time.now() + 10ms)));
}

TEST_F(coroutine_sleep, is_on_time_a_thousand_times_in_a_row) {
  int slept = 0;
  const auto sleep_on = [&]() -> routine {
    for (; slept < 1000; ++slept) {
      const std::chrono::nanoseconds after{slept * 12'345};
      const auto begin = service.time.now();
      EXPECT_EQ(co_await sleep_for(timers, after), 0);
      EXPECT_GE(service.time.now(), begin + after);
      EXPECT_LE(service.time.now(), begin + after + service.tick());
    }
  };
  const routine r = sleep_on();
  service.advance(1min);
  EXPECT_EQ(slept, 1000);
}

TEST_F(coroutine_sleep, counts_from_call_not_from_await) {
  const auto nap = sleep_for(timers, 10ms);
  service.advance(8ms);
  const routine r = await_into(result, nap);
  service.advance(2ms + service.tick());
  EXPECT_EQ(result, 0);
}

TEST_F(coroutine_sleep, until_a_past_time_resumes_in_next_pass) {
  const routine r = await_into(result, sleep_until(timers, service.time.now() - 1h));
  EXPECT_EQ(result, not_set);
  service.advance(service.tick());
  EXPECT_EQ(result, 0);
}

TEST_F(coroutine_sleep, zero_in_a_loop_lets_each_pass_end) {
  int rounds = 0;
  const auto spin = [&]() -> routine {
    for (;;) {
      if (co_await sleep_for(timers, 0ns) != 0) co_return;
      ++rounds;
    }
  };
  const routine r = spin();
  service.time.block(service.tick());
  ASSERT_TRUE(service.turn());
  EXPECT_EQ(rounds, 1);
}

TEST_F(coroutine_sleep, ends_each_of_many_at_its_own_time) {
  std::deque<int> results;
  std::deque<routine> all;
  for (int i = 0; i < 100; ++i) all.push_back(sleep_into(results.emplace_back(not_set), timers, i * 1ms));
  for (std::size_t i = 0; i < 100; ++i) {
    service.advance(i == 0 ? service.tick() : 1ms);
    EXPECT_TRUE(all[i].done());
    EXPECT_EQ(timers.stats().pending, 99 - i);
  }
}

TEST_F(coroutine_sleep, made_while_service_is_closed_counts_from_each_await) {
  timers.close();
  const auto sleep = sleep_for(timers, 500ms);
  service.time.advance(1min);
  ASSERT_EQ(timers.open(service.time), 0);
  for (int times = 0; times < 2; ++times) EXPECT_TRUE(ends_in(500ms, sleep));
}

TEST_F(coroutine_sleep, until_a_time_allocates_nothing_besides_frame) {
  EXPECT_EQ(allocations_of([&] { return sleep_until(timers, timers.now() + 1ms); }), 0U);
}

TEST_F(coroutine_sleep, until_does_not_drift_on_a_grid) {
  const auto begin = service.time.now();
  int ended = 0;
  const auto each_second = [&]() -> routine {
    for (int i = 1; i <= 1000; ++i) {
      if (co_await sleep_until(timers, begin + i * 1s) == 0) ++ended;
    }
  };
  const routine r = each_second();
  service.advance(1000s + service.tick());
  EXPECT_EQ(ended, 1000);
}

TEST_F(resumed_coroutine, may_ask_why_it_is_late) {
  bool told = false;
  const auto ask = [&]() -> routine {
    const auto begin = service.time.now();
    co_await sleep_for(timers, 10ms);
    const auto& why = timers.why();
    told = true;
    EXPECT_GE(why.due, begin + 10ms);
    EXPECT_TRUE(adds_up(why));
  };
  const routine r = ask();
  service.advance(20ms);
  EXPECT_TRUE(told);
}

TEST_F(resumed_coroutine, counts_as_slow_handler_of_its_kind) {
  std::deque<tickwheel::timer::callback> slow;
  const auto note = [](void* context, const tickwheel::slow_handler& told) noexcept {
    static_cast<std::deque<tickwheel::timer::callback>*>(context)->push_back(told.handler);
  };
  timers.on_slow_handler(note, &slow);
  const std::stop_source stop;
  const auto block = [&]() -> routine {
    co_await sleep_for(timers, 10ms);
    service.time.block(1s);
    co_await sleep_for(timers, 10ms, stop.get_token());
    service.time.block(1s);
    static_cast<void>(co_await with_timeout(timers, std::suspend_always{}, 10ms));
    service.time.block(1s);
  };
  const routine r = block();
  service.advance(10s);
  using limited = tickwheel::timed_awaitable<std::suspend_always>;
  const std::deque<tickwheel::timer::callback> expected{
      tickwheel::sleep_awaitable::handler(), tickwheel::stoppable_sleep_awaitable::handler(), limited::handler()};
  EXPECT_EQ(slow, expected);
}

TEST_F(resumed_coroutine, is_refused_after_it_closed_service) {
  const auto close = [&]() -> routine {
    co_await sleep_for(timers, 10ms);
    timers.close();
    result = co_await sleep_for(timers, 10ms);
  };
  const routine r = close();
  service.time.advance(20ms);
  EXPECT_EQ(result, UV_ECANCELED);
}

TEST_F(resumed_coroutine, may_end_with_its_frame) {
  const auto before = allocations::outstanding();
  const auto once = [](timer_service& by) -> detached { co_await sleep_for(by, 10ms); };
  once(timers);
  EXPECT_EQ(allocations::outstanding(), before + 1);
  service.time.advance(20ms);
  EXPECT_EQ(allocations::outstanding(), before);
}

TEST_F(resumed_coroutine, may_destroy_another_due_in_same_pass) {
  std::deque<routine> both;
  int resumed = 0;
  const auto first_wins = [&](std::size_t other) -> routine {
    co_await sleep_for(timers, 10ms);
    ++resumed;
    both[other].destroy();
  };
  both.push_back(first_wins(1));
  both.push_back(first_wins(0));
  service.advance(20ms);
  EXPECT_EQ(resumed, 1);
}

TEST_F(resumed_coroutine, may_begin_others_which_resume_in_later_pass) {
  int inner = not_set;
  std::optional<routine> begun;
  const auto outer = [&]() -> routine {
    co_await sleep_for(timers, 10ms);
    begun.emplace(sleep_into(inner, timers, 0ns));
  };
  const routine r = outer();
  service.time.block(20ms);
  service.advance(0s);
  EXPECT_TRUE(begun.has_value());
  EXPECT_EQ(inner, not_set);
  service.advance(service.tick());
  EXPECT_EQ(inner, 0);
}

TEST_F(resumed_coroutine, resumes_its_caller_when_it_returns) {
  const auto inner = [](timer_service& by) -> subroutine { co_return co_await sleep_for(by, 10ms) == 0 ? 7 : not_set; };
  const auto outer = [&]() -> routine { result = co_await inner(timers); };
  const routine r = outer();
  service.advance(9ms);
  EXPECT_EQ(result, not_set);
  service.advance(2ms);
  EXPECT_EQ(result, 7);
}

TEST_F(resumed_coroutine, is_cancelled_with_its_callers_frame) {
  const auto inner = [](timer_service& by) -> subroutine { co_return co_await sleep_for(by, 10ms); };
  const auto outer = [&]() -> routine { co_await inner(timers); };
  routine r = outer();
  ASSERT_EQ(timers.stats().pending, 1U);
  r.destroy();
  EXPECT_EQ(timers.stats().pending, 0U);
}

// --- stops -----------------------------------------------------------------------------------------------------------

TEST_F(coroutine_stop, requested_before_sleep_ends_it_at_once) {
  std::stop_source stop;
  stop.request_stop();
  const routine r = sleep_into(result, timers, 10ms, stop.get_token());
  EXPECT_EQ(result, UV_ECANCELED);
  EXPECT_EQ(timers.stats().armed, 0U);
}

TEST_F(coroutine_stop, request_resumes_sleep_in_next_pass) {
  std::stop_source stop;
  const routine r = sleep_into(result, timers, 1h, stop.get_token());
  service.advance(1s);
  stop.request_stop();
  EXPECT_EQ(result, not_set);
  service.advance(service.tick());
  EXPECT_EQ(result, UV_ECANCELED);
  EXPECT_FALSE(service.time.alive());
}

TEST_F(coroutine_stop, without_source_leaves_sleep_its_time) {
  EXPECT_TRUE(ends_in(10ms, sleep_for(timers, 10ms, std::stop_token{})));
}

TEST_F(coroutine_stop, request_after_service_is_gone_resumes_nobody) {
  std::stop_source stop;
  const routine r = sleep_into(result, *own.timers, 10ms, stop.get_token());
  own.timers.reset();
  stop.request_stop();
  EXPECT_EQ(result, not_set);
}

TEST_F(coroutine_stop, request_ends_all_sleeps_that_share_it) {
  std::stop_source stop;
  std::deque<int> results;
  std::deque<routine> all;
  for (int i = 0; i < 100; ++i) all.push_back(sleep_into(results.emplace_back(not_set), timers, 1h, stop.get_token()));
  stop.request_stop();
  service.advance(service.tick());
  for (const int each : results) EXPECT_EQ(each, UV_ECANCELED);
}

TEST_F(coroutine_stop, request_by_due_sleep_stops_another_due_one) {
  std::stop_source stop;
  int ended = 0, stopped = 0;
  const auto first_stops = [&]() -> routine {
    if (co_await sleep_for(timers, 10ms, stop.get_token()) == 0) {
      ++ended;
      stop.request_stop();
    } else {
      ++stopped;
    }
  };
  const routine a = first_stops(), b = first_stops();
  service.advance(20ms);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(stopped, 1);
}

TEST_F(coroutine_stop, may_be_requested_by_coroutine_that_slept_with_it) {
  std::stop_source stop;
  int first = not_set, second = not_set;
  const auto stop_myself = [&]() -> routine {
    // within the expression, while what was awaited still is there
    first = co_await sleep_for(timers, 10ms, stop.get_token()), stop.request_stop();
    second = co_await sleep_for(timers, 10ms, stop.get_token());
  };
  const routine r = stop_myself();
  service.advance(1s);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, UV_ECANCELED);
}

TEST_F(coroutine_stop, request_after_frame_was_destroyed_has_no_effect) {
  std::stop_source stop;
  routine r = sleep_into(result, timers, 10ms, stop.get_token());
  r.destroy();
  stop.request_stop();
  service.advance(1s);
  EXPECT_EQ(result, not_set);
}

TEST_F(coroutine_stop, request_ends_detached_coroutines_before_close) {
  std::stop_source stop;
  const auto before = allocations::outstanding();
  const auto on_and_on = [](timer_service& by, std::stop_token token) -> detached {
    while (co_await sleep_for(by, 1h, token) == 0) continue;
  };
  for (int i = 0; i < 10; ++i) on_and_on(timers, stop.get_token());
  service.time.advance(5h);
  EXPECT_EQ(allocations::outstanding(), before + 10);
  stop.request_stop();
  service.time.advance(service.tick());
  EXPECT_EQ(allocations::outstanding(), before);
}

// --- limits ----------------------------------------------------------------------------------------------------------

TEST_F(coroutine_timeout, returns_value_in_time_and_cancels_its_timer) {
  const routine r = limit_into(timed, timers, e, 10ms);
  service.advance(9ms);
  e.come(42);
  ASSERT_TRUE(timed);
  EXPECT_FALSE(timed.timed_out());
  EXPECT_EQ(*timed, 42);
  EXPECT_FALSE(service.time.alive());
}

TEST_F(coroutine_timeout, ends_awaited_at_its_limit_and_not_before) {
  const routine r = limit_into(timed, timers, e, 10ms);
  service.advance(10ms - 1ns);
  EXPECT_EQ(timed.error, not_set);
  EXPECT_TRUE(e.is_awaited());
  service.advance(1ns + service.tick());
  EXPECT_TRUE(timed.timed_out());
  EXPECT_EQ(timed.error, UV_ETIMEDOUT);
  EXPECT_FALSE(timed.value.has_value());
  EXPECT_FALSE(e.is_awaited());
}

TEST_F(coroutine_timeout, destroys_awaited_before_coroutine_resumes) {
  event late;
  int sum = 0;
  bool awaited_meanwhile = true;
  const auto both = [&]() -> routine {
    // what is awaited first lives as long as the expression
    sum = (co_await with_timeout(timers, late.wait(), 10ms)).error, awaited_meanwhile = late.is_awaited(),
    sum += co_await sleep_for(timers, 1h);
  };
  const routine r = both();
  service.advance(20ms);
  EXPECT_FALSE(awaited_meanwhile);
  late.come(1);
  EXPECT_FALSE(r.done());
  service.advance(1h);
  EXPECT_TRUE(r.done());
  EXPECT_EQ(sum, UV_ETIMEDOUT);
}

TEST_F(coroutine_timeout, cancels_limit_before_coroutine_resumes) {
  int sum = 0;
  const auto both = [&]() -> routine {
    // as above
    sum = *(co_await with_timeout(timers, e.wait(), 10ms)), sum += co_await sleep_for(timers, 1h);
  };
  const routine r = both();
  e.come(42);
  EXPECT_EQ(timers.stats().pending, 1U);  // the sleep
  service.advance(20ms);
  EXPECT_FALSE(r.done());
  service.advance(1h);
  EXPECT_TRUE(r.done());
  EXPECT_EQ(sum, 42);
}

TEST_F(coroutine_timeout, arms_nothing_if_awaited_is_ready) {
  e.come(42);
  const routine r = limit_into(timed, timers, e, -1s);
  ASSERT_TRUE(timed);
  EXPECT_EQ(*timed, 42);
  EXPECT_EQ(timers.stats().armed, 0U);
}

struct at_once {
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
  int await_resume() const noexcept { return 42; }
};

TEST_F(coroutine_timeout, may_await_what_does_not_suspend) {
  const auto wait = [&]() -> routine { timed = co_await with_timeout(timers, at_once{}, 10ms); };
  const routine r = wait();
  ASSERT_TRUE(timed);
  EXPECT_EQ(*timed, 42);
  EXPECT_FALSE(service.time.alive());
}

struct resumed_within {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) const { waiting.resume(); }
  int await_resume() const noexcept { return 42; }
};

TEST_F(coroutine_timeout, may_await_what_resumes_within_await_suspend) {
  const auto wait = [](timer_service& by, int& into) -> detached {
    into = *co_await with_timeout(by, resumed_within{}, 10ms);
  };
  wait(timers, result);  // when this returns the frame is gone
  EXPECT_EQ(result, 42);
  EXPECT_FALSE(service.time.alive());
}

TEST_F(coroutine_timeout, of_zero_lasts_until_next_pass) {
  event in_time, late;
  timed_result<int> first{not_set, {}}, second{not_set, {}};
  const routine a = limit_into(first, timers, in_time, 0ns);
  const routine b = limit_into(second, timers, late, 0ns);
  in_time.come(42);
  EXPECT_TRUE(first);
  EXPECT_EQ(second.error, not_set);
  service.advance(service.tick());
  EXPECT_TRUE(second.timed_out());
}

// What comes is made to come in the very pass in which the time is up, by a timer; in whichever order they run, one wins.
void race(std::chrono::nanoseconds comes, int& values, int& timeouts) {
  manual_service service;
  event e;
  probe sender{service.timers, [&] { e.come(42); }};
  timed_result<int> result{not_set, {}};
  ASSERT_EQ(sender.timeout.arm(comes), 0);
  const routine r = limit_into(result, service.timers, e, 10ms);
  service.time.block(1s);
  service.advance(0s);
  ASSERT_TRUE(r.done());
  if (result) {
    ++values;
    EXPECT_EQ(*result, 42);
  } else {
    ++timeouts;
    EXPECT_TRUE(result.timed_out());
  }
  EXPECT_EQ(sender.fired, 1);
  EXPECT_FALSE(e.is_awaited());
  service.advance(1s);
  EXPECT_EQ(service.timers.stats().fired + service.timers.stats().cancelled, 2U);
}

TEST_F(coroutine_timeout, has_one_winner_if_both_come_in_same_pass) {
  int values = 0, timeouts = 0;
  for (int i = 0; i < 40; ++i) race(i * 500us, values, timeouts);
  EXPECT_GT(values, 0);
  EXPECT_GT(timeouts, 0);
}

TEST_F(coroutine_timeout, begins_nothing_if_limit_is_refused) {
  reopen({.max_armed = 1});
  int asleep = not_set;
  const routine other = sleep_into(asleep, timers, 1h);
  const routine r = limit_into(timed, timers, e, 10ms);
  EXPECT_EQ(timed.error, UV_ENOBUFS);
  EXPECT_EQ(e.begun, 0);
}

TEST_F(coroutine_timeout, of_sleep_made_while_service_is_closed_lets_it_end) {
  timers.close();
  auto bounded = with_timeout(timers, sleep_for(timers, 100ms), 500ms);
  service.time.advance(1min);
  ASSERT_EQ(timers.open(service.time), 0);
  const auto wait = [&]() -> routine { timed = co_await std::move(bounded); };
  const routine r = wait();
  EXPECT_TRUE(comes_in(100ms, timed.error));
  EXPECT_EQ(*timed, 0);
}

TEST_F(coroutine_timeout, begins_no_subroutine_if_limit_is_refused) {
  timers.close();
  bool begun = false;
  const auto inner = [&]() -> subroutine {
    begun = true;
    co_return 7;
  };
  int error = not_set;
  const auto outer = [&]() -> routine { error = (co_await with_timeout(timers, inner(), 10ms)).error; };
  const routine r = outer();
  EXPECT_EQ(error, UV_ECANCELED);
  EXPECT_FALSE(begun);
}

TEST_F(coroutine_timeout, loses_its_limit_when_service_closes) {
  const routine r = limit_into(timed, timers, e, 10ms);
  timers.close();
  service.time.advance(1h);
  EXPECT_EQ(timed.error, not_set);
  e.come(42);
  ASSERT_TRUE(timed);
  EXPECT_EQ(*timed, 42);
}

TEST_F(coroutine_timeout, is_cancelled_by_destroying_frame) {
  routine r = limit_into(timed, timers, e, 10ms);
  r.destroy();
  EXPECT_FALSE(e.is_awaited());
  EXPECT_FALSE(service.time.alive());
  service.advance(1h);
  EXPECT_EQ(timed.error, not_set);
}

TEST_F(coroutine_timeout, destroys_subroutine_at_its_limit) {
  const auto alive = std::make_shared<int>(0);
  const auto inner = [&](std::shared_ptr<int> held) -> subroutine {
    co_await sleep_for(timers, 1h);
    co_return *held;
  };
  int error = not_set;
  const auto outer = [&]() -> routine {
    const auto got = co_await with_timeout(timers, inner(alive), 10ms);
    error = got.error;
    EXPECT_EQ(alive.use_count(), 1);
  };
  const routine r = outer();
  service.advance(20ms);
  EXPECT_EQ(error, UV_ETIMEDOUT);
  EXPECT_FALSE(service.time.alive());
}

TEST_F(coroutine_timeout, returns_value_of_subroutine) {
  const auto inner = [&]() -> subroutine {
    co_await sleep_for(timers, 5ms);
    co_return 7;
  };
  const auto outer = [&]() -> routine {
    const auto got = co_await with_timeout(timers, inner(), 10ms);
    result = got ? *got : got.error;
  };
  const routine r = outer();
  service.advance(20ms);
  EXPECT_EQ(result, 7);
}

TEST_F(coroutine_timeout, passes_on_exception_of_awaited) {
  const auto inner = [&]() -> subroutine {
    co_await sleep_for(timers, 5ms);
    throw std::runtime_error{"refused"};
  };
  bool caught = false;
  const auto outer = [&]() -> routine {
    try {
      static_cast<void>(co_await with_timeout(timers, inner(), 10ms));
    } catch (const std::runtime_error&) {
      caught = true;
    }
  };
  const routine r = outer();
  service.advance(20ms);
  EXPECT_TRUE(caught);
  EXPECT_FALSE(service.time.alive());
}

TEST_F(coroutine_timeout, bounds_sleep) {
  int longer = not_set, shorter = not_set;
  const auto outer = [&]() -> routine {
    longer = (co_await with_timeout(timers, sleep_for(timers, 1h), 10ms)).error;
    shorter = *co_await with_timeout(timers, sleep_for(timers, 10ms), 1h);
  };
  const routine r = outer();
  service.advance(1s);
  EXPECT_EQ(longer, UV_ETIMEDOUT);
  EXPECT_EQ(shorter, 0);
}

TEST_F(coroutine_timeout, nested_ends_at_shorter_limit) {
  for (const bool outer_is_shorter : {true, false}) {
    timed_result<timed_result<int>> both{not_set, {}};
    const auto wait = [&]() -> routine {
      auto inner = with_timeout(timers, e.wait(), outer_is_shorter ? 1h : 10ms);
      both = co_await with_timeout(timers, std::move(inner), outer_is_shorter ? 10ms : 1h);
    };
    const routine r = wait();
    service.advance(20ms);
    ASSERT_TRUE(r.done());
    EXPECT_EQ(both.timed_out(), outer_is_shorter);
    EXPECT_EQ(both && both->timed_out(), !outer_is_shorter);
    EXPECT_FALSE(e.is_awaited());
    EXPECT_FALSE(service.time.alive());
  }
}

struct nothing_at_once {
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  void await_resume() const noexcept {}
};

TEST_F(coroutine_timeout, may_await_void) {
  int never = not_set, ready = not_set;
  const auto wait = [&]() -> routine {
    timed_result<void> got = co_await with_timeout(timers, nothing_at_once{}, 10ms);
    ready = got.error;
    got = co_await with_timeout(timers, std::suspend_always{}, 10ms);
    never = got.error;
  };
  const routine r = wait();
  EXPECT_EQ(ready, 0);
  service.advance(20ms);
  EXPECT_EQ(never, UV_ETIMEDOUT);
}

struct something_movable {
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  std::unique_ptr<int> await_resume() const { return std::make_unique<int>(42); }
};

TEST_F(coroutine_timeout, returns_move_only_value) {
  const auto wait = [&]() -> routine {
    auto got = co_await with_timeout(timers, something_movable{}, 10ms);
    result = *std::move(*got);
  };
  const routine r = wait();
  EXPECT_EQ(result, 42);
}

struct awaited_by_function {
  event& e;
};
event::awaiter operator co_await(awaited_by_function a) { return event::awaiter{a.e}; }

TEST_F(coroutine_timeout, may_await_by_free_operator) {
  const auto wait = [&]() -> routine { result = *co_await with_timeout(timers, awaited_by_function{e}, 10ms); };
  const routine r = wait();
  e.come(42);
  EXPECT_EQ(result, 42);
}

}  // namespace
