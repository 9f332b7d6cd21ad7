// Posting to a live loop: what wakes it, how often, what keeps it alive, and what a fork and a walk over its handles do.
#include "../support/counted_callable.hpp"
#include "../support/live_test.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

#include <dlfcn.h>

using tickwheel::remote_handle;
using tickwheel::remote_hold;
using tickwheel::timer_service;

namespace {

std::atomic<int> sends{0};  // calls of uv_async_send

}  // namespace

// In front of libuv's own, to count.
extern "C" __attribute__((visibility("default"))) int uv_async_send(uv_async_t* async) {
  ++sends;
  static const auto real = reinterpret_cast<decltype(&uv_async_send)>(dlsym(RTLD_NEXT, "uv_async_send"));
  return real(async);
}

namespace {

/// A live loop, a service on it, and callables that count.
class remote_loop : public live_test {
 protected:
  int post() { return timers.remote().post(count_in(ran)); }
  /// Another thread posts a thousand times, while this one waits for it. Returns how often it woke the loop.
  int wakeups_of_burst() {
    const int before = sends;
    std::thread poster{[this] {
      for (int i = 0; i < 1000; ++i) EXPECT_EQ(post(), 0);
    }};
    poster.join();
    return sends - before;
  }

  int ran = 0;
};

TEST_F(remote_loop, runs_post_of_another_thread_while_it_waits) {
  open();
  remote_hold hold = timers.hold();
  std::thread::id ran_by;
  std::thread poster{[&ran_by, handle = timers.remote(), hold = std::move(hold)] {
    std::this_thread::sleep_for(5ms);  // so that the loop is in its poll
    EXPECT_EQ(handle.post([&ran_by]() noexcept { ran_by = std::this_thread::get_id(); }), 0);
  }};
  loop.run();
  poster.join();
  EXPECT_EQ(ran_by, std::this_thread::get_id());
}

TEST_F(remote_loop, post_that_runs_the_loop_stops_the_process) {
  open();
  const auto run_again = [this]() noexcept { (void)uv_run(loop.get(), UV_RUN_NOWAIT); };
  for (int i = 0; i < 2; ++i) ASSERT_EQ(timers.remote().post(run_again), 0);
  EXPECT_DEATH(loop.run(), "tickwheel: timer_service: a handler ran the loop");
}

TEST_F(remote_loop, runs_delayed_post_on_time_and_not_early) {
  open();
  remote_hold hold = timers.hold();
  tickwheel::clock::time_point due[20];
  tickwheel::clock::time_point at[20];
  std::thread poster{[&, handle = timers.remote(), hold = std::move(hold)] {
    for (int i = 0; i < 20; ++i) {
      due[i] = tickwheel::clock::now() + 2ms;
      EXPECT_EQ(handle.post(2ms, [to = &at[i]]() noexcept { *to = tickwheel::clock::now(); }), 0);
      std::this_thread::sleep_for(300us);
    }
  }};
  loop.run();
  poster.join();
  for (int i = 0; i < 20; ++i) {
    EXPECT_GE(at[i], due[i]);
    EXPECT_LT(at[i], due[i] + 1s);
  }
}

TEST_F(remote_loop, burst_during_input_wakes_it_once) {
  open();
  const socket_pair pair;
  remote_hold hold = timers.hold();
  int wakeups = 0;
  auto& reader = loop.on_readable(pair.ours(), [&] {
    if (!pair.receive()) return;
    wakeups = wakeups_of_burst();
    hold.release();
  });
  pair.peer_sends();
  probe end{timers, 50ms, [&] { reader.close(); }};
  loop.run();
  EXPECT_EQ(wakeups, 1);
  EXPECT_EQ(ran, 1000);
}

// No wakeup is needed: a pass looks for posts that were made meanwhile before it lets the loop wait again.
TEST_F(remote_loop, burst_during_pass_wakes_it_not_at_all) {
  open();
  remote_hold hold = timers.hold();
  p.then = [&] {
    EXPECT_EQ(wakeups_of_burst(), 0);
    hold.release();
  };
  p.arm(1ms);
  loop.run();
  EXPECT_EQ(ran, 1000);
}

TEST_F(remote_loop, posts_in_posted_callables_do_not_wake_it) {
  open();
  struct relay {
    remote_handle to;
    remote_hold hold;
    int left = 1000;
    void next() noexcept {
      if (left-- == 0) return hold.release();
      EXPECT_EQ(to.post([this]() noexcept { next(); }), 0);
    }
  } stream{timers.remote(), timers.hold()};
  const int before = sends;
  stream.next();
  loop.run();
  EXPECT_EQ(stream.left, -1);
  EXPECT_EQ(sends, before + 2) << "for the first post, and for the release";
}

// Nothing wakes the loop for it: a program that polls the loop's descriptor with the loop's timeout would wait for ever.
TEST_F(remote_loop, does_not_wait_for_post_made_in_its_pass) {
  open({.io_wait = 0});  // on a slow machine a stamp would wait after a block, and the loop would not
  const remote_hold hold = timers.hold();
  const auto handler = [this]() noexcept {
    ++ran;
    EXPECT_EQ(post(), 0);
  };
  ASSERT_EQ(timers.remote().post(handler), 0);
  while (ran == 0) uv_run(loop.get(), UV_RUN_ONCE);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(uv_backend_timeout(loop.get()), 0);
  uv_run(loop.get(), UV_RUN_NOWAIT);
  EXPECT_EQ(ran, 2);
  EXPECT_NE(uv_backend_timeout(loop.get()), 0);
}

TEST_F(remote_loop, burst_is_delivered_with_input_in_between) {
  open({.work_per_pass = 10});
  int reads = 0;
  auto& reader = loop.on_each_byte([&] { return ++reads > 0 && ran < 1000; });
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(post(), 0);
  probe end{timers, 50ms, [&] { reader.close(); }};
  loop.run();
  EXPECT_EQ(ran, 1000);
  EXPECT_GE(reads, 99) << "once a pass of ten";
}

TEST_F(remote_loop, idle_iteration_sends_no_wakeup) {
  open();
  const int before = sends;
  p.arm(20ms);
  loop.run();
  EXPECT_EQ(sends, before);
}

// --- what keeps it alive ---

TEST_F(remote_loop, is_not_kept_alive_for_posts_by_open_service) {
  open();
  ASSERT_EQ(post(), 0);
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_EQ(ran, 0) << "a loop that is not alive never polls";
  const remote_hold hold = timers.hold();
  for (int runs = 0; runs < 10 && ran == 0; ++runs) uv_run(loop.get(), UV_RUN_ONCE);
  EXPECT_EQ(ran, 1) << "it was not lost";
}

TEST_F(remote_loop, is_kept_alive_by_hold_until_release) {
  open();
  remote_hold hold = timers.hold();
  EXPECT_TRUE(hold);
  bool released = false;
  const auto release = [&] {
    hold.release();
    released = true;
  };
  loop.after(10ms, release).unref();
  loop.run();
  EXPECT_TRUE(released);
  EXPECT_FALSE(hold);
  EXPECT_EQ(uv_loop_alive(loop.get()), 0);
}

TEST_F(remote_loop, runs_posts_made_before_release_of_hold) {
  for (int round = 0; round < 50; ++round) {
    live_loop own;
    timer_service service;
    ASSERT_EQ(service.open(own, with_wakeup({.work_per_pass = 3})), 0);
    ran = 0;
    std::thread poster{[handle = service.remote(), hold = service.hold(), this] {
      for (int i = 0; i < 10; ++i) EXPECT_EQ(handle.post(count_in(ran)), 0);
      EXPECT_EQ(handle.post(1ms, count_in(ran)), 0);
    }};
    own.run();
    EXPECT_EQ(ran, 11);
    poster.join();
  }
}

TEST_F(remote_loop, is_kept_alive_by_taken_posts_of_unref_service) {
  open({.work_per_pass = 1});
  timers.unref();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(post(), 0);
  { const remote_hold hold = timers.hold(); }
  loop.run();
  EXPECT_EQ(ran, 20);
}

using remote_holds = manual_test;

TEST_F(remote_holds, ends_with_last_copy) {
  remote_hold first = timers.hold();
  EXPECT_TRUE(service.time.alive());
  remote_hold copy = first;
  remote_hold moved = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is tested
  first.release();
  moved.release();
  moved.release();
  service.turn();
  EXPECT_TRUE(service.time.alive());
  copy = remote_hold{};
  EXPECT_TRUE(service.time.alive()) << "the loop itself lets go";
  EXPECT_TRUE(service.turn()) << "and is woken for it";
  EXPECT_FALSE(service.time.alive());
}

TEST_F(remote_holds, taken_again_before_loop_notices_release_holds) {
  timers.hold().release();
  const remote_hold again = timers.hold();
  service.turn();
  EXPECT_TRUE(service.time.alive());
}

TEST_F(remote_holds, holds_loop_of_unref_service) {
  timers.unref();
  remote_hold hold = timers.hold();
  EXPECT_TRUE(service.time.alive());
  hold.release();
  service.turn();
  EXPECT_FALSE(service.time.alive());
}

TEST_F(remote_holds, has_no_effect_once_service_is_closed) {
  remote_hold before = timers.hold();
  timers.close();
  EXPECT_FALSE(timers.hold());
  EXPECT_FALSE(service.time.alive());
  ASSERT_EQ(timers.open(service.time), 0);
  EXPECT_FALSE(service.time.alive());
  before.release();
  EXPECT_FALSE(service.turn());
}

TEST_F(remote_holds, may_outlive_service_and_loop) {
  remote_hold hold;
  {
    live_loop loop;
    timer_service own;
    ASSERT_EQ(own.open(loop, with_wakeup()), 0);
    hold = own.hold();
  }
  EXPECT_TRUE(hold);
  hold.release();
}

// --- closing ---

TEST_F(remote_loop, ends_after_close_although_handles_are_left) {
  remote_handle handle;
  {
    live_loop own;
    timer_service service;
    ASSERT_EQ(service.open(own, with_wakeup()), 0);
    handle = service.remote();
    ASSERT_EQ(handle.post(nothing), 0);
    service.close();
    const int before = sends;
    EXPECT_EQ(handle.post(nothing), UV_ECANCELED);
    EXPECT_EQ(sends, before);
    EXPECT_EQ(service.stats().remote_cancelled, 1U);
  }
  EXPECT_EQ(handle.post(nothing), UV_ECANCELED);
}

TEST_F(remote_loop, whose_handles_a_walk_closed_keeps_posts_until_close) {
  open();
  callable_log log;
  for_each_handle(loop.get(), [this](uv_handle_t* h) { EXPECT_TRUE(timers.owns(h)); });
  close_each_handle(loop.get());
  EXPECT_EQ(timers.remote().post(counted_callable<>{log}), 0);
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_EQ(timers.remote().post(counted_callable<>{log}), 0);
  EXPECT_EQ(log.destroyed, 0);
  timers.close();
  EXPECT_EQ(timers.stats().remote_cancelled, 2U);
  EXPECT_EQ(log.ran, 0);
  EXPECT_TRUE(log.all_ended());
}

}  // namespace
