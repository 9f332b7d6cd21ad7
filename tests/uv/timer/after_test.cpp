// `timer_service::after`: a call that nobody else owns. It runs once, or is destroyed when the service closes.
#include "../support/allocation_checks.hpp"
#include "../support/counted_callable.hpp"
#include "../support/probe.hpp"

#include <tickwheel/uv/after.hpp>

namespace {

using callable = counted_callable<>;
using after = manual_test;

TEST_F(after, runs_once_when_its_time_has_come) {
  int ran = 0;
  ASSERT_EQ(timers.after(10ms, [&]() noexcept { ++ran; }), 0);
  service.advance(10ms - 1ns);
  EXPECT_EQ(ran, 0);
  service.advance(1ns + service.tick());
  EXPECT_EQ(ran, 1);
  service.advance(1h);
  EXPECT_EQ(ran, 1);
}

TEST_F(after, holds_the_loop_until_it_has_run) {
  ASSERT_EQ(timers.after(10ms, []() noexcept {}), 0);
  EXPECT_TRUE(service.time.alive());
  service.advance(1s);
  EXPECT_FALSE(service.time.alive());
}

TEST_F(after, destroys_its_callable_after_the_call) {
  callable_log log;
  ASSERT_EQ(timers.after(10ms, callable{log}), 0);
  EXPECT_EQ(log.destroyed, 0);
  service.advance(1s);
  EXPECT_EQ(log.ran, 1);
  EXPECT_TRUE(log.all_ended());
}

TEST_F(after, copies_an_lvalue) {
  callable_log log;
  {
    callable kept{log};
    ASSERT_EQ(timers.after(10ms, kept), 0);
    EXPECT_TRUE(kept);
  }
  service.advance(1s);
  EXPECT_EQ(log.ran, 1);
  EXPECT_TRUE(log.all_ended());
}

TEST_F(after, close_destroys_the_callable_without_the_call) {
  callable_log log;
  ASSERT_EQ(timers.after(10ms, callable{log}), 0);
  ASSERT_EQ(timers.after(0ms, callable{log}), 0);
  timers.close();
  EXPECT_EQ(log.ran, 0);
  EXPECT_TRUE(log.all_ended());
}

TEST_F(after, allocates_one_block_whatever_the_size) {
  callable_log log;
  const auto before = allocations::count();
  ASSERT_EQ(timers.after(10ms, counted_callable<1024>{log}), 0);
  EXPECT_EQ(allocations::count(), before + 1);
  service.advance(1s);
  EXPECT_EQ(log.ran, 1);
}

// The parameter: the answer.
class refused_after : public after, public testing::WithParamInterface<int> {};

TEST_P(refused_after, leaves_the_callable_with_its_caller) {
  probe armed{timers};
  reopen({.max_armed = 1});
  armed.arm(1h);
  if (GetParam() == UV_ECANCELED) timers.close();
  if (GetParam() == UV_ENOMEM) armed.timeout.cancel();
  callable_log log;
  callable kept{log};
  const auto ask = [&] { return timers.after(10ms, std::move(kept)); };
  EXPECT_EQ(GetParam() == UV_ENOMEM ? allocations::without_memory(ask) : ask(), GetParam());
  EXPECT_TRUE(kept);
  service.advance(1s);
  EXPECT_EQ(log.ran, 0);
  EXPECT_EQ(log.destroyed, 0);
}

INSTANTIATE_TEST_SUITE_P(answers, refused_after, testing::Values(UV_ENOMEM, UV_ENOBUFS, UV_ECANCELED));

TEST_F(after, may_call_after_again) {
  int ran = 0;
  ASSERT_EQ(timers.after(10ms,
                         [&]() noexcept {
                           ++ran;
                           EXPECT_EQ(timers.after(10ms, [&]() noexcept { ++ran; }), 0);
                         }),
            0);
  service.advance(1s);
  EXPECT_EQ(ran, 2);
}

TEST_F(after, is_in_the_counts_of_timers) {
  ASSERT_EQ(timers.after(10ms, []() noexcept {}), 0);
  EXPECT_EQ(timers.stats().pending, 1U);
  service.advance(1s);
  EXPECT_EQ(timers.stats().fired, 1U);
  EXPECT_TRUE(adds_up(timers));
}

// A call that was cancelled in a walk over all timers is freed with the service.
TEST_F(after, cancelled_in_a_walk_is_freed_by_close) {
  callable_log log;
  ASSERT_EQ(timers.after(10ms, callable{log}), 0);
  timers.for_each_armed([](tickwheel::timer& t) { t.cancel(); });
  service.advance(1s);
  EXPECT_EQ(log.ran, 0);
  timers.close();
  EXPECT_TRUE(log.all_ended());
}

TEST(after_and_service, call_may_close_the_service) {
  mortal_service mortal;
  callable_log log;
  int ran = 0;
  ASSERT_EQ(mortal.timers->after(10ms,
                                 [&, other = callable{log}]() noexcept {
                                   ++ran;
                                   mortal.timers->close();
                                 }),
            0);
  ASSERT_EQ(mortal.timers->after(20ms, callable{log}), 0);
  mortal.time.advance(1s);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(log.ran, 0);
  EXPECT_TRUE(log.all_ended());
}

TEST(after_and_service, call_may_destroy_the_service) {
  mortal_service mortal;
  callable_log log;
  ASSERT_EQ(mortal.timers->after(10ms, [&]() noexcept { mortal.timers.reset(); }), 0);
  ASSERT_EQ(mortal.timers->after(20ms, callable{log}), 0);
  mortal.time.advance(1s);
  EXPECT_EQ(mortal.timers, nullptr);
  EXPECT_TRUE(log.all_ended());
}

TEST(after_and_service, destructor_of_a_callable_may_destroy_the_service) {
  mortal_service mortal;
  callable_log log;
  log.in_destructor = [&] { mortal.timers.reset(); };
  ASSERT_EQ(mortal.timers->after(10ms, callable{log}), 0);
  ASSERT_EQ(mortal.timers->after(20ms, callable{log}), 0);
  mortal.timers->close();
  EXPECT_EQ(mortal.timers, nullptr);
  EXPECT_EQ(log.ran, 0);
  EXPECT_TRUE(log.all_ended());
}

TEST(after_and_service, destructor_after_the_call_may_destroy_the_service) {
  mortal_service mortal;
  callable_log log;
  log.in_destructor = [&] { mortal.timers.reset(); };
  ASSERT_EQ(mortal.timers->after(10ms, callable{log}), 0);
  ASSERT_EQ(mortal.timers->after(20ms, callable{log}), 0);
  mortal.time.advance(1s);
  EXPECT_EQ(log.ran, 1);
  EXPECT_TRUE(log.all_ended());
}

TEST(after_and_service, destructor_in_close_may_open_the_service_again) {
  mortal_service mortal;
  callable_log log;
  int ran = 0;
  log.in_destructor = [&] {
    EXPECT_EQ(mortal.timers->open(mortal.time), 0);
    EXPECT_EQ(mortal.timers->after(10ms, [&]() noexcept { ++ran; }), 0);
  };
  ASSERT_EQ(mortal.timers->after(10ms, callable{log}), 0);
  ASSERT_EQ(mortal.timers->after(20ms, callable{log}), 0);
  mortal.timers->close();
  EXPECT_TRUE(log.all_ended());
  mortal.time.advance(1s);
  EXPECT_EQ(ran, 1);
}

}  // namespace
