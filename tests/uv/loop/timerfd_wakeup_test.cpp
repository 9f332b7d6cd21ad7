// A timerfd as what wakes the loop: when it is set, whose it is, and what becomes of its descriptor. What it has in
// common with a uv_timer_t is in the tests of the live loop.
#include "../../support/allocation_probe.hpp"
#include "../support/child.hpp"
#include "../support/descriptors.hpp"
#include "../support/live_test.hpp"
#include "../support/remote_checks.hpp"

#include <tickwheel/uv/remote.hpp>

#include <dlfcn.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#include <cerrno>
#include <csignal>

using tickwheel::service_options;
using tickwheel::timer_service;
using tickwheel::wake_by;

namespace {

int settings = 0;             // calls of timerfd_settime
int answer_of_poll_init = 0;  // what the next uv_poll_init answers; 0: what it really does
bool no_timerfd = false;      // the system has none left

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// In front of libc's and libuv's own, to count, and to fail where nothing else can be made to.
extern "C" __attribute__((visibility("default"))) int timerfd_settime(int fd, int flags, const itimerspec* to,
                                                                      itimerspec* was) noexcept {
  ++settings;
  static auto* const real = next<decltype(timerfd_settime)>("timerfd_settime");
  return real(fd, flags, to, was);
}

extern "C" __attribute__((visibility("default"))) int timerfd_create(clockid_t clock, int flags) noexcept {
  if (no_timerfd) {
    errno = ENOMEM;
    return -1;
  }
  static auto* const real = next<decltype(timerfd_create)>("timerfd_create");
  return real(clock, flags);
}

extern "C" __attribute__((visibility("default"))) int uv_poll_init(uv_loop_t* loop, uv_poll_t* poll, int fd) {
  if (answer_of_poll_init != 0) return answer_of_poll_init;
  static auto* const real = next<decltype(uv_poll_init)>("uv_poll_init");
  return real(loop, poll, fd);
}

namespace {

service_options by_timerfd(service_options options = {}) {
  options.wakeup = wake_by::timerfd;
  return options;
}

class timerfd_wakeup : public live_test {
 protected:
  void open(const service_options& options = {}) { ASSERT_EQ(timers.open(loop, by_timerfd(options)), 0); }
  /// How often the timerfd is set meanwhile.
  static int settings_of(const std::function<void()>& what) {
    const int before = settings;
    what();
    return settings - before;
  }
  void turn(int times) {
    for (int i = 0; i < times; ++i) uv_run(loop.get(), UV_RUN_NOWAIT);
  }
  /// And polls once.
  void open_and_arm(std::chrono::nanoseconds after) {
    open();
    p.arm(after);
    uv_run(loop.get(), UV_RUN_NOWAIT);
  }
  template <class Rest>
  void for_each_child(std::chrono::milliseconds due, Rest rest);
  int runs_in(std::chrono::milliseconds time) {
    int iterations = 0;
    live_loop::hook& counter = loop.each_prepare([&] { ++iterations; });
    loop.run_for(time);
    counter.close();
    return iterations;
  }
};

// --- when it is set ---

TEST_F(timerfd_wakeup, is_set_for_first_and_earlier_timers_only) {
  open();
  probe first{timers}, later{timers}, earlier{timers};
  EXPECT_EQ(settings_of([&] { first.arm(1h); }), 1);
  EXPECT_EQ(settings_of([&] { later.arm(2h); }), 0);
  EXPECT_EQ(settings_of([&] { earlier.arm(1min); }), 1);
}

TEST_F(timerfd_wakeup, is_not_set_by_cancel_and_later_arm) {
  open();
  p.arm(1h);
  EXPECT_EQ(settings_of([&] {
              for (int i = 0; i < 100; ++i) {
                p.timeout.cancel();
                p.arm(1h);
              }
            }),
            0);
}

TEST_F(timerfd_wakeup, is_not_set_by_iterations_that_find_nothing_due) {
  open();
  p.arm(1h);
  loop.each_idle({}).unref();
  EXPECT_EQ(settings_of([&] { turn(100); }), 0);
}

TEST_F(timerfd_wakeup, is_not_set_if_nothing_is_armed) {
  open();
  int ran = 0;
  const tickwheel::remote_hold hold = timers.hold();
  ASSERT_EQ(timers.remote().post(0s, count_in(ran)), 0);
  EXPECT_EQ(settings_of([&] { turn(5); }), 0);
  EXPECT_EQ(ran, 1);
}

TEST_F(timerfd_wakeup, is_set_once_per_expiry) {
  // on a slow machine the loop would look for input after a block, and put the timerfd to rest before
  open({.io_wait = 0});
  p.then = [&] {
    if (p.fired < 20) p.arm(2ms);
  };
  const int set = settings_of([&] {
    p.arm(2ms);
    loop.run();
  });
  EXPECT_EQ(p.fired, 20);
  EXPECT_LE(set, 21) << "the last puts it to rest";
  EXPECT_LE(timers.stats().wakeups, 20U);
}

TEST_F(timerfd_wakeup, early_wakeup_sets_it_for_armed_timers) {
  open();
  probe sooner{timers, 2ms};
  sooner.timeout.cancel();
  p.arm(10ms);
  loop.run();
  EXPECT_EQ(p.fired, 1);
  EXPECT_LE(timers.stats().wakeups, 2U);
}

TEST_F(timerfd_wakeup, expires_once_while_work_is_carried) {
  open({.work_per_pass = 1});
  probes all{timers, 50, 1ms};
  block_for(2ms);
  const int set = settings_of([&] { loop.run(); });
  EXPECT_TRUE(all.each_fired_once());
  EXPECT_LE(timers.stats().wakeups, 1U);
  EXPECT_LE(set, 1);
}

TEST_F(timerfd_wakeup, is_not_set_for_a_past_time) {
  open();
  loop.once_in(phase::io, [&] {
    const auto iteration = timers.now();
    block_for(1ms);  // several ticks: the one after the iteration's has passed
    EXPECT_EQ(settings_of([&] { EXPECT_EQ(p.timeout.arm_at(iteration), 0); }), 0);
  });
  loop.run();
  EXPECT_EQ(p.fired, 1);
}

TEST_F(timerfd_wakeup, does_not_expire_for_the_end_of_time) {
  open();
  p.arm(std::chrono::hours::max());
  EXPECT_LE(runs_in(50ms), 3);
  EXPECT_EQ(timers.stats().wakeups, 0U);
}

// A uv_timer_t cannot: libuv counts in whole milliseconds.
TEST_F(timerfd_wakeup, is_less_than_half_a_millisecond_late) {
  open({.tick = std::chrono::nanoseconds{1 << 16}});
  int below = 0;
  tickwheel::clock::time_point due;
  const auto arm = [&] {
    due = tickwheel::clock::now() + 1100us;
    p.arm(1100us);
  };
  p.then = [&] {
    below += p.at - due < 500us;
    if (p.fired < 500 && below < 10) arm();
  };
  arm();
  loop.run();
  EXPECT_EQ(below, 10);
}

TEST_F(timerfd_wakeup, shares_a_loop_with_a_uv_timer) {
  open();
  timer_service other;
  ASSERT_EQ(other.open(loop, {.wakeup = wake_by::uv_timer}), 0);
  probe a{timers, 3ms}, b{other, 2ms};
  loop.run();
  EXPECT_EQ(a.fired + b.fired, 2);
}

// --- its descriptor ---

TEST_F(timerfd_wakeup, takes_one_descriptor_until_close) {
  const auto before = open_descriptors();
  open();
  EXPECT_EQ(open_descriptors(), before + 1);
  timers.close();
  EXPECT_EQ(open_descriptors(), before) << "the loop has not turned yet";
}

TEST_F(timerfd_wakeup, gives_descriptor_back_after_handles_were_closed) {
  const auto before = open_descriptors();
  open();
  p.arm(1ms);
  close_each_handle(loop.get());
  loop.run();
  timers.close();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(timerfd_wakeup, open_without_descriptors_leaves_nothing_behind) {
  const auto before = open_descriptors();
  const auto allocated = allocations::outstanding();
  {
    const no_descriptors none;
    EXPECT_EQ(timers.open(loop, by_timerfd()), UV_EMFILE);
  }
  EXPECT_FALSE(timers.is_open());
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(allocations::outstanding(), allocated);
  EXPECT_EQ(uv_loop_alive(loop.get()), 0);
  open();
  EXPECT_TRUE(fires(timers, [&] { loop.run(); }));
}

TEST_F(timerfd_wakeup, open_that_cannot_poll_leaves_nothing_behind) {
  const auto before = open_descriptors();
  const auto allocated = allocations::outstanding();
  answer_of_poll_init = UV_ENOSPC;
  EXPECT_EQ(timers.open(loop, by_timerfd()), UV_ENOSPC);
  answer_of_poll_init = 0;
  EXPECT_FALSE(timers.is_open());
  EXPECT_EQ(open_descriptors(), before);
  uv_run(loop.get(), UV_RUN_NOWAIT);
  EXPECT_EQ(allocations::outstanding(), allocated);
  EXPECT_EQ(uv_loop_alive(loop.get()), 0);
  open();
}

TEST_F(timerfd_wakeup, uv_timer_needs_no_descriptor) {
  const auto before = open_descriptors();
  ASSERT_EQ(timers.open(loop), 0);
  EXPECT_EQ(open_descriptors(), before);
}

// --- whose it is: a descriptor is shared with a child, and so is the timer behind it ---

/// The child of a fork does that to its end, and finds no fault.
void in_child(const std::function<void()>& run) { EXPECT_EQ(child_process{run}.exit_code(), 0); }

TEST_F(timerfd_wakeup, child_does_not_wake_parent) {
  open_and_arm(1h);
  in_child([&] {
    EXPECT_EQ(uv_loop_fork(loop.get()), 0);
    timers.after_fork();
    p.arm(1ms);
    uv_run(loop.get(), UV_RUN_NOWAIT);  // it is set, and not yet come
  });
  EXPECT_LE(runs_in(30ms), 3);
  EXPECT_EQ(timers.stats().wakeups, 0U);
}

TEST_F(timerfd_wakeup, child_needs_no_further_descriptor) {
  open();
  p.arm(20ms);
  in_child([&] {
    EXPECT_EQ(uv_loop_fork(loop.get()), 0);
    const auto before = open_descriptors();
    {
      const no_descriptors none;
      timers.after_fork();
    }
    EXPECT_EQ(open_descriptors(), before);
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(p.fired, 1);
  });
}

TEST_F(timerfd_wakeup, child_without_timerfd_is_stopped) {
  open();
  const auto without_timerfd = [&] {
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    EXPECT_EQ(uv_loop_fork(loop.get()), 0);
    no_timerfd = true;
    timers.after_fork();
  };
  EXPECT_EQ(child_process{without_timerfd}.exit_code(), -SIGABRT);
}

// What a child that did not call after_fork, and maybe not even uv_loop_fork, does with the service.
struct careless_child {
  const char* name;
  bool forks_loop;
  bool calls_after_fork;
  bool polls;
  bool arms;
};
constexpr careless_child careless_children[] = {{"closes at once", false, false, false, false},
                                                {"arms", false, false, false, true},
                                                {"forks loop", true, false, false, false},
                                                {"forks loop and arms", true, false, false, true},
                                                {"forks loop and polls", true, false, true, false},
                                                {"forks loop, polls and arms", true, false, true, true},
                                                {"forks all", true, true, false, false},
                                                {"forks all and polls", true, true, true, true}};

/// Each of these children does its part, and then that. Its parent is woken all the same.
template <class Rest>
void timerfd_wakeup::for_each_child(std::chrono::milliseconds due, Rest rest) {
  for (const careless_child& does : careless_children) {
    SCOPED_TRACE(does.name);
    open_and_arm(due);
    in_child([&] {
      if (does.forks_loop) {
        EXPECT_EQ(uv_loop_fork(loop.get()), 0);
      }
      if (does.calls_after_fork) timers.after_fork();
      if (does.polls) uv_run(loop.get(), UV_RUN_NOWAIT);
      if (does.arms) {
        p.fired = 0;  // on a slow machine the timer was due in that poll
        p.arm(1ms);
      }
      rest(does);
    });
    loop.run();
    EXPECT_EQ(std::exchange(p.fired, 0), 1);
    EXPECT_EQ(timers.stats().wakeups, 1U);
    timers.close();
    loop.run();  // until the handles are closed
  }
}

TEST_F(timerfd_wakeup, keeps_waking_parent_when_child_closes) {
  for_each_child(50ms, [&](const careless_child&) {
    timers.close();
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(loop.get()), 0);
  });
}

TEST_F(timerfd_wakeup, wakes_child_and_then_parent) {
  for_each_child(50ms, [&](const careless_child& does) {
    if (!does.forks_loop) return;  // it is the parent's
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(p.fired, 1);
    EXPECT_TRUE(fires(timers, [&] { uv_run(loop.get(), UV_RUN_DEFAULT); }));
  });
}

// The parent's timer, which comes while nobody sets it anew, must not be in the child's own set.
TEST_F(timerfd_wakeup, leaves_nothing_in_childs_own_set) {
  for_each_child(20ms, [&](const careless_child& does) {
    if (!does.forks_loop) return;  // the set is the parent's
    timers.close();
    uv_run(loop.get(), UV_RUN_NOWAIT);
    pollfd set{uv_backend_fd(loop.get()), POLLIN, 0};
    EXPECT_EQ(::poll(&set, 1, 60), 0);
  });
}

TEST_F(timerfd_wakeup, wakes_child_when_after_fork_comes_behind_poll) {
  open_and_arm(20ms);
  in_child([&] {
    EXPECT_EQ(uv_loop_fork(loop.get()), 0);
    uv_run(loop.get(), UV_RUN_NOWAIT);
    timers.after_fork();
    uv_run(loop.get(), UV_RUN_DEFAULT);
    EXPECT_EQ(p.fired, 1);
  });
}

// As a service of static storage is, in a child whose exec failed.
TEST_F(timerfd_wakeup, keeps_waking_parent_when_child_destroys_service) {
  auto* const service = new timer_service;
  ASSERT_EQ(service->open(loop, by_timerfd()), 0);
  auto* const each = new probe{*service};
  each->arm(50ms);
  uv_run(loop.get(), UV_RUN_NOWAIT);
  in_child([&] { delete service; });
  loop.run();
  EXPECT_EQ(each->fired, 1);
  delete each;
  delete service;
}

}  // namespace
