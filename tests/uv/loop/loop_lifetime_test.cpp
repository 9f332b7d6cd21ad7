// A service may end at any time and in any order with its loop, and leaves nothing behind.
#include "../../support/allocation_probe.hpp"
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

using namespace std::chrono_literals;
using tickwheel::timer_service;

namespace {

/// Every test leaves no allocation of the service's behind.
class loop_lifetime : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(allocations::outstanding(), before_) << "something was leaked"; }

 private:
  std::size_t before_ = allocations::outstanding();
};

void close_each(uv_loop_t* loop) {
  uv_walk(
      loop,
      [](uv_handle_t* h, void*) {
        if (!uv_is_closing(h)) uv_close(h, nullptr);
      },
      nullptr);
}

TEST_F(loop_lifetime, of_the_service_may_end_in_its_own_callback) {
  live_loop loop;
  auto timers = std::make_unique<timer_service>();
  ASSERT_EQ(timers->open(loop, with_wakeup()), 0);
  probe p{*timers};
  ASSERT_EQ(p.timeout.arm(1h), 0);
  bool ran = false;
  tickwheel::callback_timer ending{*timers, [&]() noexcept {
                                     ran = true;
                                     timers.reset();
                                   }};
  ASSERT_EQ(ending.arm(0s), 0);
  loop.run();
  EXPECT_TRUE(ran);
  EXPECT_EQ(p.fired, 0);
}

TEST_F(loop_lifetime, of_the_service_may_end_in_its_own_callback_while_it_carries_work) {
  live_loop loop;
  auto timers = std::make_unique<timer_service>();
  ASSERT_EQ(timers->open(loop, with_wakeup({.work_per_pass = 3})), 0);
  int fired = 0;
  const auto handler = [&]() noexcept {
    if (++fired == 50) timers.reset();
  };
  std::deque<tickwheel::callback_timer<decltype(handler)>> all;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(all.emplace_back(*timers, handler).arm(1ms), 0);
  loop.run();
  EXPECT_EQ(fired, 50);
}

TEST_F(loop_lifetime, of_the_service_may_end_before_the_loop_ever_ran) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
}

TEST_F(loop_lifetime, sees_a_thousand_services_come_and_go_in_one_turn) {
  live_loop loop;
  loop.once_in(phase::io, [&] {
    for (int i = 0; i < 1000; ++i) {
      timer_service timers;
      ASSERT_EQ(timers.open(loop, with_wakeup({.geometry = {3, 16}})), 0);
      probe p{timers};
      ASSERT_EQ(p.timeout.arm(1ms * (i % 3)), 0);
    }
  });
  loop.run();
}

TEST_F(loop_lifetime, sees_a_thousand_services_at_once) {
  rlimit descriptors{};  // some wakeups take one for each service
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
  descriptors.rlim_cur = std::min<rlim_t>(descriptors.rlim_max, std::max<rlim_t>(descriptors.rlim_cur, 1200));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &descriptors), 0);
  live_loop loop;
  std::vector<std::unique_ptr<timer_service>> services;
  std::deque<probe> probes;
  for (int i = 0; i < 1000; ++i) {
    services.push_back(std::make_unique<timer_service>());
    ASSERT_EQ(services.back()->open(loop, with_wakeup({.geometry = {3, 16}})), 0);
    ASSERT_EQ(probes.emplace_back(*services.back()).timeout.arm(1ms), 0);
  }
  loop.run();
  for (const probe& p : probes) EXPECT_EQ(p.fired, 1);
  services.clear();
  for (probe& p : probes) EXPECT_FALSE(p.timeout.armed());
}

TEST_F(loop_lifetime, cannot_end_for_the_loop_before_the_service_is_closed_and_the_loop_turned_once_more) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  EXPECT_EQ(uv_loop_close(loop.get()), UV_EBUSY);
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(loop.get()), UV_EBUSY);
  timers.close();
  EXPECT_EQ(uv_loop_close(loop.get()), UV_EBUSY);
  uv_run(loop.get(), UV_RUN_DEFAULT);
  loop.end();  // answers 0
}

TEST_F(loop_lifetime, ends_in_one_turn_of_the_loop) {
  uv_loop_t loop;
  ASSERT_EQ(uv_loop_init(&loop), 0);
  {
    timer_service timers;
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  }
  uv_run(&loop, UV_RUN_NOWAIT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

TEST_F(loop_lifetime, after_the_user_closed_all_handles_leaves_arming_harmless) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  probe p{timers};
  probe other{timers};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  close_each(loop.get());
  other.arm(2ms);
  EXPECT_EQ(p.timeout.arm(0s), 0);
  loop.run();
  EXPECT_EQ(p.timeout.arm(0s), 0);
  other.arm(2ms);
  p.timeout.cancel();
  loop.run();
  EXPECT_TRUE(is_valid(timers));
}

TEST_F(loop_lifetime, lets_the_service_end_right_after_the_user_closed_all_handles) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  close_each(loop.get());
}

TEST_F(loop_lifetime, lets_the_service_end_after_the_handles_that_the_user_closed_are_gone) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  close_each(loop.get());
  loop.run();
  timers.close();
  loop.run();
}

TEST_F(loop_lifetime, lets_the_service_end_after_the_user_closed_all_handles_and_the_loop) {
  uv_loop_t loop;
  ASSERT_EQ(uv_loop_init(&loop), 0);
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  close_each(&loop);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
  timers.close();
}

TEST_F(loop_lifetime, lets_the_user_close_all_handles_while_work_is_carried) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup({.work_per_pass = 1})), 0);
  std::deque<probe> all;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(all.emplace_back(timers).timeout.arm(0s), 0);
  all[10].then = [&] { close_each(loop.get()); };
  loop.run();
  EXPECT_GE(timers.stats().fired, 1U);
  EXPECT_TRUE(is_valid(timers));
}

TEST_F(loop_lifetime, lets_the_user_close_all_handles_and_the_service_in_one_callback) {
  for (const bool handles_first : {false, true}) {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
    probe p{timers, [&] {
              if (handles_first) close_each(loop.get());
              timers.close();
              if (!handles_first) close_each(loop.get());
            }};
    ASSERT_EQ(p.timeout.arm(0s), 0);
    loop.run();
    EXPECT_EQ(p.fired, 1);
  }
}

// A walk within a walk sees only the handles that the outer one has visited: ours must not be taken for gone.
TEST_F(loop_lifetime, lets_the_service_end_within_a_walk_after_the_user_closed_its_handles) {
  live_loop loop;
  uv_idle_t first;
  uv_idle_init(loop.get(), &first);
  auto timers = std::make_unique<timer_service>();
  ASSERT_EQ(timers->open(loop, with_wakeup()), 0);
  close_each(loop.get());
  uv_walk(
      loop.get(), [](uv_handle_t*, void* service) { static_cast<std::unique_ptr<timer_service>*>(service)->reset(); },
      &timers);
  loop.run();
}

TEST_F(loop_lifetime, lets_the_user_close_only_some_of_the_handles) {
  for (unsigned mask = 1; mask < 32; ++mask) {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
    probe p{timers};
    ASSERT_EQ(p.timeout.arm(0s), 0);
    struct walk {
      unsigned mask;
      unsigned index;
    } state{mask, 0};
    uv_walk(
        loop.get(),
        [](uv_handle_t* h, void* arg) {
          auto& w = *static_cast<walk*>(arg);
          if ((w.mask >> w.index++ & 1) != 0) uv_close(h, nullptr);
        },
        &state);
    uv_run(loop.get(), UV_RUN_NOWAIT);
    p.arm(1ms);
    timers.close();
    loop.run();
  }
}

TEST_F(loop_lifetime, lets_a_walk_tell_the_services_handles_from_others) {
  live_loop loop;
  timer_service timers;
  timer_service other;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  uv_timer_t mine;
  uv_timer_init(loop.get(), &mine);
  EXPECT_FALSE(timers.owns(reinterpret_cast<uv_handle_t*>(&mine)));
  EXPECT_FALSE(timers.owns(nullptr));
  EXPECT_FALSE(other.owns(reinterpret_cast<uv_handle_t*>(&mine)));
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  struct walk {
    const timer_service& timers;
    int skipped;
  } state{timers, 0};
  uv_walk(
      loop.get(),
      [](uv_handle_t* h, void* arg) {
        auto& w = *static_cast<walk*>(arg);
        if (w.timers.owns(h))
          ++w.skipped;
        else
          uv_close(h, nullptr);
      },
      &state);
  EXPECT_GE(state.skipped, 1);
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

TEST_F(loop_lifetime, lets_a_closed_service_own_no_handle) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  timers.close();
  uv_walk(
      loop.get(), [](uv_handle_t* h, void* arg) { EXPECT_FALSE(static_cast<timer_service*>(arg)->owns(h)); }, &timers);
}

TEST_F(loop_lifetime, of_timers_may_exceed_that_of_the_service_and_the_loop) {
  std::unique_ptr<probe> p;
  {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
    p = std::make_unique<probe>(timers);
    ASSERT_EQ(p->timeout.arm(1h), 0);
  }
  EXPECT_FALSE(p->timeout.armed());
  EXPECT_FALSE(p->timeout.cancel());
  p.reset();
}

}  // namespace
