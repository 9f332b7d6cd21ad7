// What goes before a verdict: input after a block, and what other threads posted before. On manual time.
#include "../support/probe.hpp"

#include <tickwheel/uv/remote.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <vector>

using namespace std::chrono_literals;

namespace {

/// Turns until `p` has fired. Returns how many turns that took.
int turns_until_fired(manual_service& service, const probe& p) {
  int turns = 0;
  for (; p.fired == 0 && turns < 1000; ++turns) service.turn();
  return turns;
}

/// Turns once, so that what was armed before is no activity of the polls that follow.
void settle(manual_service& service) { service.turn(); }

TEST(judging, takes_one_poll_without_a_block) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  settle(service);
  service.time.oversleep(20ms);
  service.time.block(2ms);
  EXPECT_EQ(turns_until_fired(service, p), 1);
}

TEST(judging, takes_two_quiet_polls_after_a_block) {
  manual_service service;
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  settle(service);
  service.time.block(20ms);
  EXPECT_EQ(turns_until_fired(service, p), 2);
}

TEST(judging, takes_one_poll_after_a_block_if_io_wait_is_zero) {
  manual_service service{{.io_wait = 0}};
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  settle(service);
  service.time.block(20ms);
  EXPECT_EQ(turns_until_fired(service, p), 1);
}

TEST(judging, waits_while_polls_bring_activity) {
  manual_service service;
  probe p{service.timers}, other{service.timers};
  const std::function<void()> activities[] = {
      [&] { service.timers.now(); },
      [&] { EXPECT_EQ(other.timeout.arm(1h), 0); },  // moves an armed one
      [&] { EXPECT_EQ(other.timeout.arm(1h), 0); },
      [&] { EXPECT_TRUE(other.timeout.cancel()); },
  };
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  settle(service);
  service.time.block(20ms);
  for (const auto& active : activities) {
    active();
    service.turn();
    EXPECT_EQ(p.fired, 0);
  }
  EXPECT_EQ(turns_until_fired(service, p), 2);
}

TEST(judging, waits_no_longer_than_its_bound_for_endless_activity) {
  manual_service service{{.io_wait = 3}};
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  settle(service);
  service.time.block(20ms);
  const auto stamp = service.time.now();
  while (p.fired == 0) {
    service.timers.now();
    service.turn();
    service.time.oversleep(1ms);
  }
  EXPECT_EQ(p.at, stamp + 60ms);
}

TEST(judging, forgives_a_timer_that_input_moves_or_cancels_in_time) {
  manual_service service;
  probe moved{service.timers}, cancelled{service.timers};
  ASSERT_EQ(moved.timeout.arm(10ms), 0);
  ASSERT_EQ(cancelled.timeout.arm(10ms), 0);
  settle(service);
  service.time.block(20ms);
  service.turn();
  ASSERT_EQ(moved.timeout.arm(1s), 0);
  service.turn();
  EXPECT_TRUE(cancelled.timeout.cancel());
  service.advance(100ms);
  EXPECT_EQ(moved.fired + cancelled.fired, 0);
}

TEST(judging, leaves_later_deadlines_to_next_stamp) {
  manual_service service;
  probe p{service.timers}, later{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  ASSERT_EQ(later.timeout.arm(25ms), 0);
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

TEST(judging, does_not_wait_anew_for_what_was_carried_over) {
  manual_service service{{.work_per_pass = 1}};
  std::deque<probe> all;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(all.emplace_back(service.timers).timeout.arm(10ms), 0);
  settle(service);
  service.time.block(20ms);
  service.turn();
  for (int turns = 0; turns < 5; ++turns) service.turn();
  for (const probe& p : all) EXPECT_EQ(p.fired, 1);
}

// --- posts ---

class posts_before : public testing::TestWithParam<std::size_t> {
 protected:
  manual_service service{{.work_per_pass = GetParam()}};
  tickwheel::remote_handle handle = service.timers.remote();
};

TEST_P(posts_before, a_verdict_are_all_delivered) {
  std::deque<probe> calls;
  int answered = 0;
  for (int i = 0; i < 100; ++i) {
    probe* const call = &calls.emplace_back(service.timers);
    ASSERT_EQ(call->timeout.arm(10ms), 0);
    int* const count = &answered;
    ASSERT_EQ(handle.post(0s, [call, count]() noexcept { *count += call->timeout.cancel(); }), 0);
  }
  service.time.oversleep(20ms);
  service.advance(0s);
  EXPECT_EQ(answered, 100);
  for (const probe& call : calls) EXPECT_EQ(call.fired, 0);
}

TEST_P(posts_before, a_verdict_run_in_order) {
  std::vector<int> order;
  std::vector<int>* const seen = &order;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(handle.post(0s, [seen, i]() noexcept { seen->push_back(i); }), 0);
  service.advance(0s);
  ASSERT_EQ(order.size(), 20U);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_P(posts_before, a_verdict_are_delivered_while_it_waits_for_input) {
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  settle(service);
  service.time.block(20ms);
  bool delivered = false;
  bool* const ran = &delivered;
  ASSERT_EQ(handle.post(0s, [ran]() noexcept { *ran = true; }), 0);
  service.turn();
  EXPECT_TRUE(delivered);
  EXPECT_EQ(p.fired, 0);
}

TEST_P(posts_before, a_verdict_with_a_delay_wait_for_input_as_timers_do) {
  int ran = 0;
  int* const count = &ran;
  settle(service);
  ASSERT_EQ(handle.post(10ms, [count]() noexcept { ++*count; }), 0);
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
    endless* const self = this;
    EXPECT_EQ(handle.post(0s,
                          [self]() noexcept {
                            ++self->ran;
                            self->post();
                          }),
              0);
  }
};

TEST_P(posts_before, a_verdict_do_not_starve_it_without_end) {
  std::deque<endless> producers;
  for (int i = 0; i < 10; ++i) producers.emplace_back(endless{handle}).post();
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(10ms), 0);
  service.time.oversleep(20ms);
  EXPECT_LE(turns_until_fired(service, p), 40);
}

TEST_P(posts_before, a_verdict_do_not_starve_zero_delays) {
  std::deque<endless> producers;
  for (int i = 0; i < 10; ++i) producers.emplace_back(endless{handle}).post();
  probe p{service.timers};
  ASSERT_EQ(p.timeout.arm(0s), 0);
  EXPECT_LE(turns_until_fired(service, p), 3);
}

INSTANTIATE_TEST_SUITE_P(work_per_pass, posts_before, testing::Values(1U, 2U, 3U, 1024U));

}  // namespace
