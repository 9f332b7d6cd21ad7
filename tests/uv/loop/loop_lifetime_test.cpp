// A service may end at any time and in any order with its loop, and leaves nothing behind.
#include "../support/allocation_checks.hpp"
#include "../support/live_test.hpp"

#include <sys/resource.h>

using tickwheel::timer_service;

namespace {

class loop_lifetime : leak_check, public live_test {};

TEST_F(loop_lifetime, service_may_be_destroyed_while_it_carries_work) {
  auto owned = std::make_unique<timer_service>();
  ASSERT_EQ(owned->open(loop, with_wakeup({.work_per_pass = 3})), 0);
  int fired = 0;
  const auto handler = [&]() noexcept {
    if (++fired == 50) owned.reset();
  };
  std::deque<tickwheel::callback_timer<decltype(handler)>> all;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(all.emplace_back(*owned, handler).arm(1ms), 0);
  loop.run();
  EXPECT_EQ(fired, 50);
}

TEST_F(loop_lifetime, service_may_be_destroyed_before_the_loop_runs) {
  open();
  p.arm(1ms);
}

TEST_F(loop_lifetime, thousand_services_in_one_turn) {
  loop.once_in(phase::io, [&] {
    for (int i = 0; i < 1000; ++i) {
      timer_service brief;
      ASSERT_EQ(brief.open(loop, with_wakeup({.geometry = {3, 16}})), 0);
      probe each{brief, 1ms * (i % 3)};
    }
  });
  loop.run();
}

TEST_F(loop_lifetime, thousand_services_at_once) {
  rlimit descriptors{};  // some wakeups take one for each service
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
  descriptors.rlim_cur = std::min<rlim_t>(descriptors.rlim_max, std::max<rlim_t>(descriptors.rlim_cur, 1200));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &descriptors), 0);
  std::vector<std::unique_ptr<timer_service>> services;
  std::deque<probe> probes;
  for (int i = 0; i < 1000; ++i) {
    services.push_back(std::make_unique<timer_service>());
    ASSERT_EQ(services.back()->open(loop, with_wakeup({.geometry = {3, 16}})), 0);
    ASSERT_EQ(probes.emplace_back(*services.back()).timeout.arm(1ms), 0);
  }
  loop.run();
  for (const probe& each : probes) EXPECT_EQ(each.fired, 1);
  services.clear();
  for (probe& each : probes) EXPECT_FALSE(each.timeout.armed());
}

TEST_F(loop_lifetime, loop_closes_only_after_close_and_one_more_turn) {
  open();
  EXPECT_EQ(uv_loop_close(loop.get()), UV_EBUSY);
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(loop.get()), UV_EBUSY);
  timers.close();
  EXPECT_EQ(uv_loop_close(loop.get()), UV_EBUSY);
  uv_run(loop.get(), UV_RUN_DEFAULT);
  loop.end();  // answers 0
}

TEST_F(loop_lifetime, loop_closes_after_one_turn) {
  uv_loop_t raw;
  ASSERT_EQ(uv_loop_init(&raw), 0);
  {
    timer_service brief;
    ASSERT_EQ(brief.open(raw, with_wakeup()), 0);
  }
  uv_run(&raw, UV_RUN_NOWAIT);
  EXPECT_EQ(uv_loop_close(&raw), 0);
}

TEST_F(loop_lifetime, handles_and_service_close_in_one_callback) {
  for (const bool handles_first : {false, true}) {
    open();
    probe closes{timers, [&] {
                   if (handles_first) close_each_handle(loop.get());
                   timers.close();
                   if (!handles_first) close_each_handle(loop.get());
                 }};
    closes.arm(0s);
    loop.run();
    EXPECT_EQ(closes.fired, 1);
  }
}

// A walk within a walk sees only the handles that the outer one has visited: ours must not be taken for gone.
TEST_F(loop_lifetime, service_may_end_within_a_walk) {
  uv_idle_t first;
  uv_idle_init(loop.get(), &first);
  auto owned = std::make_unique<timer_service>();
  ASSERT_EQ(owned->open(loop, with_wakeup()), 0);
  close_each_handle(loop.get());
  for_each_handle(loop.get(), [&](uv_handle_t*) { owned.reset(); });
  loop.run();
}

TEST_F(loop_lifetime, some_handles_may_be_closed) {
  for (unsigned mask = 1; mask < 32; ++mask) {
    open();
    p.arm(0s);
    unsigned index = 0;
    for_each_handle(loop.get(), [&](uv_handle_t* h) {
      if ((mask >> index++ & 1) != 0) uv_close(h, nullptr);
    });
    uv_run(loop.get(), UV_RUN_NOWAIT);
    p.arm(1ms);
    timers.close();
    loop.run();
  }
}

TEST_F(loop_lifetime, walk_tells_handles_of_the_service) {
  timer_service other;
  open();
  uv_timer_t mine;
  uv_timer_init(loop.get(), &mine);
  EXPECT_FALSE(timers.owns(reinterpret_cast<uv_handle_t*>(&mine)));
  EXPECT_FALSE(timers.owns(nullptr));
  EXPECT_FALSE(other.owns(reinterpret_cast<uv_handle_t*>(&mine)));
  p.arm(1ms);
  int skipped = 0;
  for_each_handle(loop.get(), [&](uv_handle_t* h) { timers.owns(h) ? void(++skipped) : uv_close(h, nullptr); });
  EXPECT_GE(skipped, 1);
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

TEST_F(loop_lifetime, closed_service_owns_no_handle) {
  open();
  timers.close();
  for_each_handle(loop.get(), [this](uv_handle_t* h) { EXPECT_FALSE(timers.owns(h)); });
}

}  // namespace
