// Steps of a coroutine that share a deadline, on manual time.
#include <tickwheel/net/with_deadline.hpp>

#include "../../uv/support/connected_sockets.hpp"

using tickwheel::deadline;
using tickwheel::timed_result;
using tickwheel::with_deadline;

namespace {

/// A service, and an event that is awaited until a deadline.
class with_deadline_test : private leak_check, public manual_test {
 protected:
  routine await_until(deadline until) { timed = co_await with_deadline(timers, e.wait(), until); }
  deadline in(std::chrono::nanoseconds budget) const { return deadline::after(budget, timers); }

  event e;
  timed_result<int> timed{unset, {}};
};
using with_deadline_of = with_deadline_test;

TEST_F(with_deadline_of, event_returns_value_in_time_and_cancels_its_timer) {
  const routine r = await_until(in(10ms));
  service.advance(9ms);
  e.come(42);
  ASSERT_TRUE(timed);
  EXPECT_EQ(*timed, 42);
  EXPECT_FALSE(service.time.alive());
}

TEST_F(with_deadline_of, event_ends_at_deadline_and_not_before) {
  const routine r = await_until(in(10ms));
  service.advance(10ms - 1ns);
  EXPECT_EQ(timed.error, unset);
  service.advance(1ns + service.tick());
  EXPECT_TRUE(timed.timed_out());
  EXPECT_FALSE(e.is_awaited());
}

TEST_F(with_deadline_of, event_is_not_begun_if_deadline_has_passed) {
  const deadline until = in(10ms);
  service.advance(10ms);
  const routine r = await_until(until);
  EXPECT_TRUE(timed.timed_out());
  EXPECT_EQ(e.begun, 0);
  EXPECT_EQ(timers.stats().armed, 0U);
}

TEST_F(with_deadline_of, ready_event_is_not_taken_if_deadline_has_passed) {
  e.come(42);
  const routine r = await_until(in(0ns));
  EXPECT_TRUE(timed.timed_out());
}

TEST_F(with_deadline_of, ready_event_needs_no_timer) {
  e.come(42);
  const routine r = await_until(in(10ms));
  ASSERT_TRUE(timed);
  EXPECT_EQ(*timed, 42);
  EXPECT_EQ(timers.stats().armed, 0U);
}

TEST_F(with_deadline_of, two_steps_gives_second_the_rest_of_budget) {
  event second;
  timed_result<int> last{unset, {}};
  const auto both = [&]() -> routine {
    const deadline until = in(10ms);
    timed = co_await with_deadline(timers, e.wait(), until);
    last = co_await with_deadline(timers, second.wait(), until);
  };
  const routine r = both();
  service.advance(6ms);
  e.come(42);
  EXPECT_TRUE(timed);
  service.advance(4ms - 1ns);
  EXPECT_EQ(last.error, unset);
  service.advance(1ns + service.tick());
  EXPECT_TRUE(last.timed_out());
}

TEST_F(with_deadline_of, tighter_step_within_a_step_ends_first) {
  timed_result<timed_result<int>> outer{unset, {}};
  const auto nested = [&]() -> routine {
    outer = co_await with_deadline(timers, with_deadline(timers, e.wait(), in(10ms)), in(1s));
  };
  const routine r = nested();
  service.advance(11ms);
  ASSERT_TRUE(outer);
  EXPECT_TRUE(outer->timed_out());
}

TEST_F(with_deadline_of, never_waits_until_event_comes) {
  const routine r = await_until(deadline::never());
  service.advance(24h * 365);
  EXPECT_EQ(timed.error, unset);
  e.come(42);
  EXPECT_TRUE(timed);
}

TEST_F(with_deadline_of, closed_service_takes_only_what_is_ready) {
  const deadline passed = in(-1s), later = in(1s);
  timers.close();
  {
    const routine r = await_until(later);
    EXPECT_EQ(timed.error, UV_ECANCELED);
    EXPECT_EQ(e.begun, 0);
  }
  e.come(42);
  const routine r = await_until(passed);
  EXPECT_TRUE(timed);
}

TEST_F(with_deadline_of, event_is_refused_at_max_armed) {
  reopen({.max_armed = 1});
  event other;
  timed_result<int> first{unset, {}};
  const auto wait = [&]() -> routine { first = co_await with_deadline(timers, other.wait(), in(1s)); };
  const routine a = wait();
  const routine b = await_until(in(1s));
  EXPECT_EQ(timed.error, UV_ENOBUFS);
  EXPECT_EQ(e.begun, 0);
}

TEST_F(with_deadline_of, event_is_given_up_with_its_frame) {
  routine r = await_until(in(10ms));
  r.destroy();
  EXPECT_FALSE(e.is_awaited());
  service.advance(1s);
  EXPECT_EQ(timed.error, unset);
}

TEST_F(with_deadline_of, event_allocates_nothing_besides_frame) {
  std::size_t count = 0;
  const auto measure = [&]() -> routine {
    const std::size_t before = allocations::count();
    for (int i = 0; i < 100; ++i) static_cast<void>(co_await with_deadline(timers, e.wait(), in(1ms)));
    count = allocations::count() - before;
  };
  const routine r = measure();
  service.time.advance(1s);
  EXPECT_TRUE(r.done());
  EXPECT_EQ(count, 0U);
}

// --- sockets ---------------------------------------------------------------------------------------------------------

using deadline_of_socket = tcp_test;

TEST_F(deadline_of_socket, ends_read) {
  connect();
  const routine r = read_into(got, ours, buffer, deadline::after(10ms, timers));
  service.advance(10ms - 1ns);
  EXPECT_EQ(got, unset);
  service.advance(1ns + service.tick());
  EXPECT_EQ(got, UV_ETIMEDOUT);
}

TEST_F(deadline_of_socket, never_is_no_limit) {
  connect();
  const routine r = read_into(got, ours, buffer, deadline::never());
  EXPECT_EQ(timers.stats().armed, 0U);
}

TEST_F(deadline_of_socket, by_with_deadline_ends_read) {
  connect();
  timed_result<ssize_t> read{unset, {}};
  const auto wait = [&]() -> routine {
    read = co_await with_deadline(timers, ours.read(buffer), deadline::after(10ms, timers));
  };
  const routine r = wait();
  service.advance(11ms);
  EXPECT_TRUE(read.timed_out());
  EXPECT_TRUE(ours.is_open());
}

}  // namespace
