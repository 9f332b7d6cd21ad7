// The contract that all timers share, once for each class: arming, cancelling, destruction in a handler, closing, max_armed,
// references and threads.
#include "../../support/allocation_probe.hpp"
#include "../../uv/support/probe.hpp"
#include "subjects.hpp"

namespace {

template <class Subject>
class timer_contract : public testing::Test {
 protected:
  void advance(std::chrono::nanoseconds by) { service.advance(by); }
  /// As `advance`, once the service is closed, or a handler may close it.
  void advance_closed(std::chrono::nanoseconds by) { service.time.advance(by); }
  /// An allowance for what a class rounds up to ticks.
  std::chrono::nanoseconds slack() const { return 2 * service.tick(); }

  template <class F>
  static void on_another_thread(F call) {
    std::thread{call}.join();
  }

  manual_service service;
  Subject s{service.timers};
};

using all = testing::Types<subjects::plain_timer, subjects::plain_timer_at, subjects::callback_timer,
                           subjects::member_timer, subjects::interval_timer, subjects::deadline_timer,
                           subjects::idle_timeout, subjects::write_idle_timeout, subjects::all_idle_timeout,
                           subjects::minimum_rate, subjects::phase_timeouts, subjects::retry_timer,
                           subjects::pending_call, subjects::call_policy, subjects::map_entry, subjects::offload>;

TYPED_TEST_SUITE(timer_contract, all, subjects::names);

TYPED_TEST(timer_contract, timer_neither_copies_nor_moves) {
  using timer = decltype(this->s.timer);
  static_assert(!std::is_copy_constructible_v<timer> && !std::is_move_constructible_v<timer>);
  static_assert(!std::is_copy_assignable_v<timer> && !std::is_move_assignable_v<timer>);
  static_assert(std::is_nothrow_destructible_v<timer>);
}

TYPED_TEST(timer_contract, is_not_armed_at_first) {
  EXPECT_FALSE(this->s.timer.armed());
  EXPECT_FALSE(this->s.timer.cancel());
  EXPECT_TRUE(this->s.timer.has_ref());
}

TYPED_TEST(timer_contract, fires_after_its_time_and_not_before) {
  const auto begin = this->service.time.now();
  ASSERT_EQ(this->s.start(1s), 0);
  EXPECT_TRUE(this->s.timer.armed());
  this->advance(1s - 1ns);
  EXPECT_EQ(this->s.fired, 0);
  this->advance(1ns + this->slack());
  EXPECT_EQ(this->s.fired, 1);
  EXPECT_GE(this->s.at, begin + 1s);
  EXPECT_EQ(this->s.timer.armed(), subjects::repeats<TypeParam>);
}

TYPED_TEST(timer_contract, fires_once_unless_it_is_an_interval) {
  ASSERT_EQ(this->s.start(1s), 0);
  this->advance(10s + 10 * this->slack());
  EXPECT_EQ(this->s.fired, subjects::repeats<TypeParam> ? 10 : 1);
  ASSERT_EQ(this->s.start(1h), 0);
  this->advance(1h + this->slack());
  EXPECT_EQ(this->s.fired, subjects::repeats<TypeParam> ? 11 : 2);
}

TYPED_TEST(timer_contract, started_again_with_shorter_time_fires_then) {
  ASSERT_EQ(this->s.start(1h), 0);
  ASSERT_EQ(this->s.start(1s), 0);
  this->advance(1s + this->slack());
  EXPECT_EQ(this->s.fired, 1);
  EXPECT_EQ(this->service.timers.stats().pending, subjects::repeats<TypeParam> ? 1U : 0U);
}

TYPED_TEST(timer_contract, started_again_with_longer_time_fires_then) {
  ASSERT_EQ(this->s.start(1s), 0);
  this->advance(1s - 1ns);
  ASSERT_EQ(this->s.start(1h), 0);
  this->advance(1h - 1ns);
  EXPECT_EQ(this->s.fired, 0);
  this->advance(1ns + this->slack());
  EXPECT_EQ(this->s.fired, 1);
}

TYPED_TEST(timer_contract, cancelled_does_not_fire) {
  ASSERT_EQ(this->s.start(1s), 0);
  EXPECT_TRUE(this->s.timer.cancel());
  EXPECT_FALSE(this->s.timer.cancel());
  EXPECT_FALSE(this->s.timer.armed());
  EXPECT_FALSE(this->service.time.alive());
  this->advance(1h);
  EXPECT_EQ(this->s.fired, 0);
  EXPECT_EQ(this->service.timers.stats().pending, 0U);
}

TYPED_TEST(timer_contract, cancelled_by_handler_of_same_pass_does_not_fire) {
  for (const bool first : {false, true}) {
    TypeParam a{this->service.timers}, b{this->service.timers};
    a.then = [&] { b.timer.cancel(); };
    b.then = [&] { a.timer.cancel(); };
    ASSERT_EQ((first ? a : b).start(1s), 0);
    ASSERT_EQ((first ? b : a).start(1s), 0);
    this->advance(1s + this->slack());
    EXPECT_EQ(a.fired + b.fired, 1) << "the first cancels the second";
  }
}

TYPED_TEST(timer_contract, destroyed_while_armed_is_cancelled) {
  {
    TypeParam gone{this->service.timers};
    ASSERT_EQ(gone.start(1s), 0);
  }
  EXPECT_EQ(this->service.timers.stats().pending, 0U);
  EXPECT_EQ(this->service.timers.stats().cancelled, 1U);
  EXPECT_FALSE(this->service.time.alive());
  this->advance(1h);
}

TYPED_TEST(timer_contract, handler_may_destroy_owner) {
  auto owner = std::make_unique<TypeParam>(this->service.timers);
  owner->then = [&] { owner.reset(); };
  ASSERT_EQ(owner->start(1s), 0);
  this->advance(1h);
  EXPECT_EQ(owner, nullptr);
  EXPECT_EQ(this->service.timers.stats().fired, 1U);
}

TYPED_TEST(timer_contract, handler_may_start_it_again) {
  this->s.then = [this] { EXPECT_EQ(this->s.start(1s), 0); };
  ASSERT_EQ(this->s.start(1s), 0);
  this->advance(10s + 10 * this->slack());
  EXPECT_EQ(this->s.fired, 10);
}

TYPED_TEST(timer_contract, handler_may_cancel_it) {
  this->s.then = [this] {
    EXPECT_EQ(this->s.timer.armed(), subjects::repeats<TypeParam>);
    EXPECT_EQ(this->s.timer.cancel(), subjects::repeats<TypeParam>);
  };
  ASSERT_EQ(this->s.start(1s), 0);
  this->advance(1h);
  EXPECT_EQ(this->s.fired, 1);
  EXPECT_FALSE(this->s.timer.armed());
}

TYPED_TEST(timer_contract, handler_may_close_service) {
  TypeParam other{this->service.timers};
  this->s.then = [this] {
    this->service.timers.close();
    EXPECT_EQ(this->s.start(1s), UV_ECANCELED);
  };
  ASSERT_EQ(this->s.start(1s), 0);
  ASSERT_EQ(other.start(2s), 0);
  this->advance_closed(1h);
  EXPECT_EQ(this->s.fired, 1);
  EXPECT_EQ(other.fired, 0);
  EXPECT_FALSE(this->s.timer.armed());
  EXPECT_FALSE(other.timer.armed());
  EXPECT_EQ(other.start(1s), UV_ECANCELED);
}

TYPED_TEST(timer_contract, handler_may_destroy_service) {
  mortal_service own;
  TypeParam one{*own.timers};
  one.then = [&] { own.timers.reset(); };
  ASSERT_EQ(one.start(1s), 0);
  own.time.advance(1h);
  EXPECT_FALSE(own.timers);
  EXPECT_EQ(one.fired, 1);
  EXPECT_FALSE(one.timer.armed());
}

TYPED_TEST(timer_contract, outlives_its_service) {
  mortal_service own;
  TypeParam one{*own.timers}, cancelled{*own.timers};
  ASSERT_EQ(one.start(1s), 0);
  ASSERT_EQ(cancelled.start(1s), 0);
  cancelled.timer.cancel();  // still linked
  own.timers.reset();
  EXPECT_FALSE(one.timer.armed());
  EXPECT_FALSE(one.timer.cancel());
  own.time.advance(1h);
  EXPECT_EQ(one.fired, 0);
}

TYPED_TEST(timer_contract, closed_service_refuses_start_until_reopened) {
  ASSERT_EQ(this->s.start(1s), 0);
  this->service.timers.close();
  EXPECT_FALSE(this->s.timer.armed());
  EXPECT_FALSE(this->s.timer.cancel());
  EXPECT_EQ(this->s.start(1s), UV_ECANCELED);
  ASSERT_EQ(this->service.timers.open(this->service.time), 0);
  ASSERT_EQ(this->s.start(1s), 0);
  this->advance(1s + this->slack());
  EXPECT_EQ(this->s.fired, 1);
}

#ifndef NDEBUG
TYPED_TEST(timer_contract, start_before_any_open_stops_debug_build) {
  tickwheel::timer_service never_opened;
  TypeParam one{never_opened};
  EXPECT_DEATH((void)one.start(1s), "never opened");
}
#endif

TYPED_TEST(timer_contract, one_more_than_max_armed_is_refused) {
  manual_service small{{.max_armed = 1}};
  TypeParam a{small.timers}, b{small.timers};
  ASSERT_EQ(a.start(1h), 0);
  EXPECT_EQ(b.start(1s), UV_ENOBUFS);
  EXPECT_FALSE(b.timer.armed());
  EXPECT_EQ(a.start(1s), 0) << "it has its place already";
  small.advance(1s + this->slack());
  EXPECT_EQ(a.fired, 1);
  EXPECT_EQ(b.fired, 0);
  a.timer.cancel();
  EXPECT_EQ(b.start(1s), 0) << "there is a place again";
}

// Timers of other threads are not refused once they were accepted, so there may be more of them than `max_armed`.
TYPED_TEST(timer_contract, keeps_its_place_when_other_threads_fill_all) {
  manual_service small{{.max_armed = 1, .stall_grace = 10ms}};
  TypeParam a{small.timers};
  ASSERT_EQ(a.start(1s), 0);
  ASSERT_EQ(small.timers.remote().post(1h, []() noexcept {}), 0);
  small.turn();
  ASSERT_EQ(small.timers.stats().pending, 2U);
  small.time.block(990ms);
  small.advance(0ns);
  EXPECT_EQ(a.fired, 0);
  EXPECT_TRUE(a.timer.armed());
  small.advance(1900ms);
  EXPECT_EQ(a.fired, subjects::repeats<TypeParam> ? 2 : 1);
}

TYPED_TEST(timer_contract, holds_loop_while_armed_unless_unreferenced) {
  EXPECT_FALSE(this->service.time.alive());
  ASSERT_EQ(this->s.start(1s), 0);
  EXPECT_TRUE(this->service.time.alive());
  for (int times = 0; times < 2; ++times) {
    this->s.timer.unref();
    EXPECT_FALSE(this->s.timer.has_ref());
    EXPECT_FALSE(this->service.time.alive());
  }
  this->s.timer.cancel();
  ASSERT_EQ(this->s.start(1s), 0);
  EXPECT_FALSE(this->service.time.alive()) << "the next start keeps it";
  this->s.timer.ref();
  EXPECT_TRUE(this->service.time.alive());
  this->advance(1s + this->slack());
  EXPECT_EQ(this->s.fired, 1);
  EXPECT_EQ(this->service.time.alive(), subjects::repeats<TypeParam>);
}

TYPED_TEST(timer_contract, has_same_handler_as_its_class) {
  if constexpr (requires { this->s.timer.handler(); }) {
    const tickwheel::wheel_entry::callback handler = this->s.timer.handler();
    EXPECT_NE(handler, nullptr);
    EXPECT_EQ(handler, TypeParam{this->service.timers}.timer.handler());
    EXPECT_NE(handler, probe{this->service.timers}.timeout.handler());
  }
}

TYPED_TEST(timer_contract, allocates_nothing) {
  if (std::is_same_v<TypeParam, subjects::map_entry>) GTEST_SKIP() << "each start opens a map";
  if (std::is_same_v<TypeParam, subjects::offload>) GTEST_SKIP() << "an offload allocates its work";
  const auto before = allocations::count();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(this->s.start(1h), 0);
    ASSERT_EQ(this->s.start(50ms), 0);
    this->advance_closed(i % 2 == 0 ? 20ms : 60ms);
    this->s.timer.cancel();
  }
  EXPECT_EQ(allocations::count(), before);
  EXPECT_EQ(this->s.fired, 500);
}

TYPED_TEST(timer_contract, wrong_thread_stops_process_with_message) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(this->on_another_thread([this] { (void)this->s.start(1s); }), "tickwheel: .*thread");
  ASSERT_EQ(this->s.start(1h), 0);
  EXPECT_DEATH(this->on_another_thread([this] { this->s.timer.cancel(); }), "tickwheel: .*thread");
  EXPECT_DEATH(this->on_another_thread([this] { this->s.timer.unref(); }), "tickwheel: .*thread");
}

}  // namespace
