// How many timers may be armed at once, and how much a pass does.
#include "../support/probe.hpp"

#include <tickwheel/uv/remote.hpp>

namespace {

using max_armed_timers = manual_test;

class work_per_pass : public manual_test {
 protected:
  /// Turns until no pass runs, each of which is to call so many handlers at most. Returns how many ran.
  std::size_t expect_passes_of_at_most(std::size_t most) {
    std::size_t turns = 0;
    for (std::size_t fired = 0; service.turn(); fired = timers.stats().fired, ++turns)
      EXPECT_LE(timers.stats().fired - fired, most);
    return turns;
  }
};

TEST_F(max_armed_timers, one_more_is_refused_and_changes_nothing) {
  reopen({.max_armed = 2});
  probe a{timers, 10ms}, b{timers, 10ms}, c{timers};
  const auto wakeup = service.time.next_wakeup();
  EXPECT_EQ(c.timeout.arm(1ms), UV_ENOBUFS);
  EXPECT_EQ(c.timeout.arm_at(timers.now()), UV_ENOBUFS);
  EXPECT_FALSE(c.timeout.armed());
  EXPECT_EQ(service.time.next_wakeup(), wakeup);
  EXPECT_EQ(timers.stats().refused, 2U);
  EXPECT_EQ(timers.stats().pending, 2U);
  service.advance(1s);
  EXPECT_EQ(a.fired + b.fired, 2);
  EXPECT_EQ(c.fired, 0);
}

TEST_F(max_armed_timers, expiry_and_destruction_free_a_place) {
  reopen({.max_armed = 1});
  probe b{timers};
  probe a{timers, 10ms, [&] { b.arm(1ms); }};
  service.advance(20ms);
  EXPECT_EQ(a.fired, 1);
  EXPECT_EQ(b.fired, 1);
  { const probe gone{timers, 10ms}; }
  b.arm(10ms);
  EXPECT_EQ(timers.stats().refused, 0U);
}

TEST_F(max_armed_timers, zero_refuses_every_timer) {
  reopen({.max_armed = 0});
  EXPECT_EQ(p.timeout.arm(10ms), UV_ENOBUFS);
  service.check();
}

TEST_F(max_armed_timers, counts_unreferenced_timers) {
  reopen({.max_armed = 1});
  probe other{timers};
  p.timeout.unref();
  p.arm(10ms);
  EXPECT_EQ(other.timeout.arm(10ms), UV_ENOBUFS);
}

TEST_F(work_per_pass, bounds_the_callbacks_of_a_pass) {
  reopen({.work_per_pass = 10});
  probes all{timers, 100, 1ms};
  service.time.block(2ms);
  EXPECT_GE(expect_passes_of_at_most(10), 10U);
  EXPECT_EQ(timers.stats().fired, 100U);
  EXPECT_GE(timers.stats().carried, 9U);
  EXPECT_FALSE(service.time.carrying());
}

TEST_F(work_per_pass, of_one_still_runs_all_timers) {
  reopen({.work_per_pass = 1});
  probes all{timers, 500, [](int i) { return i * 7ms; }};
  service.advance(10s);
  EXPECT_TRUE(all.each_fired_once());
}

TEST_F(work_per_pass, pass_is_cut_after_time_per_pass) {
  reopen({.time_per_pass = 1ms});
  probes all{timers, 100, 1ms, [&] { service.time.block(200us); }};
  service.time.block(2ms);
  for (std::size_t fired = 5; fired < 100; fired += 5) {
    EXPECT_TRUE(service.turn());
    EXPECT_EQ(timers.stats().fired, fired);
    EXPECT_TRUE(service.time.carrying());
  }
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(timers.stats().fired, 100U);
  EXPECT_FALSE(service.time.carrying());
  EXPECT_EQ(timers.stats().carried, 19U);
}

// It exceeds its time by less than one handler, although the clock is not read for each.
TEST_F(work_per_pass, pass_of_equal_handlers_ends_on_time) {
  for (const auto each : {1us, 7us, 31us, 33us, 62us, 99us, 251us, 399us, 999us, 1001us}) {
    SCOPED_TRACE(each.count());
    reopen({.work_per_pass = tickwheel::unlimited, .time_per_pass = 1ms, .io_wait = 0});
    const auto count = static_cast<int>(2ms / each) + 2;
    probes all{timers, count, 1ms, [&] { service.time.block(each); }};
    service.time.block(2ms);
    const auto begin = service.time.now();
    EXPECT_TRUE(service.turn());
    EXPECT_TRUE(service.time.carrying());
    EXPECT_GE(service.time.now() - begin, 1ms);
    EXPECT_LT(service.time.now() - begin, 1ms + each);
  }
}

TEST_F(work_per_pass, pass_of_slow_handlers_is_cut_after_the_first) {
  reopen({.time_per_pass = 1ms});
  probes all{timers, 3, 1ms, [&] { service.time.block(5ms); }};
  service.time.block(2ms);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(timers.stats().fired, 1U);
}

// The clock is not read for each handler, but a slow one is noticed when the next begins.
TEST_F(work_per_pass, pass_is_cut_soon_after_handlers_become_slow) {
  for (const int quick : {0, 1, 2, 3, 10, 31, 32, 33, 100}) {
    SCOPED_TRACE(quick);
    reopen({.time_per_pass = 1ms, .io_wait = 0});
    int ran = 0;
    probes all{timers, quick + 50, 1ms, [&] {
                 if (++ran > quick) service.time.block(600us);
               }};
    service.time.block(2ms);
    EXPECT_TRUE(service.turn());
    EXPECT_GE(ran, quick + 2);
    EXPECT_LE(ran, quick + 3);  // 3 if the first slow one is the last before the clock is read
  }
}

TEST_F(work_per_pass, pass_after_a_quick_one_is_cut_after_two_slow_handlers) {
  reopen({.time_per_pass = 1ms});
  bool slow = false;
  probes all{timers, 50, 1ms, [&] {
               if (slow) service.time.block(5ms);
             }};
  service.advance(2ms);
  EXPECT_EQ(timers.stats().fired, 50U);
  slow = true;
  for (probe& each : all) each.arm(1ms);
  service.time.block(2ms);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(timers.stats().fired, 52U);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(timers.stats().fired, 53U);
}

TEST_F(work_per_pass, handler_that_asks_why_does_not_hide_that_it_is_slow) {
  reopen({.time_per_pass = 1ms});
  int ran = 0;
  probes all{timers, 50, 1ms, [&] {
               if (++ran > 1) service.time.block(100us);
               static_cast<void>(timers.why());
             }};
  service.time.block(2ms);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(ran, 11);
}

TEST_F(work_per_pass, posts_are_cut_soon_after_they_become_slow) {
  reopen({.time_per_pass = 1ms});
  int ran = 0;
  const auto post = timers.remote();
  for (int i = 0; i < 50; ++i)
    ASSERT_EQ(post.post([&]() noexcept {
      if (++ran > 10) service.time.block(600us);
    }),
              0);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(ran, 12);
}

// The callables of cancelled posts are destroyed on the loop's thread, and may take their time.
TEST_F(work_per_pass, destructors_of_posts_are_cut_soon_after_they_become_slow) {
  struct slow_to_destroy {
    slow_to_destroy(manual_service& s, int& count) : service{&s}, destroyed{count} {}
    slow_to_destroy(slow_to_destroy&& from) noexcept
        : service{std::exchange(from.service, nullptr)}, destroyed{from.destroyed} {}
    ~slow_to_destroy() {
      if (service == nullptr) return;
      ++destroyed;
      service->time.block(600us);
    }
    void operator()() const noexcept {}
    manual_service* service;
    int& destroyed;
  };
  int destroyed = 0;
  reopen({.time_per_pass = 1ms});
  const auto remote = timers.remote();
  for (int i = 0; i < 50; ++i) {
    tickwheel::remote_timer cancelled;
    ASSERT_EQ(remote.arm(1h, slow_to_destroy{service, destroyed}, cancelled), 0);
    EXPECT_EQ(cancelled.cancel(), tickwheel::remote_timer::outcome::cancelled);
  }
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(destroyed, 2);
  timers.close();  // destroys the others
  EXPECT_EQ(destroyed, 50);
}

// A turn counts the visits that it has made, not those that it might have made.
TEST_F(work_per_pass, few_zero_delays_leave_work_to_the_timers) {
  reopen({.work_per_pass = 32, .io_wait = 0});
  const probes zero{timers, 1, 0ms};
  const probes all{timers, 31, 1ms};
  service.time.block(2ms);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(timers.stats().fired, 32U);
  EXPECT_EQ(timers.stats().carried, 0U);
}

TEST_F(work_per_pass, zero_delays_are_cut_soon_after_they_become_slow) {
  reopen({.time_per_pass = 1ms});
  int ran = 0;
  probes all{timers, 50, 0ms, [&] {
               if (++ran > 10) service.time.block(600us);
             }};
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(ran, 12);
}

// Otherwise each of the others would run after a slow pass as if it were slow, alone.
TEST_F(work_per_pass, slow_chain_leaves_others_whole_turns) {
  const int most = 300, of_turn = 32;
  for (const auto step : {990us, 1100us, 3000us}) {
    for (const bool of_posts : {false, true}) {
      SCOPED_TRACE(step.count());
      reopen({.time_per_pass = 1ms, .io_wait = 0});
      p.then = [&] {
        service.time.block(step);
        p.arm(0s);
      };
      p.arm(0s);
      int ran = 0;
      probes others{timers, of_posts ? 0 : most, 1ms, [&] { ++ran; }};
      for (int i = 0; of_posts && i < most; ++i) ASSERT_EQ(timers.remote().post([&]() noexcept { ++ran; }), 0);
      service.time.oversleep(2ms);
      int turns = 0;
      for (; ran < most && turns < 1000; ++turns) service.turn();
      EXPECT_LE(turns, 2 * (most / of_turn + 2));
      p.then = {};
      service.advance(1ms);
    }
  }
}

TEST_F(work_per_pass, quick_pass_is_not_cut) {
  probes all{timers, 1000, 1ms};
  service.time.block(2ms);
  EXPECT_TRUE(service.turn());
  EXPECT_EQ(timers.stats().fired, 1000U);
  EXPECT_EQ(timers.stats().carried, 0U);
}

// Far enough away to sit in coarse slots: emptying those must not crowd a pass.
TEST_F(work_per_pass, moves_between_slots_count_as_work) {
  reopen({.work_per_pass = 20});
  probes all{timers, 1000, 10min};
  service.time.block(11min);
  expect_passes_of_at_most(20);
  EXPECT_EQ(timers.stats().fired, 1000U);
}

// A few timers a slot, each slot emptied in one step.
TEST_F(work_per_pass, moves_of_many_slots_count_together) {
  reopen({.work_per_pass = 20});
  probes all{timers, 1000, [](int i) { return 10min + i * 10s; }};
  service.time.block(4h);
  expect_passes_of_at_most(20);
  EXPECT_EQ(timers.stats().fired, 1000U);
}

}  // namespace
