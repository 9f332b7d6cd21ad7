// The input after a block, and the posts of other threads, that precede a verdict. On manual time.
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

namespace {

using io_wait = manual_test;

/// Turns until `p` has fired. Returns how many turns that took.
int turns_until_fired(manual_service& service, const probe& p) {
  int turns = 0;
  for (; p.fired == 0 && turns < 1000; ++turns) service.turn();
  return turns;
}

/// Turns once, so that what was armed before is no activity of the polls that follow.
void settle(manual_service& service) { service.turn(); }

TEST_F(io_wait, one_poll_is_enough_without_a_block) {
  p.arm(10ms);
  settle(service);
  service.time.oversleep(20ms);
  service.time.block(2ms);
  EXPECT_EQ(turns_until_fired(service, p), 1);
}

TEST_F(io_wait, timer_waits_for_two_quiet_polls_after_a_block) {
  for (const auto& [bound, polls] : {std::pair{tickwheel::service_options{}.io_wait, 2}, {0U, 1}}) {
    reopen({.io_wait = bound});
    p.fired = 0;
    p.arm(10ms);
    settle(service);
    service.time.block(20ms);
    EXPECT_EQ(turns_until_fired(service, p), polls) << bound;
  }
}

TEST_F(io_wait, timer_waits_while_polls_bring_activity) {
  probe other{timers};
  const std::function<void()> activities[] = {
      [&] { timers.now(); },
      [&] { other.arm(1h); },  // moves an armed one
      [&] { other.arm(1h); },
      [&] { EXPECT_TRUE(other.timeout.cancel()); },
  };
  p.arm(10ms);
  settle(service);
  service.time.block(20ms);
  for (const auto& active : activities) {
    active();
    service.turn();
    EXPECT_EQ(p.fired, 0);
  }
  EXPECT_EQ(turns_until_fired(service, p), 2);
}

TEST_F(io_wait, endless_activity_is_waited_for_up_to_bound) {
  reopen({.io_wait = 3});
  p.arm(10ms);
  settle(service);
  service.time.block(20ms);
  const auto stamp = service.time.now();
  while (p.fired == 0) {
    timers.now();
    service.turn();
    service.time.oversleep(1ms);
  }
  EXPECT_EQ(p.at, stamp + 60ms);
}

TEST_F(io_wait, timer_moved_by_late_input_does_not_fire) {
  probe moved{timers, 10ms}, cancelled{timers, 10ms};
  settle(service);
  service.time.block(20ms);
  service.turn();
  moved.arm(1s);
  service.turn();
  EXPECT_TRUE(cancelled.timeout.cancel());
  service.advance(100ms);
  EXPECT_EQ(moved.fired + cancelled.fired, 0);
}

TEST_F(io_wait, later_deadlines_wait_for_next_stamp) {
  p.arm(10ms);
  probe later{timers, 25ms};
  settle(service);
  service.time.block(20ms);  // the stamp
  service.turn();
  service.time.oversleep(10ms);
  service.turn();
  EXPECT_EQ(p.fired, 1);
  EXPECT_EQ(later.fired, 0);
  service.turn();
  EXPECT_EQ(later.fired, 1);
}

TEST_F(io_wait, carried_timers_do_not_wait_again) {
  reopen({.work_per_pass = 1});
  probes all{timers, 5, 10ms};
  settle(service);
  service.time.block(20ms);
  service.turn();
  for (int turns = 0; turns < 5; ++turns) service.turn();
  EXPECT_TRUE(all.each_fired_once());
}

// --- posts ---

class posts_before_timers : public testing::TestWithParam<std::size_t> {
 protected:
  manual_service service{{.work_per_pass = GetParam()}};
  tickwheel::timer_service& timers = service.timers;
  tickwheel::remote_handle handle = service.timers.remote();
};

TEST_P(posts_before_timers, all_are_delivered) {
  std::deque<probe> calls;
  int answered = 0;
  for (int i = 0; i < 100; ++i) {
    probe& call = calls.emplace_back(timers, 10ms);
    ASSERT_EQ(handle.post(0s, [&]() noexcept { answered += call.timeout.cancel(); }), 0);
  }
  service.time.oversleep(20ms);
  service.advance(0s);
  EXPECT_EQ(answered, 100);
  for (const probe& call : calls) EXPECT_EQ(call.fired, 0);
}

TEST_P(posts_before_timers, are_delivered_while_timers_wait_for_input) {
  probe p{timers, 10ms};
  settle(service);
  service.time.block(20ms);
  bool delivered = false;
  ASSERT_EQ(handle.post(0s, [&]() noexcept { delivered = true; }), 0);
  service.turn();
  EXPECT_TRUE(delivered);
  EXPECT_EQ(p.fired, 0);
}

TEST_P(posts_before_timers, with_a_delay_wait_for_input) {
  int ran = 0;
  settle(service);
  ASSERT_EQ(handle.post(10ms, count_in(ran)), 0);
  service.time.block(20ms);
  service.turn();
  EXPECT_EQ(ran, 0);
  service.advance(0s);
  EXPECT_EQ(ran, 1);
}

/// Posts itself again, for ever.
struct endless {
  tickwheel::remote_handle handle;
  long ran = 0;
  void post() {
    const auto again = [this]() noexcept {
      ++ran;
      post();
    };
    EXPECT_EQ(handle.post(0s, again), 0);
  }
};

TEST_P(posts_before_timers, do_not_starve_timers) {
  std::deque<endless> producers;
  for (int i = 0; i < 10; ++i) producers.emplace_back(endless{handle}).post();
  probe p{timers, 10ms};
  service.time.oversleep(20ms);
  EXPECT_LE(turns_until_fired(service, p), 40);
}

TEST_P(posts_before_timers, do_not_starve_zero_delays) {
  std::deque<endless> producers;
  for (int i = 0; i < 10; ++i) producers.emplace_back(endless{handle}).post();
  probe p{timers, 0s};
  EXPECT_LE(turns_until_fired(service, p), 3);
}

INSTANTIATE_TEST_SUITE_P(work_per_pass, posts_before_timers, testing::Values(1U, 2U, 3U, 1024U));

}  // namespace
