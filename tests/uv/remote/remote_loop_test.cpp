// Posting to a live loop: what wakes it, how often, what keeps it alive, and what a fork and a walk over its handles do.
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

using namespace std::chrono_literals;
using tickwheel::remote_handle;
using tickwheel::remote_hold;
using tickwheel::remote_timer;
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

TEST(a_live_loop, runs_what_another_thread_posts_while_it_waits) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  remote_hold hold = timers.hold();
  std::thread::id ran_by;
  auto* const to = &ran_by;
  std::thread poster{[handle = timers.remote(), hold = std::move(hold), to] {
    std::this_thread::sleep_for(5ms);  // so that the loop is in its poll
    EXPECT_EQ(handle.post(0s, [to]() noexcept { *to = std::this_thread::get_id(); }), 0);
  }};
  loop.run();
  poster.join();
  EXPECT_EQ(ran_by, std::this_thread::get_id());
}

TEST(a_live_loop, runs_a_posted_delay_on_time_and_not_early) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
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

// A thousand posts by another thread, while this one waits for them. How often they rang.
int rings_of_a_burst(timer_service& timers, int& ran) {
  const int before = sends;
  std::thread poster{[&ran, handle = timers.remote()] {
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(handle.post(0s, [&ran]() noexcept { ++ran; }), 0);
  }};
  poster.join();
  return sends - before;
}

TEST(a_burst, that_is_posted_while_the_loop_handles_input_rings_once) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  const socket_pair pair;
  remote_hold hold = timers.hold();
  int ran = 0;
  int rings = 0;
  auto& reader = loop.on_readable(pair.ours(), [&] {
    if (!pair.receive()) return;
    rings = rings_of_a_burst(timers, ran);
    hold.release();
  });
  pair.peer_sends();
  probe end{timers, [&] { reader.close(); }};
  ASSERT_EQ(end.timeout.arm(50ms), 0);
  loop.run();
  EXPECT_EQ(rings, 1);
  EXPECT_EQ(ran, 1000);
}

// Nobody needs to: a pass looks for what was posted meanwhile before it lets the loop wait again.
TEST(a_burst, that_is_posted_while_a_pass_runs_rings_not_at_all) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  int ran = 0;
  remote_hold hold = timers.hold();
  probe p{timers, [&] {
            EXPECT_EQ(rings_of_a_burst(timers, ran), 0);
            hold.release();
          }};
  ASSERT_EQ(p.timeout.arm(1ms), 0);
  loop.run();
  EXPECT_EQ(ran, 1000);
}

TEST(posts, made_in_handlers_of_posts_do_not_ring) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  struct relay {
    remote_handle to;
    remote_hold hold;
    int left = 1000;
    void next() noexcept {
      if (left-- == 0) return hold.release();
      EXPECT_EQ(to.post(0s, [this]() noexcept { next(); }), 0);
    }
  } stream{timers.remote(), timers.hold()};
  const int before = sends;
  stream.next();
  loop.run();
  EXPECT_EQ(stream.left, -1);
  EXPECT_EQ(sends, before + 2) << "for the first post, and for the release";
}

// Nobody rings for it: who polls the loop's descriptor with the loop's timeout would wait for ever.
TEST(a_loop, is_not_to_wait_for_what_was_posted_in_its_pass) {
  live_loop loop;
  timer_service timers;
  // on a slow machine a stamp would wait after a block, and the loop would not
  ASSERT_EQ(timers.open(loop, with_wakeup({.io_wait = 0})), 0);
  const remote_hold hold = timers.hold();
  int ran = 0;
  const auto handler = [&ran, &timers]() noexcept {
    ++ran;
    EXPECT_EQ(timers.remote().post(0s, [&ran]() noexcept { ++ran; }), 0);
  };
  ASSERT_EQ(timers.remote().post(0s, handler), 0);
  while (ran == 0) uv_run(loop.get(), UV_RUN_ONCE);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(uv_backend_timeout(loop.get()), 0);
  uv_run(loop.get(), UV_RUN_NOWAIT);
  EXPECT_EQ(ran, 2);
  EXPECT_NE(uv_backend_timeout(loop.get()), 0);
}

TEST(a_burst, is_handled_with_waiting_input_in_between) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup({.work_per_pass = 10})), 0);
  const socket_pair pair;
  std::atomic<int> ran{0};
  int reads = 0;
  auto& reader = loop.on_readable(pair.ours(), [&] {
    if (!pair.receive()) return;
    ++reads;
    if (ran < 1000) pair.peer_sends();
  });
  auto* const count = &ran;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(timers.remote().post(0s, [count]() noexcept { ++*count; }), 0);
  pair.peer_sends();
  probe end{timers, [&] { reader.close(); }};
  ASSERT_EQ(end.timeout.arm(50ms), 0);
  loop.run();
  EXPECT_EQ(ran, 1000);
  EXPECT_GE(reads, 99) << "once a pass of ten";
}

TEST(an_iteration, of_a_loop_that_is_idle_costs_no_rings) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  const int before = sends;
  probe p{timers};
  ASSERT_EQ(p.timeout.arm(20ms), 0);
  loop.run();
  EXPECT_EQ(sends, before);
}

// --- what keeps it alive ---

TEST(an_open_service, alone_does_not_keep_its_loop_alive_for_posts) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  int ran = 0;
  ASSERT_EQ(timers.remote().post(0s, [&ran]() noexcept { ++ran; }), 0);
  uv_run(loop.get(), UV_RUN_DEFAULT);
  EXPECT_EQ(ran, 0) << "a loop that is not alive never polls";
  const remote_hold hold = timers.hold();
  for (int runs = 0; runs < 10 && ran == 0; ++runs) uv_run(loop.get(), UV_RUN_ONCE);
  EXPECT_EQ(ran, 1) << "it was not lost";
}

TEST(a_hold, keeps_the_loop_alive_until_it_is_released) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  remote_hold hold = timers.hold();
  EXPECT_TRUE(hold);
  bool released = false;
  loop.after(10ms,
             [&] {
               hold.release();
               released = true;
             })
      .unref();
  loop.run();
  EXPECT_TRUE(released);
  EXPECT_FALSE(hold);
  EXPECT_EQ(uv_loop_alive(loop.get()), 0);
}

TEST(a_hold, lets_what_was_posted_before_its_release_run) {
  for (int round = 0; round < 50; ++round) {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop, with_wakeup({.work_per_pass = 3})), 0);
    int ran = 0;
    std::thread poster{[handle = timers.remote(), hold = timers.hold(), &ran] {
      for (int i = 0; i < 10; ++i) EXPECT_EQ(handle.post(0s, [&ran]() noexcept { ++ran; }), 0);
      EXPECT_EQ(handle.post(1ms, [&ran]() noexcept { ++ran; }), 0);
    }};
    loop.run();
    EXPECT_EQ(ran, 11);
    poster.join();
  }
}

TEST(a_hold, ends_with_its_last_copy) {
  manual_service service;
  remote_hold first = service.timers.hold();
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
  EXPECT_TRUE(service.turn()) << "and is rung for it";
  EXPECT_FALSE(service.time.alive());
}

TEST(a_hold, can_be_taken_again_before_the_loop_has_noticed_that_none_was_left) {
  manual_service service;
  service.timers.hold().release();
  const remote_hold again = service.timers.hold();
  service.turn();
  EXPECT_TRUE(service.time.alive());
}

TEST(a_hold, holds_the_loop_of_a_service_that_does_not) {
  manual_service service;
  service.timers.unref();
  remote_hold hold = service.timers.hold();
  EXPECT_TRUE(service.time.alive());
  hold.release();
  service.turn();
  EXPECT_FALSE(service.time.alive());
}

TEST(a_hold, of_a_closed_service_is_empty_and_one_from_before_is_without_effect) {
  manual_service service;
  remote_hold before = service.timers.hold();
  service.timers.close();
  EXPECT_FALSE(service.timers.hold());
  EXPECT_FALSE(service.time.alive());
  ASSERT_EQ(service.timers.open(service.time), 0);
  EXPECT_FALSE(service.time.alive());
  before.release();
  EXPECT_FALSE(service.turn());
}

TEST(a_hold, may_outlive_service_and_loop) {
  remote_hold hold;
  {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
    hold = timers.hold();
  }
  EXPECT_TRUE(hold);
  hold.release();
}

TEST(what_was_taken_and_waits, keeps_a_loop_alive_whose_service_does_not) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup({.work_per_pass = 1})), 0);
  timers.unref();
  int ran = 0;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(timers.remote().post(0s, [&ran]() noexcept { ++ran; }), 0);
  { const remote_hold hold = timers.hold(); }
  loop.run();
  EXPECT_EQ(ran, 20);
}

// --- closing ---

TEST(closing_a_service, lets_its_loop_end_although_handles_are_left) {
  remote_handle handle;
  {
    live_loop loop;
    timer_service timers;
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
    handle = timers.remote();
    ASSERT_EQ(handle.post(0s, []() noexcept {}), 0);
    timers.close();
    const int before = sends;
    EXPECT_EQ(handle.post(0s, []() noexcept {}), UV_ECANCELED);
    EXPECT_EQ(sends, before);
    EXPECT_EQ(timers.stats().remote_cancelled, 1U);
  }
  EXPECT_EQ(handle.post(0s, []() noexcept {}), UV_ECANCELED);
}

TEST(a_service, whose_handles_the_user_closed_takes_posts_and_counts_them_when_it_closes) {
  timer_service timers;
  {
    live_loop loop;
    ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
    uv_walk(
        loop.get(),
        [](uv_handle_t* h, void* arg) {
          EXPECT_TRUE(static_cast<timer_service*>(arg)->owns(h));
          if (!uv_is_closing(h)) uv_close(h, nullptr);
        },
        &timers);
    EXPECT_EQ(timers.remote().post(0s, []() noexcept {}), 0);
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(timers.remote().post(0s, []() noexcept {}), 0);
    timers.close();
    EXPECT_EQ(timers.stats().remote_cancelled, 2U);
  }
}

// --- forks ---

int status_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(after_a_fork, what_was_posted_runs_in_parent_and_child_and_both_can_be_posted_to) {
  live_loop loop;
  timer_service timers;
  ASSERT_EQ(timers.open(loop, with_wakeup()), 0);
  const remote_handle handle = timers.remote();
  remote_hold hold = timers.hold();
  int ran = 0;
  int* const count = &ran;
  const auto add = [count]() noexcept { ++*count; };
  ASSERT_EQ(handle.post(1ms, add), 0);
  uv_run(loop.get(), UV_RUN_NOWAIT);
  uv_run(loop.get(), UV_RUN_NOWAIT);
  ASSERT_EQ(handle.post(0s, add), 0);  // the bell is rung, and not heard yet
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a child that hangs must not outlive the test
    if (uv_loop_fork(loop.get()) != 0) _exit(2);
    timers.after_fork();
    while (ran < 2) uv_run(loop.get(), UV_RUN_ONCE);
    std::thread poster{[&, hold = std::move(hold)] {
      std::this_thread::sleep_for(5ms);  // so that the loop is in its poll, and the bell has to wake it
      if (handle.post(0s, add) != 0) _exit(3);
    }};
    uv_run(loop.get(), UV_RUN_DEFAULT);
    poster.join();
    _exit(ran == 3 ? 0 : 4);
  }
  hold.release();
  loop.run();
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(status_of(child), 0);
}

}  // namespace
