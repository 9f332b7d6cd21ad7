// Handlers that take long: counted, timed, and told.
#include "../support/probe.hpp"

#include <tickwheel/uv/remote.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

using namespace std::chrono_literals;
using tickwheel::slow_handler;

namespace {

struct told {
  explicit told(tickwheel::timer_service& by) {
    by.on_slow_handler(
        [](void* context, const slow_handler& slow) noexcept {
          auto& self = *static_cast<told*>(context);
          self.all.push_back(slow);
          if (self.then) self.then();
        },
        this);
  }
  std::vector<slow_handler> all;
  std::function<void()> then;
};

TEST(a_slow_handler, is_told_with_what_it_took) {
  manual_service service;
  told slow{service.timers};
  probe quick{service.timers, [&] { service.time.block(1ms - 1ns); }};
  tickwheel::callback_timer sluggish{service.timers, [&]() noexcept { service.time.block(1ms); }};
  ASSERT_EQ(quick.timeout.arm(1ms), 0);
  ASSERT_EQ(sluggish.arm(1ms), 0);
  service.advance(1s);
  ASSERT_EQ(slow.all.size(), 1U);
  EXPECT_EQ(slow.all[0].handler, sluggish.handler());
  EXPECT_EQ(slow.all[0].took, 1ms);
  EXPECT_EQ(service.timers.stats().slow_handlers, 1U);
}

TEST(a_slow_handler, is_what_the_options_say) {
  manual_service service{{.slow_handler = 5ms}};
  told slow{service.timers};
  probe p{service.timers, [&] { service.time.block(4ms); }};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  service.advance(1s);
  EXPECT_TRUE(slow.all.empty());
}

TEST(a_slow_handler, must_take_some_time) {
  tickwheel::manual_driver time;
  tickwheel::timer_service timers;
  EXPECT_EQ(timers.open(time, {.slow_handler = 0ns}), UV_EINVAL);
}

TEST(a_slow_handler, is_told_of_each_of_many_in_a_pass) {
  manual_service service{{.time_per_pass = 1h}};
  told slow{service.timers};
  std::vector<std::unique_ptr<probe>> all;
  for (int i = 0; i < 200; ++i) {
    all.push_back(std::make_unique<probe>(service.timers, [&] { service.time.block(1ms); }));
    ASSERT_EQ(all.back()->timeout.arm(1ms), 0);
  }
  service.advance(1s);
  EXPECT_EQ(slow.all.size(), 200U);
  EXPECT_EQ(service.timers.stats().slow_handlers, 200U);
}

TEST(a_slow_handler, of_another_thread_is_told_too) {
  manual_service service;
  told slow{service.timers};
  static tickwheel::manual_driver* time;
  time = &service.time;
  ASSERT_EQ(service.timers.remote().post(0s, []() noexcept { time->block(2ms); }), 0);
  ASSERT_EQ(service.timers.remote().post(5ms, []() noexcept { time->block(3ms); }), 0);
  service.advance(1s);
  ASSERT_EQ(slow.all.size(), 2U);
  EXPECT_EQ(slow.all[0].took, 2ms);
  EXPECT_EQ(slow.all[1].took, 3ms);
  EXPECT_NE(slow.all[0].handler, slow.all[1].handler);
}

TEST(a_slow_handler, may_be_answered_by_closing_the_service) {
  manual_service service;
  told slow{service.timers};
  slow.then = [&] { service.timers.close(); };
  probe first{service.timers, [&] { service.time.block(1ms); }}, second{service.timers};
  ASSERT_EQ(first.timeout.arm(1ms), 0);
  ASSERT_EQ(second.timeout.arm(1ms), 0);
  service.advance(1s);
  EXPECT_EQ(slow.all.size(), 1U);
  EXPECT_FALSE(service.timers.is_open());
}

TEST(a_slow_handler, may_be_answered_by_arming_cancelling_and_no_longer_listening) {
  manual_service service;
  told slow{service.timers};
  probe first{service.timers, [&] { service.time.block(1ms); }}, other{service.timers}, more{service.timers};
  slow.then = [&] {
    EXPECT_EQ(more.timeout.arm(0ns), 0);
    other.timeout.cancel();
    service.timers.on_slow_handler(nullptr);
  };
  ASSERT_EQ(first.timeout.arm(1ms), 0);
  ASSERT_EQ(other.timeout.arm(1s), 0);
  service.advance(10s);
  EXPECT_EQ(slow.all.size(), 1U);
  EXPECT_EQ(more.fired, 1);
  EXPECT_EQ(other.fired, 0);
}

TEST(a_slow_handler, that_closes_its_service_is_not_told) {
  manual_service service;
  told slow{service.timers};
  probe p{service.timers};
  p.then = [&] {
    service.time.block(1s);
    service.timers.close();
  };
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  service.advance(1s);
  EXPECT_TRUE(slow.all.empty());
}

TEST(handler_time, counts_every_handler) {
  manual_service service;
  probe quick{service.timers}, slow{service.timers, [&] { service.time.block(8ms); }};
  ASSERT_EQ(quick.timeout.arm(1ms), 0);
  ASSERT_EQ(slow.timeout.arm(2ms), 0);
  service.advance(1s);
  const auto& h = service.timers.stats().handler_time;
  EXPECT_EQ(h.count(), 2U);
  EXPECT_EQ(h.max(), 8ms);
  EXPECT_EQ(h.sum(), 8ms);
  EXPECT_EQ(h.percentile(0.5), 0ns);
}

}  // namespace
