// Handlers that take long: counted, timed, and told.
#include "../support/counted_callable.hpp"
#include "../support/probe.hpp"

#include <tickwheel/uv/remote.hpp>

namespace {

using slow_handler = manual_test;

struct told {
  explicit told(tickwheel::timer_service& by) {
    by.on_slow_handler(
        [](void* context, const tickwheel::slow_handler& slow) noexcept {
          auto& self = *static_cast<told*>(context);
          self.all.push_back(slow);
          if (self.then) self.then();
        },
        this);
  }
  std::vector<tickwheel::slow_handler> all;
  std::function<void()> then;
};

TEST_F(slow_handler, hook_gets_handler_and_time) {
  told slow{timers};
  probe quick{timers, [&] { service.time.block(1ms - 1ns); }};
  tickwheel::callback_timer sluggish{timers, [&]() noexcept { service.time.block(1ms); }};
  quick.arm(1ms);
  ASSERT_EQ(sluggish.arm(1ms), 0);
  service.advance(1s);
  ASSERT_EQ(slow.all.size(), 1U);
  EXPECT_EQ(slow.all[0].handler, sluggish.handler());
  EXPECT_EQ(slow.all[0].took, 1ms);
  EXPECT_EQ(timers.stats().slow_handlers, 1U);
}

TEST_F(slow_handler, limit_is_that_of_the_options) {
  reopen({.slow_handler = 5ms});
  told slow{timers};
  p.then = [&] { service.time.block(4ms); };
  p.arm(1ms);
  service.advance(1s);
  EXPECT_TRUE(slow.all.empty());
}

TEST_F(slow_handler, hook_is_called_for_each_of_a_pass) {
  reopen({.time_per_pass = 1h});
  told slow{timers};
  const probes all{timers, 200, 1ms, [&] { service.time.block(1ms); }};
  service.advance(1s);
  EXPECT_EQ(slow.all.size(), 200U);
  EXPECT_EQ(timers.stats().slow_handlers, 200U);
}

// The clock is read after 1, 3, 7, 15, 31, 63 and 95 handlers of a pass.
constexpr int around_clock_reads[] = {1, 2, 3, 4, 30, 31, 32, 33, 62, 63, 64, 65, 94, 95, 96};

/// The hook was told of `count` handlers, which blocked for 1 ms, 2 ms and so on.
testing::AssertionResult each_was_told(const told& slow, int count) {
  if (slow.all.size() != static_cast<std::size_t>(count))
    return testing::AssertionFailure() << "told of " << slow.all.size() << " handlers instead of " << count;
  for (int i = 0; i < count; ++i) {
    const auto took = slow.all[static_cast<std::size_t>(i)].took;
    if (took != (i + 1) * 1ms)
      return testing::AssertionFailure() << "handler " << i << " took " << took.count() << " ns";
  }
  return testing::AssertionSuccess();
}

TEST_F(slow_handler, each_of_any_number_in_a_pass_is_exact) {
  for (const int count : around_clock_reads) {
    SCOPED_TRACE(count);
    reopen({.time_per_pass = 1h});
    told slow{timers};
    int ran = 0;
    const probes all{timers, count, 1ms, [&] {
                       EXPECT_TRUE(adds_up(timers.why()));
                       service.time.block(++ran * 1ms);
                     }};
    service.advance(1h);
    EXPECT_EQ(timers.stats().passes, 1U);
    EXPECT_TRUE(each_was_told(slow, count));
    EXPECT_EQ(timers.stats().handler_time.count(), static_cast<std::uint64_t>(count));
  }
}

TEST_F(slow_handler, each_of_any_number_of_posts_is_exact) {
  for (const int count : around_clock_reads) {
    SCOPED_TRACE(count);
    reopen({.time_per_pass = 1h});
    told slow{timers};
    int ran = 0;
    const auto block = [&]() noexcept { service.time.block(++ran * 1ms); };
    for (int i = 0; i < count; ++i) ASSERT_EQ(timers.remote().post(block), 0);
    service.advance(1h);
    EXPECT_TRUE(each_was_told(slow, count));
  }
}

TEST_F(slow_handler, destructors_of_cancelled_posts_are_charged_to_none) {
  for (const int count : around_clock_reads) {
    SCOPED_TRACE(count);
    reopen({.time_per_pass = 1h});
    told slow{timers};
    callable_log log;
    std::function<void()> block = [&] {
      service.time.block(1h);
      log.in_destructor = block;
    };
    log.in_destructor = block;
    for (int i = 0; i < count; ++i) {
      tickwheel::remote_timer posted;
      ASSERT_EQ(timers.remote().arm(0s, counted_callable<>{log}, posted), 0);
      EXPECT_EQ(posted.cancel(), tickwheel::remote_timer::outcome::cancelled);
      ASSERT_EQ(timers.remote().post([this]() noexcept { service.time.block(1ms); }), 0);
    }
    log.in_destructor = block;
    service.advance(100h);
    EXPECT_EQ(log.destroyed, count);
    EXPECT_EQ(timers.stats().handler_time.max(), 1ms);
    EXPECT_EQ(timers.stats().handler_time.count(), static_cast<std::uint64_t>(count));
  }
}

// One timer cancels the other, which is due in the same pass: the destructor that runs then is no handler.
TEST_F(slow_handler, destructors_of_expired_posts_are_charged_to_none) {
  reopen({.time_per_pass = 1h});
  told slow{timers};
  callable_log log;
  log.in_destructor = [&] { service.time.block(1h); };
  tickwheel::remote_timer posted;
  ASSERT_EQ(timers.remote().arm(11ms, counted_callable<>{log}, posted), 0);
  ASSERT_EQ(timers.remote().post(12ms, [this]() noexcept { service.time.block(2ms); }), 0);
  probe cancels{timers, 10ms, [&] {
                  EXPECT_EQ(posted.cancel(), tickwheel::remote_timer::outcome::cancelled);
                  service.time.block(3ms);
                }};
  service.turn();
  service.time.block(20ms);
  service.advance(1s);
  EXPECT_EQ(log.destroyed, 1);
  ASSERT_EQ(slow.all.size(), 2U);
  EXPECT_EQ(slow.all[0].took, 3ms);
  EXPECT_EQ(slow.all[1].took, 2ms);
  EXPECT_EQ(timers.stats().handler_time.count(), 2U);
}

TEST_F(slow_handler, hook_is_called_for_posts) {
  told slow{timers};
  ASSERT_EQ(timers.remote().post(0s, [this]() noexcept { service.time.block(2ms); }), 0);
  ASSERT_EQ(timers.remote().post(5ms, [this]() noexcept { service.time.block(3ms); }), 0);
  service.advance(1s);
  ASSERT_EQ(slow.all.size(), 2U);
  EXPECT_EQ(slow.all[0].took, 2ms);
  EXPECT_EQ(slow.all[1].took, 3ms);
  EXPECT_NE(slow.all[0].handler, slow.all[1].handler);
}

TEST_F(slow_handler, hook_may_close_the_service) {
  told slow{timers};
  slow.then = [&] { timers.close(); };
  probe first{timers, 1ms, [&] { service.time.block(1ms); }}, second{timers};
  second.arm(1ms);
  service.advance(1s);
  EXPECT_EQ(slow.all.size(), 1U);
  EXPECT_FALSE(timers.is_open());
}

TEST_F(slow_handler, hook_may_arm_cancel_and_remove_itself) {
  told slow{timers};
  probe first{timers, [&] { service.time.block(1ms); }}, other{timers}, more{timers};
  slow.then = [&] {
    more.arm(0ns);
    other.timeout.cancel();
    timers.on_slow_handler(nullptr);
  };
  first.arm(1ms);
  other.arm(1s);
  service.advance(10s);
  EXPECT_EQ(slow.all.size(), 1U);
  EXPECT_EQ(more.fired, 1);
  EXPECT_EQ(other.fired, 0);
}

TEST_F(slow_handler, handler_that_closes_is_not_told) {
  told slow{timers};
  p.then = [&] {
    service.time.block(1s);
    timers.close();
  };
  p.arm(1ms);
  service.advance(1s);
  EXPECT_TRUE(slow.all.empty());
}

TEST_F(slow_handler, handler_time_counts_each_handler) {
  probe quick{timers}, slow{timers, [&] { service.time.block(8ms); }};
  quick.arm(1ms);
  slow.arm(2ms);
  service.advance(1s);
  const auto& h = timers.stats().handler_time;
  EXPECT_EQ(h.count(), 2U);
  EXPECT_EQ(h.max(), 8ms);
  EXPECT_EQ(h.sum(), 8ms);
  EXPECT_EQ(h.percentile(0.5), 0ns);
}

}  // namespace
