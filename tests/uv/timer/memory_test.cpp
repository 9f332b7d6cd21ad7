// The memory of a service: it allocates when it opens, and never later.
#include "../../support/allocation_probe.hpp"
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"

using tickwheel::timer_service;

namespace {

TEST(memory, service_takes_at_most_256_KiB) {
  live_loop loop;
  timer_service timers;
  const auto before = allocations::bytes();
  ASSERT_EQ(timers.open(loop), 0);
  EXPECT_LE(allocations::bytes() - before + sizeof timers, 256U * 1024);
}

TEST(memory, million_cancels_allocate_nothing) {
  manual_service service;
  counter far{service.timers};
  far.arm(24h);
  std::vector<std::unique_ptr<counter>> all;
  for (int i = 0; i < 1000; ++i) all.push_back(std::make_unique<counter>(service.timers));
  const auto before = allocations::count();
  for (std::size_t i = 0; i < 1'000'000; ++i) {
    counter& c = *all[i % all.size()];
    c.arm(30s);
    c.timeout.cancel();
    if (i % 1000 == 0) service.time.advance(1ms);
  }
  EXPECT_EQ(allocations::count(), before);
  service.check();
  EXPECT_EQ(service.timers.stats().pending, 1U);
  EXPECT_EQ(service.timers.stats().fired, 0U);
}

TEST(memory, memory_of_cancelled_timer_is_free_at_once) {
  manual_service service;
  counter far{service.timers};
  far.arm(24h);
  const auto before = allocations::outstanding();
  for (int i = 0; i < 10'000; ++i) {
    const auto c = std::make_unique<counter>(service.timers);
    c->arm(30s);
    c->timeout.cancel();
  }
  EXPECT_EQ(allocations::outstanding(), before);
  service.advance(1min);
}

}  // namespace
