// Sleeping coroutines, and limits on what they wait for, on a clock turned by hand.
#include "../../support/allocation_probe.hpp"
#include "../support/probe.hpp"

#include <tickwheel/uv/coroutine.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <coroutine>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <utility>

using namespace std::chrono_literals;
using tickwheel::sleep_for;
using tickwheel::sleep_until;
using tickwheel::timed_result;
using tickwheel::timer_service;
using tickwheel::with_timeout;

namespace {

/// A coroutine that runs at once, and whose frame the test owns.
class routine {
 public:
  struct promise_type {
    routine get_return_object() { return routine{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };

  routine(routine&& other) noexcept : frame_{std::exchange(other.frame_, nullptr)} {}
  ~routine() { destroy(); }

  bool done() const { return frame_.done(); }
  void destroy() {
    if (frame_) std::exchange(frame_, nullptr).destroy();
  }

 private:
  explicit routine(std::coroutine_handle<promise_type> frame) : frame_{frame} {}
  std::coroutine_handle<promise_type> frame_;
};

/// A coroutine whose frame goes when it returns.
struct detached {
  struct promise_type {
    detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

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

/// Something that comes when the test says so. Who no longer waits is not resumed.
class event {
 public:
  void come(int value) {
    value_ = value;
    if (waiting_) std::exchange(waiting_, nullptr).resume();
  }
  bool is_awaited() const { return waiting_ != nullptr; }
  int begun = 0;

  class awaiter {
   public:
    explicit awaiter(event& e) : event_{e} {}
    awaiter(const awaiter&) = delete;
    awaiter& operator=(const awaiter&) = delete;
    ~awaiter() { event_.waiting_ = nullptr; }
    bool await_ready() const { return event_.value_.has_value(); }
    void await_suspend(std::coroutine_handle<> waiting) {
      ++event_.begun;
      event_.waiting_ = waiting;
    }
    int await_resume() { return *std::exchange(event_.value_, std::nullopt); }

   private:
    event& event_;
  };
  struct waited_for {
    event& self;
    awaiter operator co_await() const { return awaiter{self}; }
  };
  waited_for wait() { return {*this}; }

 private:
  std::optional<int> value_;
  std::coroutine_handle<> waiting_;
};

constexpr int unset = 1;  // no libuv code, which are negative, and not 0

template <class Awaitable>
routine await_into(int& result, Awaitable awaitable) {
  result = co_await awaitable;
}

routine sleep_into(int& result, timer_service& timers, std::chrono::nanoseconds after) {
  result = co_await sleep_for(timers, after);
}

routine limit_into(timed_result<int>& result, timer_service& timers, event& e, std::chrono::nanoseconds after) {
  result = co_await with_timeout(timers, e.wait(), after);
}

// --- sleeping --------------------------------------------------------------------------------------------------------

TEST(sleep_for, ends_not_before_its_time_and_within_a_tick_after_it) {
  manual_service service;
  int result = unset;
  const routine r = sleep_into(result, service.timers, 10ms);
  service.advance(10ms - 1ns);
  EXPECT_EQ(result, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(r.done());
}

TEST(sleep_for, is_never_early_nor_late_by_more_than_a_tick_a_thousand_times_in_a_row) {
  manual_service service;
  int slept = 0;
  const auto sleep_on = [&]() -> routine {
    for (; slept < 1000; ++slept) {
      const std::chrono::nanoseconds after{slept * 12'345};
      const auto begin = service.time.now();
      EXPECT_EQ(co_await sleep_for(service.timers, after), 0);
      EXPECT_GE(service.time.now(), begin + after);
      EXPECT_LE(service.time.now(), begin + after + service.tick());
    }
  };
  const routine r = sleep_on();
  service.advance(1min);
  EXPECT_EQ(slept, 1000);
}

TEST(sleep_for, counts_from_its_call_and_not_from_when_it_is_awaited) {
  manual_service service;
  const auto nap = sleep_for(service.timers, 10ms);
  service.advance(8ms);
  int result = unset;
  const routine r = await_into(result, nap);
  service.advance(2ms + service.tick());
  EXPECT_EQ(result, 0);
}

TEST(sleep_for, nothing_ends_in_the_next_pass_and_not_at_once) {
  for (const auto after : {0ns, -1ns, std::chrono::nanoseconds::min()}) {
    manual_service service;
    int result = unset;
    const routine r = sleep_into(result, service.timers, after);
    EXPECT_EQ(result, unset);
    service.advance(service.tick());
    EXPECT_EQ(result, 0);
  }
}

TEST(sleep_for, nothing_in_a_loop_lets_each_pass_end) {
  manual_service service;
  int rounds = 0;
  const auto spin = [&]() -> routine {
    for (;;) {
      if (co_await sleep_for(service.timers, 0ns) != 0) co_return;
      ++rounds;
    }
  };
  const routine r = spin();
  service.time.block(service.tick());
  ASSERT_TRUE(service.turn());
  EXPECT_EQ(rounds, 1);
}

TEST(sleep_for, a_time_beyond_the_clock_is_for_ever) {
  manual_service service;
  int result = unset;
  const routine r = await_into(result, sleep_for(service.timers, std::chrono::hours::max()));
  service.advance(24h * 365);
  EXPECT_EQ(result, unset);
  EXPECT_EQ(service.timers.stats().pending, 1U);
}

TEST(sleep_for, keeps_the_loop_alive_until_it_ends) {
  manual_service service;
  int result = unset;
  const routine r = sleep_into(result, service.timers, 10ms);
  EXPECT_TRUE(service.time.alive());
  service.advance(20ms);
  EXPECT_FALSE(service.time.alive());
}

TEST(sleep_for, of_several_each_ends_at_its_own_time) {
  manual_service service;
  std::deque<int> results;
  std::deque<routine> all;
  for (int i = 0; i < 100; ++i) all.push_back(sleep_into(results.emplace_back(unset), service.timers, i * 1ms));
  for (std::size_t i = 0; i < 100; ++i) {
    service.advance(i == 0 ? service.tick() : 1ms);
    EXPECT_TRUE(all[i].done());
    EXPECT_EQ(service.timers.stats().pending, 99 - i);
  }
}

TEST(sleep_for, is_cancelled_by_destroying_the_frame) {
  manual_service service;
  int result = unset;
  routine r = sleep_into(result, service.timers, 10ms);
  r.destroy();
  EXPECT_EQ(service.timers.stats().cancelled, 1U);
  EXPECT_FALSE(service.time.alive());
  service.advance(1h);
  EXPECT_EQ(result, unset);
}

TEST(sleep_for, is_refused_at_once_by_a_closed_service) {
  manual_service service;
  service.timers.close();
  int result = unset;
  const routine r = sleep_into(result, service.timers, 10ms);
  EXPECT_EQ(result, UV_ECANCELED);
}

TEST(sleep_for, is_refused_at_once_by_a_service_that_could_not_be_opened) {
  timer_service timers;
  tickwheel::manual_driver time{tickwheel::clock::time_point{-1ns}};
  ASSERT_EQ(timers.open(time), UV_EINVAL);
  int result = unset;
  const routine r = sleep_into(result, timers, 10ms);
  EXPECT_EQ(result, UV_ECANCELED);
}

// What was made while the service was closed, and is awaited once it is open, which is a minute later.
TEST(sleep_for, made_while_service_is_closed_counts_from_await) {
  manual_service service;
  service.timers.close();
  int result = unset;
  auto sleep = sleep_for(service.timers, 500ms);
  const auto awaits = [&]() -> routine { result = co_await sleep; };
  service.time.advance(1min);
  ASSERT_EQ(service.timers.open(service.time), 0);
  const routine first = awaits();
  service.advance(500ms - 1ns);
  EXPECT_EQ(result, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(result, 0);
  result = unset;
  const routine second = awaits();
  service.advance(500ms - 1ns);
  EXPECT_EQ(result, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(result, 0);
}

TEST(sleep_for, with_stop_made_while_service_is_closed_counts_from_await) {
  manual_service service;
  service.timers.close();
  const std::stop_source stop;
  int result = unset;
  auto sleep = sleep_for(service.timers, 500ms, stop.get_token());
  const auto awaits = [&]() -> routine { result = co_await sleep; };
  ASSERT_EQ(service.timers.open(service.time), 0);
  service.advance(1min);
  const routine r = awaits();
  service.advance(500ms - 1ns);
  EXPECT_EQ(result, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(result, 0);
}

TEST(sleep_for, longest_made_while_service_is_closed_stays_asleep) {
  manual_service service;
  service.timers.close();
  int result = unset;
  auto sleep = sleep_for(service.timers, std::chrono::hours::max());
  const auto awaits = [&]() -> routine { result = co_await sleep; };
  ASSERT_EQ(service.timers.open(service.time), 0);
  const routine r = awaits();
  service.advance(24h);
  EXPECT_EQ(result, unset);
}

TEST(sleep_for, is_refused_at_once_when_as_many_timers_are_armed_as_may_be) {
  manual_service service{{.max_armed = 1}};
  int first = unset, second = unset;
  const routine a = sleep_into(first, service.timers, 10ms);
  const routine b = sleep_into(second, service.timers, 10ms);
  EXPECT_EQ(second, UV_ENOBUFS);
  service.advance(20ms);
  EXPECT_EQ(first, 0);
}

TEST(sleep_for, is_left_suspended_when_the_service_closes) {
  manual_service service;
  int result = unset;
  const routine r = sleep_into(result, service.timers, 10ms);
  service.timers.close();
  service.time.advance(1h);
  EXPECT_EQ(result, unset);
  EXPECT_FALSE(r.done());
}

TEST(sleep_for, is_destroyed_after_its_service) {
  tickwheel::manual_driver time;
  std::optional<timer_service> timers{std::in_place};
  ASSERT_EQ(timers->open(time), 0);
  int result = unset;
  routine r = sleep_into(result, *timers, 10ms);
  timers.reset();
  r.destroy();
  EXPECT_EQ(result, unset);
}

TEST(sleep_for, allocates_nothing_beside_the_frame) {
  manual_service service;
  std::size_t before = 0, after = 0;
  const auto measure = [&]() -> routine {
    before = allocations::count();
    for (int i = 0; i < 100; ++i) co_await sleep_for(service.timers, 1ms);
    co_await sleep_until(service.timers, service.timers.now() + 1ms);
    after = allocations::count();
  };
  const routine r = measure();
  service.time.advance(1s);
  ASSERT_TRUE(r.done());
  EXPECT_EQ(after, before);
}

TEST(sleep_until, ends_not_before_that_time_and_within_a_tick_after_it) {
  manual_service service;
  int result = unset;
  const routine r = await_into(result, sleep_until(service.timers, service.time.now() + 10ms));
  service.advance(10ms - 1ns);
  EXPECT_EQ(result, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(result, 0);
}

TEST(sleep_until, a_time_that_has_passed_ends_in_the_next_pass) {
  manual_service service;
  int result = unset;
  const routine r = await_into(result, sleep_until(service.timers, service.time.now() - 1h));
  EXPECT_EQ(result, unset);
  service.advance(service.tick());
  EXPECT_EQ(result, 0);
}

TEST(sleep_until, on_a_grid_does_not_drift) {
  manual_service service;
  const auto begin = service.time.now();
  int ended = 0;
  const auto each_second = [&]() -> routine {
    for (int i = 1; i <= 1000; ++i) {
      if (co_await sleep_until(service.timers, begin + i * 1s) == 0) ++ended;
    }
  };
  const routine r = each_second();
  service.advance(1000s + service.tick());
  EXPECT_EQ(ended, 1000);
}

TEST(a_resumed_coroutine, is_told_by_the_service_when_it_was_due_and_how_late_it_is) {
  manual_service service;
  bool told = false;
  const auto ask = [&]() -> routine {
    const auto begin = service.time.now();
    co_await sleep_for(service.timers, 10ms);
    const auto& why = service.timers.why();
    told = true;
    EXPECT_GE(why.due, begin + 10ms);
    EXPECT_TRUE(adds_up(why));
  };
  const routine r = ask();
  service.advance(20ms);
  EXPECT_TRUE(told);
}

TEST(a_resumed_coroutine, that_blocks_is_a_slow_handler_of_its_kind) {
  manual_service service;
  std::deque<tickwheel::timer::callback> slow;
  const auto note = [](void* context, const tickwheel::slow_handler& told) noexcept {
    static_cast<std::deque<tickwheel::timer::callback>*>(context)->push_back(told.handler);
  };
  service.timers.on_slow_handler(note, &slow);
  const std::stop_source stop;
  const auto block = [&]() -> routine {
    co_await sleep_for(service.timers, 10ms);
    service.time.block(1s);
    co_await sleep_for(service.timers, 10ms, stop.get_token());
    service.time.block(1s);
    static_cast<void>(co_await with_timeout(service.timers, std::suspend_always{}, 10ms));
    service.time.block(1s);
  };
  const routine r = block();
  service.advance(10s);
  using limited = tickwheel::timed_awaitable<std::suspend_always>;
  const std::deque<tickwheel::timer::callback> expected{
      tickwheel::sleep_awaitable::handler(), tickwheel::stoppable_sleep_awaitable::handler(), limited::handler()};
  EXPECT_EQ(slow, expected);
}

TEST(a_resumed_coroutine, may_destroy_the_service) {
  tickwheel::manual_driver time;
  std::optional<timer_service> timers{std::in_place};
  ASSERT_EQ(timers->open(time), 0);
  int other = unset;
  const routine r = sleep_into(other, *timers, 10ms);
  const auto end = [](std::optional<timer_service>& service) -> detached {
    co_await sleep_for(*service, 10ms);
    service.reset();
  };
  end(timers);
  time.advance(1s);
  EXPECT_FALSE(timers.has_value());
}

TEST(a_resumed_coroutine, may_close_the_service_and_is_refused_from_then_on) {
  manual_service service;
  int result = unset;
  const auto close = [&]() -> routine {
    co_await sleep_for(service.timers, 10ms);
    service.timers.close();
    result = co_await sleep_for(service.timers, 10ms);
  };
  const routine r = close();
  service.time.advance(20ms);
  EXPECT_EQ(result, UV_ECANCELED);
}

TEST(a_resumed_coroutine, may_end_and_its_frame_with_it) {
  manual_service service;
  const auto before = allocations::outstanding();
  const auto once = [](timer_service& timers) -> detached { co_await sleep_for(timers, 10ms); };
  once(service.timers);
  EXPECT_EQ(allocations::outstanding(), before + 1);
  service.time.advance(20ms);
  EXPECT_EQ(allocations::outstanding(), before);
}

TEST(a_resumed_coroutine, may_destroy_another_that_is_due_in_the_same_pass) {
  manual_service service;
  std::deque<routine> both;
  int resumed = 0;
  const auto first_wins = [&](std::size_t other) -> routine {
    co_await sleep_for(service.timers, 10ms);
    ++resumed;
    both[other].destroy();
  };
  both.push_back(first_wins(1));
  both.push_back(first_wins(0));
  service.advance(20ms);
  EXPECT_EQ(resumed, 1);
}

TEST(a_resumed_coroutine, may_begin_others_which_are_not_resumed_in_the_same_pass) {
  manual_service service;
  int inner = unset;
  std::optional<routine> begun;
  const auto outer = [&]() -> routine {
    co_await sleep_for(service.timers, 10ms);
    begun.emplace(sleep_into(inner, service.timers, 0ns));
  };
  const routine r = outer();
  service.time.block(20ms);
  service.advance(0s);
  EXPECT_TRUE(begun.has_value());
  EXPECT_EQ(inner, unset);
  service.advance(service.tick());
  EXPECT_EQ(inner, 0);
}

TEST(a_coroutine_within_another, is_waited_for) {
  manual_service service;
  const auto inner = [](timer_service& timers) -> subroutine {
    co_return co_await sleep_for(timers, 10ms) == 0 ? 7 : unset;
  };
  int result = unset;
  const auto outer = [&]() -> routine { result = co_await inner(service.timers); };
  const routine r = outer();
  service.advance(9ms);
  EXPECT_EQ(result, unset);
  service.advance(2ms);
  EXPECT_EQ(result, 7);
}

TEST(a_coroutine_within_another, is_cancelled_by_destroying_the_outer_frame) {
  manual_service service;
  const auto inner = [](timer_service& timers) -> subroutine { co_return co_await sleep_for(timers, 10ms); };
  const auto outer = [&]() -> routine { co_await inner(service.timers); };
  routine r = outer();
  ASSERT_EQ(service.timers.stats().pending, 1U);
  r.destroy();
  EXPECT_EQ(service.timers.stats().pending, 0U);
}

// --- stops -----------------------------------------------------------------------------------------------------------

routine sleep_into(int& result, timer_service& timers, std::chrono::nanoseconds after, std::stop_token stop) {
  result = co_await sleep_for(timers, after, std::move(stop));
}

TEST(a_stop, that_was_requested_before_ends_the_sleep_at_once_and_arms_nothing) {
  manual_service service;
  std::stop_source stop;
  stop.request_stop();
  int result = unset;
  const routine r = sleep_into(result, service.timers, 10ms, stop.get_token());
  EXPECT_EQ(result, UV_ECANCELED);
  EXPECT_EQ(service.timers.stats().armed, 0U);
}

TEST(a_stop, ends_the_sleep_in_the_next_pass_and_not_within_its_request) {
  manual_service service;
  std::stop_source stop;
  int result = unset;
  const routine r = sleep_into(result, service.timers, 1h, stop.get_token());
  service.advance(1s);
  stop.request_stop();
  EXPECT_EQ(result, unset);
  service.advance(service.tick());
  EXPECT_EQ(result, UV_ECANCELED);
  EXPECT_FALSE(service.time.alive());
}

TEST(a_stop, that_is_not_requested_leaves_the_sleep_its_time) {
  manual_service service;
  const std::stop_source stop;
  int result = unset;
  const routine r = sleep_into(result, service.timers, 10ms, stop.get_token());
  service.advance(10ms - 1ns);
  EXPECT_EQ(result, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(result, 0);
}

TEST(a_stop, may_be_none) {
  manual_service service;
  int result = unset;
  const routine r = sleep_into(result, service.timers, 10ms, std::stop_token{});
  service.advance(20ms);
  EXPECT_EQ(result, 0);
}

TEST(a_stop, ends_all_that_share_it) {
  manual_service service;
  std::stop_source stop;
  std::deque<int> results;
  std::deque<routine> all;
  for (int i = 0; i < 100; ++i)
    all.push_back(sleep_into(results.emplace_back(unset), service.timers, 1h, stop.get_token()));
  stop.request_stop();
  service.advance(service.tick());
  for (const int result : results) EXPECT_EQ(result, UV_ECANCELED);
}

TEST(a_stop, that_is_requested_by_one_that_is_due_stops_another_that_is_due_in_the_same_pass) {
  manual_service service;
  std::stop_source stop;
  int ended = 0, stopped = 0;
  const auto first_stops = [&]() -> routine {
    if (co_await sleep_for(service.timers, 10ms, stop.get_token()) == 0) {
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

TEST(a_stop, may_be_requested_by_the_coroutine_that_slept_with_it) {
  manual_service service;
  std::stop_source stop;
  int first = unset, second = unset;
  const auto stop_myself = [&]() -> routine {
    // within the expression, while what was awaited still is there
    first = co_await sleep_for(service.timers, 10ms, stop.get_token()), stop.request_stop();
    second = co_await sleep_for(service.timers, 10ms, stop.get_token());
  };
  const routine r = stop_myself();
  service.advance(1s);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, UV_ECANCELED);
}

TEST(a_stop, finds_nobody_when_the_frame_was_destroyed) {
  manual_service service;
  std::stop_source stop;
  int result = unset;
  routine r = sleep_into(result, service.timers, 10ms, stop.get_token());
  r.destroy();
  stop.request_stop();
  service.advance(1s);
  EXPECT_EQ(result, unset);
}

TEST(a_stop, after_the_service_is_gone_resumes_nobody) {
  tickwheel::manual_driver time;
  std::optional<timer_service> timers{std::in_place};
  ASSERT_EQ(timers->open(time), 0);
  std::stop_source stop;
  int result = unset;
  const routine r = sleep_into(result, *timers, 10ms, stop.get_token());
  timers.reset();
  stop.request_stop();
  EXPECT_EQ(result, unset);
}

TEST(a_stop, leaves_refusals_what_they_are) {
  manual_service service{{.max_armed = 1}};
  const std::stop_source stop;
  int first = unset, second = unset, third = unset;
  const routine a = sleep_into(first, service.timers, 10ms, stop.get_token());
  const routine b = sleep_into(second, service.timers, 10ms, stop.get_token());
  EXPECT_EQ(second, UV_ENOBUFS);
  service.timers.close();
  const routine c = sleep_into(third, service.timers, 10ms, stop.get_token());
  EXPECT_EQ(third, UV_ECANCELED);
}

TEST(a_stop, lets_coroutines_that_own_themselves_end_before_the_service_closes) {
  manual_service service;
  std::stop_source stop;
  const auto before = allocations::outstanding();
  const auto on_and_on = [](timer_service& timers, std::stop_token token) -> detached {
    while (co_await sleep_for(timers, 1h, token) == 0) continue;
  };
  for (int i = 0; i < 10; ++i) on_and_on(service.timers, stop.get_token());
  service.time.advance(5h);
  EXPECT_EQ(allocations::outstanding(), before + 10);
  stop.request_stop();
  service.time.advance(service.tick());
  EXPECT_EQ(allocations::outstanding(), before);
}

TEST(a_stop, allocates_nothing) {
  manual_service service;
  const std::stop_source stop;
  std::size_t before = 0, after = 0;
  const auto measure = [&]() -> routine {
    before = allocations::count();
    for (int i = 0; i < 100; ++i) co_await sleep_for(service.timers, 1ms, stop.get_token());
    after = allocations::count();
  };
  const routine r = measure();
  service.time.advance(1s);
  ASSERT_TRUE(r.done());
  EXPECT_EQ(after, before);
}

// --- limits ----------------------------------------------------------------------------------------------------------

TEST(with_timeout, hands_on_what_comes_in_time_and_cancels_its_timer) {
  manual_service service;
  event e;
  timed_result<int> result{unset, {}};
  const routine r = limit_into(result, service.timers, e, 10ms);
  service.advance(9ms);
  e.come(42);
  ASSERT_TRUE(result);
  EXPECT_FALSE(result.timed_out());
  EXPECT_EQ(*result, 42);
  EXPECT_FALSE(service.time.alive());
}

TEST(with_timeout, ends_what_it_awaits_when_the_time_is_up_and_not_before) {
  manual_service service;
  event e;
  timed_result<int> result{unset, {}};
  const routine r = limit_into(result, service.timers, e, 10ms);
  service.advance(10ms - 1ns);
  EXPECT_EQ(result.error, unset);
  EXPECT_TRUE(e.is_awaited());
  service.advance(1ns + service.tick());
  EXPECT_TRUE(result.timed_out());
  EXPECT_EQ(result.error, UV_ETIMEDOUT);
  EXPECT_FALSE(result.value.has_value());
  EXPECT_FALSE(e.is_awaited());
}

TEST(with_timeout, ends_the_loser_before_the_coroutine_goes_on_within_the_same_expression) {
  manual_service service;
  event late;
  int sum = 0;
  bool awaited_meanwhile = true;
  const auto both = [&]() -> routine {
    // what is awaited first lives as long as the expression
    sum = (co_await with_timeout(service.timers, late.wait(), 10ms)).error, awaited_meanwhile = late.is_awaited(),
    sum += co_await sleep_for(service.timers, 1h);
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

TEST(with_timeout, ends_its_limit_before_the_coroutine_goes_on_within_the_same_expression) {
  manual_service service;
  event e;
  int sum = 0;
  const auto both = [&]() -> routine {
    // as above
    sum = *(co_await with_timeout(service.timers, e.wait(), 10ms)), sum += co_await sleep_for(service.timers, 1h);
  };
  const routine r = both();
  e.come(42);
  EXPECT_EQ(service.timers.stats().pending, 1U);  // the sleep
  service.advance(20ms);
  EXPECT_FALSE(r.done());
  service.advance(1h);
  EXPECT_TRUE(r.done());
  EXPECT_EQ(sum, 42);
}

TEST(with_timeout, does_not_wait_for_what_is_there_and_arms_nothing) {
  manual_service service;
  event e;
  e.come(42);
  timed_result<int> result{unset, {}};
  const routine r = limit_into(result, service.timers, e, -1s);
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, 42);
  EXPECT_EQ(service.timers.stats().armed, 0U);
}

struct at_once {
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
  int await_resume() const noexcept { return 42; }
};

TEST(with_timeout, takes_what_decides_not_to_suspend) {
  manual_service service;
  timed_result<int> result{unset, {}};
  const auto wait = [&]() -> routine { result = co_await with_timeout(service.timers, at_once{}, 10ms); };
  const routine r = wait();
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, 42);
  EXPECT_FALSE(service.time.alive());
}

struct resumed_within {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) const { waiting.resume(); }
  int await_resume() const noexcept { return 42; }
};

TEST(with_timeout, takes_what_resumes_the_coroutine_before_it_is_suspended_for_long) {
  manual_service service;
  int result = unset;
  const auto wait = [](timer_service& timers, int& into) -> detached {
    into = *co_await with_timeout(timers, resumed_within{}, 10ms);
  };
  wait(service.timers, result);  // when this returns the frame is gone
  EXPECT_EQ(result, 42);
  EXPECT_FALSE(service.time.alive());
}

TEST(with_timeout, of_zero_lets_the_awaited_come_until_the_next_pass) {
  manual_service service;
  event in_time, late;
  timed_result<int> first{unset, {}}, second{unset, {}};
  const routine a = limit_into(first, service.timers, in_time, 0ns);
  const routine b = limit_into(second, service.timers, late, 0ns);
  in_time.come(42);
  EXPECT_TRUE(first);
  EXPECT_EQ(second.error, unset);
  service.advance(service.tick());
  EXPECT_TRUE(second.timed_out());
}

// What comes is made to come in the very pass in which the time is up, by a timer; in whichever order they run, one wins.
void race(std::chrono::nanoseconds comes, int& values, int& timeouts) {
  manual_service service;
  event e;
  probe sender{service.timers, [&] { e.come(42); }};
  timed_result<int> result{unset, {}};
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

TEST(with_timeout, has_one_winner_when_both_come_in_the_same_pass) {
  int values = 0, timeouts = 0;
  for (int i = 0; i < 40; ++i) race(i * 500us, values, timeouts);
  EXPECT_GT(values, 0);
  EXPECT_GT(timeouts, 0);
}

TEST(with_timeout, begins_nothing_without_a_limit) {
  manual_service service{{.max_armed = 1}};
  int asleep = unset;
  const routine other = sleep_into(asleep, service.timers, 1h);
  event e;
  timed_result<int> result{unset, {}};
  const routine r = limit_into(result, service.timers, e, 10ms);
  EXPECT_EQ(result.error, UV_ENOBUFS);
  EXPECT_EQ(e.begun, 0);
}

TEST(with_timeout, is_refused_at_once_by_a_closed_service) {
  manual_service service;
  service.timers.close();
  event e;
  timed_result<int> result{unset, {}};
  const routine r = limit_into(result, service.timers, e, 10ms);
  EXPECT_EQ(result.error, UV_ECANCELED);
  EXPECT_EQ(e.begun, 0);
}

TEST(with_timeout, made_while_service_is_closed_counts_from_await) {
  manual_service service;
  service.timers.close();
  timed_result<int> result{unset, {}};
  auto wait = with_timeout(service.timers, sleep_for(service.timers, 500ms), 100ms);
  const auto awaits = [&]() -> routine { result = co_await std::move(wait); };
  service.time.advance(1min);
  ASSERT_EQ(service.timers.open(service.time), 0);
  const routine r = awaits();
  service.advance(100ms - 1ns);
  EXPECT_EQ(result.error, unset);
  service.advance(1ns + service.tick());
  EXPECT_TRUE(result.timed_out());
}

TEST(with_timeout, of_sleep_made_while_service_is_closed_lets_it_end) {
  manual_service service;
  service.timers.close();
  timed_result<int> result{unset, {}};
  auto wait = with_timeout(service.timers, sleep_for(service.timers, 100ms), 500ms);
  const auto awaits = [&]() -> routine { result = co_await std::move(wait); };
  ASSERT_EQ(service.timers.open(service.time), 0);
  const routine r = awaits();
  service.advance(100ms - 1ns);
  EXPECT_EQ(result.error, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(result.error, 0);
  EXPECT_EQ(*result, 0);
}

TEST(with_timeout, begins_no_subroutine_without_a_limit) {
  manual_service service;
  service.timers.close();
  bool begun = false;
  const auto inner = [&]() -> subroutine {
    begun = true;
    co_return 7;
  };
  int error = unset;
  const auto outer = [&]() -> routine { error = (co_await with_timeout(service.timers, inner(), 10ms)).error; };
  const routine r = outer();
  EXPECT_EQ(error, UV_ECANCELED);
  EXPECT_FALSE(begun);
}

TEST(with_timeout, leaves_the_awaited_without_a_limit_when_the_service_closes) {
  manual_service service;
  event e;
  timed_result<int> result{unset, {}};
  const routine r = limit_into(result, service.timers, e, 10ms);
  service.timers.close();
  service.time.advance(1h);
  EXPECT_EQ(result.error, unset);
  e.come(42);
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, 42);
}

TEST(with_timeout, is_cancelled_with_what_it_awaits_by_destroying_the_frame) {
  manual_service service;
  event e;
  timed_result<int> result{unset, {}};
  routine r = limit_into(result, service.timers, e, 10ms);
  r.destroy();
  EXPECT_FALSE(e.is_awaited());
  EXPECT_FALSE(service.time.alive());
  service.advance(1h);
  EXPECT_EQ(result.error, unset);
}

TEST(with_timeout, bounds_a_subroutine_and_destroys_what_is_within_it) {
  manual_service service;
  const auto alive = std::make_shared<int>(0);
  const auto inner = [&](std::shared_ptr<int> held) -> subroutine {
    co_await sleep_for(service.timers, 1h);
    co_return *held;
  };
  int error = unset;
  const auto outer = [&]() -> routine {
    const auto got = co_await with_timeout(service.timers, inner(alive), 10ms);
    error = got.error;
    EXPECT_EQ(alive.use_count(), 1);
  };
  const routine r = outer();
  service.advance(20ms);
  EXPECT_EQ(error, UV_ETIMEDOUT);
  EXPECT_FALSE(service.time.alive());
}

TEST(with_timeout, hands_on_what_a_subroutine_returns) {
  manual_service service;
  const auto inner = [&]() -> subroutine {
    co_await sleep_for(service.timers, 5ms);
    co_return 7;
  };
  int result = unset;
  const auto outer = [&]() -> routine {
    const auto got = co_await with_timeout(service.timers, inner(), 10ms);
    result = got ? *got : got.error;
  };
  const routine r = outer();
  service.advance(20ms);
  EXPECT_EQ(result, 7);
}

TEST(with_timeout, lets_through_what_the_awaited_throws) {
  manual_service service;
  const auto inner = [&]() -> subroutine {
    co_await sleep_for(service.timers, 5ms);
    throw std::runtime_error{"refused"};
  };
  bool caught = false;
  const auto outer = [&]() -> routine {
    try {
      static_cast<void>(co_await with_timeout(service.timers, inner(), 10ms));
    } catch (const std::runtime_error&) {
      caught = true;
    }
  };
  const routine r = outer();
  service.advance(20ms);
  EXPECT_TRUE(caught);
  EXPECT_FALSE(service.time.alive());
}

TEST(with_timeout, bounds_a_sleep) {
  manual_service service;
  int longer = unset, shorter = unset;
  const auto outer = [&]() -> routine {
    longer = (co_await with_timeout(service.timers, sleep_for(service.timers, 1h), 10ms)).error;
    shorter = *co_await with_timeout(service.timers, sleep_for(service.timers, 10ms), 1h);
  };
  const routine r = outer();
  service.advance(1s);
  EXPECT_EQ(longer, UV_ETIMEDOUT);
  EXPECT_EQ(shorter, 0);
}

TEST(with_timeout, within_another_has_the_shorter_limit_win) {
  for (const bool outer_is_shorter : {true, false}) {
    manual_service service;
    event e;
    timed_result<timed_result<int>> result{unset, {}};
    const auto wait = [&]() -> routine {
      auto inner = with_timeout(service.timers, e.wait(), outer_is_shorter ? 1h : 10ms);
      result = co_await with_timeout(service.timers, std::move(inner), outer_is_shorter ? 10ms : 1h);
    };
    const routine r = wait();
    service.advance(20ms);
    ASSERT_TRUE(r.done());
    EXPECT_EQ(result.timed_out(), outer_is_shorter);
    EXPECT_EQ(result && result->timed_out(), !outer_is_shorter);
    EXPECT_FALSE(e.is_awaited());
    EXPECT_FALSE(service.time.alive());
  }
}

struct nothing_at_once {
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  void await_resume() const noexcept {}
};

TEST(with_timeout, awaits_what_has_no_value) {
  manual_service service;
  int never = unset, ready = unset;
  const auto wait = [&]() -> routine {
    timed_result<void> result = co_await with_timeout(service.timers, nothing_at_once{}, 10ms);
    ready = result.error;
    result = co_await with_timeout(service.timers, std::suspend_always{}, 10ms);
    never = result.error;
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

TEST(with_timeout, hands_on_what_can_only_be_moved) {
  manual_service service;
  int result = unset;
  const auto wait = [&]() -> routine {
    auto got = co_await with_timeout(service.timers, something_movable{}, 10ms);
    result = *std::move(*got);
  };
  const routine r = wait();
  EXPECT_EQ(result, 42);
}

struct awaited_by_function {
  event& e;
};
event::awaiter operator co_await(awaited_by_function a) { return event::awaiter{a.e}; }

TEST(with_timeout, awaits_what_has_a_free_operator) {
  manual_service service;
  event e;
  int result = unset;
  const auto wait = [&]() -> routine { result = *co_await with_timeout(service.timers, awaited_by_function{e}, 10ms); };
  const routine r = wait();
  e.come(42);
  EXPECT_EQ(result, 42);
}

TEST(with_timeout, lets_a_coroutine_whose_time_is_up_destroy_the_service) {
  tickwheel::manual_driver time;
  std::optional<timer_service> timers{std::in_place};
  ASSERT_EQ(timers->open(time), 0);
  event e;
  const auto end = [](std::optional<timer_service>& service, event& never) -> detached {
    const auto got = co_await with_timeout(*service, never.wait(), 10ms);
    if (got.timed_out()) service.reset();
  };
  end(timers, e);
  time.advance(1s);
  EXPECT_FALSE(timers.has_value());
  EXPECT_FALSE(e.is_awaited());
}

TEST(with_timeout, allocates_nothing_beside_the_frame) {
  manual_service service;
  event e;
  std::size_t before = 0, after = 0;
  const auto measure = [&]() -> routine {
    before = allocations::count();
    for (int i = 0; i < 100; ++i) static_cast<void>(co_await with_timeout(service.timers, e.wait(), 1ms));
    after = allocations::count();
  };
  const routine r = measure();
  service.time.advance(1s);
  ASSERT_TRUE(r.done());
  EXPECT_EQ(after, before);
}

}  // namespace
