// Which calls read the clock, as the reference says, and which take the time of the loop iteration.
#include "../../uv/support/probe.hpp"
#include "../../uv/support/still_driver.hpp"

#include <tickwheel/tickwheel.hpp>
#include <tickwheel/uv/coroutine.hpp>

using time_point = tickwheel::clock::time_point;
using tickwheel::deadline;
using tickwheel::timer_service;

namespace {

struct clock_reads : testing::Test {
  void SetUp() override {
    ASSERT_EQ(timers.open(driver), 0);
    ASSERT_EQ(other.timeout.arm(1h), 0);
  }
  // Within an iteration in which the time was asked for.
  template <class Call>
  int of(Call&& call) {
    timers.now();
    const int before = driver.reads;
    call();
    return driver.reads - before;
  }
  template <class Call>
  int of_first_in_iteration(Call&& call) {
    ++driver.polls;
    const int before = driver.reads;
    call();
    return driver.reads - before;
  }

  still_driver driver;
  timer_service timers;
  probe other{timers};
  void on_time() noexcept {}
  void on_phase(tickwheel::request_phase) noexcept {}
};

TEST_F(clock_reads, timer_reads_only_in_arm) {
  tickwheel::member_timer<&clock_reads::on_time> t{timers, *this};
  EXPECT_EQ(of([&] { (void)t.arm(5s); }), 1);
  EXPECT_EQ(of([&] { (void)t.arm(5s, 1s); }), 1);
  EXPECT_EQ(of([&] { (void)t.arm_at(time_point{2h}); }), 0);
  EXPECT_EQ(of([&] { t.deadline(); }), 0);
  EXPECT_EQ(of([&] { t.cancel(); }), 0);
  EXPECT_EQ(of_first_in_iteration([&] { (void)t.arm_at(time_point{2h}); }), 0);
}

TEST_F(clock_reads, arm_at_reads_only_if_none_is_armed) {
  other.timeout.cancel();
  EXPECT_EQ(of_first_in_iteration([&] { (void)other.timeout.arm_at(time_point{2h}); }), 1);
  other.timeout.cancel();
  EXPECT_EQ(of([&] { (void)other.timeout.arm_at(time_point{2h}); }), 0);
}

TEST_F(clock_reads, time_of_iteration_is_read_once) {
  EXPECT_EQ(of_first_in_iteration([&] { timers.now(); }), 1);
  EXPECT_EQ(of([&] { timers.now(); }), 0);
  EXPECT_EQ(of_first_in_iteration([&] { timers.responsive_now(); }), 1);
  EXPECT_EQ(of([&] { timers.responsive_now(); }), 0);
  EXPECT_EQ(of([&] { (void)timers.responsive(time_point{1h}); }), 0);
  EXPECT_EQ(of([&] { timers.update_now(); }), 1);
  EXPECT_EQ(of([&] { (void)timers.read_clock(); }), 1);
}

TEST_F(clock_reads, statistics_read_none) {
  EXPECT_EQ(of_first_in_iteration([&] { (void)timers.stats(); }), 0);
  EXPECT_EQ(of_first_in_iteration([&] { (void)timers.why(); }), 0);
  EXPECT_EQ(of_first_in_iteration([&] { (void)timers.validate(); }), 0);
}

TEST_F(clock_reads, interval_timer_reads_only_in_start) {
  tickwheel::interval_timer<&clock_reads::on_time> t{timers, *this};
  EXPECT_EQ(of([&] { (void)t.start(5s); }), 1);
  EXPECT_EQ(of([&] { t.cancel(); }), 0);
}

TEST_F(clock_reads, idle_timeout_reads_in_start_and_first_touch) {
  tickwheel::idle_timeout<&clock_reads::on_time> t{timers, *this};
  EXPECT_EQ(of([&] { (void)t.start(60s); }), 1);
  EXPECT_EQ(of_first_in_iteration([&] { t.touch(); }), 1);
  EXPECT_EQ(of([&] { t.touch(); }), 0);
  EXPECT_EQ(of([&] { t.pause(); }), 0);
  EXPECT_EQ(of([&] { t.resume(); }), 0);
  EXPECT_EQ(of([&] { t.cancel(); }), 0);
  EXPECT_EQ(of([&] { t.notify_again(); }), 0);
}

TEST_F(clock_reads, write_idle_timeout_reads_only_in_start) {
  tickwheel::write_idle_timeout<&clock_reads::on_time> t{timers, *this};
  EXPECT_EQ(of([&] { (void)t.start(60s); }), 1);
  EXPECT_EQ(of([&] { t.add_queued(10); }), 0);
  EXPECT_EQ(of([&] { t.set_queued(5); }), 0);
}

// That a peer moved bytes shows in the iteration's time having been read.
TEST_F(clock_reads, minimum_rate_reads_in_start_and_first_progress) {
  tickwheel::minimum_rate<&clock_reads::on_time> t{timers, *this};
  EXPECT_EQ(of([&] { (void)t.start({}); }), 1);
  EXPECT_EQ(of_first_in_iteration([&] { t.progress(1); }), 1);
  EXPECT_TRUE(timers.has_now());
  EXPECT_EQ(of([&] { t.progress(1); }), 0);
  EXPECT_EQ(of([&] { t.pause(); }), 0);
  EXPECT_EQ(of([&] { t.resume(); }), 0);
}

TEST_F(clock_reads, phase_timeouts_read_only_in_start) {
  tickwheel::phase_timeouts<&clock_reads::on_phase> t{timers, *this};
  EXPECT_EQ(of([&] { (void)t.start({}); }), 1);
  EXPECT_EQ(of([&] { t.on_header_end(); }), 0);
  EXPECT_EQ(of([&] { t.on_request_end(); }), 0);
  EXPECT_EQ(of([&] { t.on_response_end(); }), 0);
  EXPECT_EQ(of([&] { t.on_bytes(); }), 0);
}

TEST_F(clock_reads, deadline_timer_reads_in_start_unless_told_time) {
  tickwheel::deadline_timer<&clock_reads::on_time> t{timers, *this};
  EXPECT_EQ(of([&] { (void)t.start(deadline::at(time_point{2h})); }), 1);
  EXPECT_EQ(of([&] { (void)t.start(deadline::at(time_point{2h}), time_point{1h}); }), 0);
}

struct call : tickwheel::pending_call {
  using pending_call::pending_call;
  void on_failed(int) noexcept {}
};

TEST_F(clock_reads, pending_calls_read_in_start_unless_told_time) {
  tickwheel::pending_calls<&call::on_failed> calls;
  ASSERT_EQ(calls.open(10), 0);
  call first{timers}, second{timers};
  const deadline until = deadline::at(time_point{2h});
  EXPECT_EQ(of([&] { (void)calls.start(first, 1, until); }), 1);
  EXPECT_EQ(of([&] { (void)calls.start(second, 2, until, time_point{1h}); }), 0);
  EXPECT_EQ(of([&] { (void)calls.complete(1); }), 0);
  EXPECT_EQ(of([&] { calls.fail_all(UV_ECONNRESET); }), 0);
}

struct policed_call : tickwheel::policy_call {
  using policy_call::policy_call;
  int send(tickwheel::call_attempt) noexcept { return 0; }
  void on_failed(int) noexcept {}
};

TEST_F(clock_reads, call_policy_reads_in_start_and_for_retries) {
  tickwheel::call_policy<&policed_call::send, &policed_call::on_failed> calls;
  ASSERT_EQ(calls.open({.capacity = 10, .hedge_quantile = 0.5, .seed = 1}), 0);
  policed_call first{timers}, second{timers}, third{timers};
  EXPECT_EQ(of([&] { (void)calls.start(first); }), 1);
  EXPECT_EQ(of([&] { (void)calls.start(second); }), 1);
  EXPECT_EQ(of([&] { (void)calls.start(third); }), 1);
  EXPECT_EQ(of([&] { (void)calls.complete(1); }), 0);
  EXPECT_EQ(of([&] { calls.fail(2, UV_EAGAIN); }), 1);
  EXPECT_EQ(of([&] { calls.fail_all(UV_ECONNRESET); }), 1);
  EXPECT_EQ(of([&] { second.cancel(); }), 0);
}

TEST_F(clock_reads, retry_timer_reads_in_start_and_retry) {
  tickwheel::retry_timer<&clock_reads::on_time> t{timers, *this, {}, nullptr, 1};
  EXPECT_EQ(of([&] { (void)t.start(); }), 1);
  EXPECT_EQ(of([&] { (void)t.retry(); }), 1);
  EXPECT_EQ(of([&] { t.cancel(); }), 0);
}

TEST_F(clock_reads, sleep_reads_only_in_sleep_for) {
  EXPECT_EQ(of([&] { (void)tickwheel::sleep_for(timers, 5s); }), 1);
  EXPECT_EQ(of([&] { (void)tickwheel::sleep_until(timers, time_point{2h}); }), 0);
}

}  // namespace
