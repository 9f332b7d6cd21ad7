// A fork, where other threads' timers are in the wheel, on their way or cancelled, and where a pool has work: parent and
// child each go on with what there was, and neither takes anything from the other. (The plain timers of a fork are in
// loop_time_test, posts and the bell in remote_loop_test.)
#include "../support/live_loop.hpp"
#include "../support/probe.hpp"
#include "../support/remote_checks.hpp"
#include "../support/sanitizers.hpp"

#include <tickwheel/uv/offload.hpp>
#include <tickwheel/uv/remote.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <functional>
#include <thread>

using namespace std::chrono_literals;
using tickwheel::offload_pool;
using tickwheel::remote_handle;
using tickwheel::remote_hold;
using tickwheel::remote_timer;
using tickwheel::timer_service;

namespace {

/// Forks. The child goes on with the loop and then answers what `in_child` does, 0 when all was right; the parent gets it
/// from `answer`.
class forked {
 public:
  forked(live_loop& loop, timer_service& timers, const std::function<int()>& in_child) : child_{fork()} {
    EXPECT_GE(child_, 0);
    if (child_ != 0) return;
    alarm(20);  // a child that hangs must not outlive the test
    if (uv_loop_fork(loop.get()) != 0) _exit(2);
    timers.after_fork();
    _exit(in_child());
  }
  int answer() const {
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t child_;
};

struct fork_test : testing::Test {
  void open(const tickwheel::service_options& options = {}) {
    ASSERT_EQ(timers.open(loop, options), 0);
    handle = timers.remote();
  }
  auto count() {
    return [ran = &ran]() noexcept { ++*ran; };
  }
  template <class Done>
  void turn_until(Done done) {
    const remote_hold hold = timers.hold();
    for (int turns = 0; !done(); ++turns) {
      ASSERT_LT(turns, 10'000);
      uv_run(loop.get(), UV_RUN_NOWAIT);
    }
  }

  live_loop loop;
  timer_service timers;
  probe p{timers};
  remote_handle handle;
  int ran = 0;
};

TEST_F(fork_test, child_cancels_remote_timer_for_itself_only) {
  open();
  remote_timer timer;
  ASSERT_EQ(handle.arm(60ms, count(), timer), 0);
  turn_until([&] { return timers.stats().pending == 1; });
  const forked child{loop, timers, [&] {
                       if (timer.cancel() != remote_timer::outcome::cancelled) return 3;
                       probe later{timers};
                       if (later.timeout.arm(100ms) != 0) return 4;
                       uv_run(loop.get(), UV_RUN_DEFAULT);
                       if (ran != 0 || later.fired != 1) return 5;
                       timers.close();
                       return remote_adds_up(timers) ? 0 : 6;
                     }};
  loop.run();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(timer.cancel(), remote_timer::outcome::too_late);
  EXPECT_EQ(child.answer(), 0);
}

TEST_F(fork_test, pending_cancel_counts_in_both) {
  open();
  remote_timer timer;
  ASSERT_EQ(handle.arm(20ms, count(), timer), 0);
  turn_until([&] { return timers.stats().pending == 1; });
  ASSERT_EQ(timer.cancel(), remote_timer::outcome::cancelled);
  const auto rest = [&] {
    probe later{timers};
    if (later.timeout.arm(40ms) != 0) return 3;
    uv_run(loop.get(), UV_RUN_DEFAULT);
    if (ran != 0 || timers.stats().remote_withdrawn != 1) return 4;
    timers.close();
    return remote_adds_up(timers) ? 0 : 5;
  };
  const forked child{loop, timers, rest};
  EXPECT_EQ(rest(), 0);
  EXPECT_EQ(child.answer(), 0);
}

TEST_F(fork_test, taken_posts_run_in_both) {
  open({.work_per_pass = 1});
  for (int i = 0; i < 50; ++i) ASSERT_EQ(handle.post(0s, count()), 0);
  turn_until([&] { return ran >= 5; });
  const forked child{loop, timers, [&] {
                       uv_run(loop.get(), UV_RUN_DEFAULT);
                       return ran == 50 ? 0 : 3;
                     }};
  loop.run();
  EXPECT_EQ(ran, 50);
  EXPECT_EQ(child.answer(), 0);
}

TEST_F(fork_test, parent_is_woken_after_child_closes_service) {
  open();
  p.arm(30ms);
  const forked child{loop, timers, [&] {
                       timers.close();
                       uv_run(loop.get(), UV_RUN_DEFAULT);
                       return p.fired == 0 && handle.post(0s, count()) == UV_ECANCELED ? 0 : 3;
                     }};
  EXPECT_EQ(child.answer(), 0);
  std::thread poster{[this, hold = timers.hold()] {
    std::this_thread::sleep_for(5ms);  // so that the loop is in its poll, and the bell has to wake it
    EXPECT_EQ(handle.post(0s, count()), 0);
  }};
  loop.run();
  poster.join();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(p.fired, 1);
}

TEST_F(fork_test, child_closes_service_and_loop) {
  open();
  p.arm(30ms);
  uv_run(loop.get(), UV_RUN_NOWAIT);
  const forked child{loop, timers, [&] {
                       timers.close();
                       uv_run(loop.get(), UV_RUN_DEFAULT);
                       return uv_loop_close(loop.get()) == 0 ? 0 : 3;
                     }};
  EXPECT_EQ(child.answer(), 0);
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

// How often UV_RUN_ONCE returns until a timer of libuv's own has run.
int runs_once_until_timer(uv_loop_t* loop) {
  bool done = false;
  uv_timer_t timer;
  uv_timer_init(loop, &timer);
  timer.data = &done;
  uv_update_time(loop);
  uv_timer_start(
      &timer, [](uv_timer_t* t) { *static_cast<bool*>(t->data) = true; }, 20, 0);
  int runs = 0;
  while (!done) {
    uv_run(loop, UV_RUN_ONCE);
    ++runs;
  }
  uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
  uv_run(loop, UV_RUN_NOWAIT);
  return runs;
}

TEST_F(fork_test, child_without_work_does_not_wake_for_a_pass) {
  open();
  p.arm(1h);
  uv_run(loop.get(), UV_RUN_NOWAIT);
  const forked child{loop, timers, [&] { return runs_once_until_timer(loop.get()) == 1 ? 0 : 3; }};
  EXPECT_EQ(child.answer(), 0);
}

TEST_F(fork_test, child_notices_hold_that_parent_had_released) {
  open();
  { const remote_hold hold = timers.hold(); }
  const forked child{loop, timers, [&] {
                       uv_run(loop.get(), UV_RUN_DEFAULT);  // until nothing holds the loop
                       return 0;
                     }};
  EXPECT_EQ(child.answer(), 0);
}

struct asker {
  asker(timer_service& timers, offload_pool& pool) : call{timers, pool, *this} {}
  void on_done(int error, int* value) noexcept {
    ++answers;
    result = error == 0 ? *value : error;
  }
  int answers = 0;
  int result = 0;
  tickwheel::offload<&asker::on_done> call;
};

TEST_F(fork_test, offload_goes_on_in_both) {
  if (under_thread_sanitizer) GTEST_SKIP() << "it does not support a fork of several threads";
  open();
  offload_pool pool;
  ASSERT_EQ(pool.open(loop), 0);
  asker before{timers, pool}, armed{timers, pool}, later{timers, pool};
  ASSERT_EQ(before.call.run([]() noexcept { return 1; }),
            0);  // so that the pool has its threads, which a child has not
  loop.run();
  ASSERT_EQ(before.result, 1);
  ASSERT_EQ(armed.call.arm(20ms, []() noexcept { return 2; }), 0);
  const auto rest = [&] {
    if (later.call.run([]() noexcept { return 3; }) != 0) return 3;
    uv_run(loop.get(), UV_RUN_DEFAULT);
    return before.answers == 1 && armed.result == 2 && later.result == 3 && pool.in_flight() == 0 ? 0 : 4;
  };
  const forked child{loop, timers, rest};
  EXPECT_EQ(rest(), 0);
  EXPECT_EQ(child.answer(), 0);
}

// How many threads libuv's pool has.
std::size_t pool_threads() {
  const char* const asked = std::getenv("UV_THREADPOOL_SIZE");
  return asked == nullptr ? 4 : std::strtoul(asked, nullptr, 10);
}

TEST_F(fork_test, work_in_the_pool_stays_with_parent) {
  if (under_thread_sanitizer) GTEST_SKIP() << "it does not support a fork of several threads";
  open();
  offload_pool pool;
  ASSERT_EQ(pool.open(loop), 0);
  std::array<int, 2> begun{}, gate{};
  ASSERT_EQ(pipe(begun.data()), 0);
  ASSERT_EQ(pipe(gate.data()), 0);
  // One for each thread, all of which have begun: so none has the pool's lock, for which the child would wait for ever.
  const std::size_t threads = pool_threads();
  std::deque<asker> in_flight;
  for (std::size_t i = 0; i < threads; ++i) {
    ASSERT_EQ(in_flight.emplace_back(timers, pool).call.run([to = begun[1], from = gate[0]]() noexcept {
      char byte = 'x';
      return static_cast<int>(::write(to, &byte, 1) == 1 ? ::read(from, &byte, 1) : -1);
    }),
              0);
  }
  for (std::size_t i = 0; i < threads; ++i) {
    char byte = 0;
    ASSERT_EQ(::read(begun[0], &byte, 1), 1);
  }
  const auto answers = [&] {
    int all = 0;
    for (const asker& a : in_flight) all += a.answers;
    return all;
  };
  const forked child{loop, timers, [&] {
                       if (!in_flight.front().call.cancel() || pool.in_flight() != threads) return 3;
                       for (int turns = 0; turns < 20; ++turns) {
                         uv_run(loop.get(), UV_RUN_NOWAIT);
                         std::this_thread::sleep_for(1ms);
                       }
                       return answers() == 0 ? 0 : 4;
                     }};
  EXPECT_EQ(child.answer(), 0);
  for (std::size_t i = 0; i < threads; ++i) ASSERT_EQ(::write(gate[1], "x", 1), 1);
  loop.run();
  EXPECT_EQ(answers(), static_cast<int>(threads));
  for (const asker& a : in_flight) EXPECT_EQ(a.result, 1);
  for (const int end : {begun[0], begun[1], gate[0], gate[1]}) ::close(end);
}

}  // namespace
