// A program that forks beside a scheduler: at any moment, and with requests and starts in flight. The child runs its loop, or ends at once.
#pragma once

#include "../../uv/support/live_loop.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace conformance {

/// What a child does.
enum class conduct {
  exits,         // at once
  runs,          // its loop, after uv_loop_fork
  runs_shared,   // its loop, before uv_loop_fork
  closes_polls,  // closes the handles of its loop, and runs it
  closes,        // destroys the scheduler
};
constexpr std::size_t conducts = 5;

/// A scheduler, and children that do what `conduct` tells. The parent must miss nothing, and a child must do nothing.
struct fork_run {
  using steady = std::chrono::steady_clock;
  static constexpr std::chrono::seconds patience{60};  // a child ends much earlier

  explicit fork_run(std::unique_ptr<tickwheel::durable::store> in, std::uint64_t seed) : random{seed} {
    using namespace std::chrono_literals;
    EXPECT_EQ(timers.open(loop), 0);
    tickwheel::durable::scheduler_options of;
    of.poll = 10ms;
    of.window = 50ms;
    of.request_timeout = 1min;
    scheduler = std::make_unique<tickwheel::durable::scheduler>(timers, std::move(in), of);
    scheduler->on_due([this](tickwheel::durable::execution run) noexcept {
      leave_if_child();
      started.insert(std::string{run.id()});
      if (below(100) == 0) fork(conduct::exits);  // a child returns from no handler
      run.done([this](tickwheel::durable::finish_result) noexcept { leave_if_child(); });
    });
  }
  ~fork_run() {
    scheduler.reset();
    timers.close();
  }

  std::size_t below(std::size_t count) { return random() % count; }

  // a callable was called in the child
  void leave_if_child() const {
    if (is_child) ::_exit(3);
  }

  void open() {
    bool is_ready = false;
    ASSERT_EQ(scheduler->open([&](int error) noexcept { is_ready = error == 0; }), 0);
    run_until([&] { return is_ready; });
  }

  void schedule_one() {
    using namespace std::chrono_literals;
    tickwheel::durable::task what{.id = "t" + std::to_string(asked++),
                                  .due = tickwheel::durable::clock::now() + 1ms * below(100)};
    what.payload.resize(below(200));
    ASSERT_EQ(scheduler->schedule(std::move(what),
                                  [this](tickwheel::durable::schedule_result r) noexcept {
                                    leave_if_child();
                                    ++answered;
                                    scheduled += r == tickwheel::durable::schedule_result::scheduled;
                                  }),
              0);
  }

  void fork(conduct how) {
    const std::chrono::milliseconds lasts{1 + below(60)};
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      is_child = true;
      act(how, lasts);
      ::_exit(0);
    }
    children.push_back({child, steady::now() + patience});
  }

  void act(conduct how, std::chrono::milliseconds lasts) {
    if (how == conduct::exits) return;
    if (how != conduct::runs_shared) {
      if (uv_loop_fork(loop.get()) != 0) ::_exit(4);
      timers.after_fork();
    }
    if (how == conduct::closes) scheduler.reset();
    if (how == conduct::closes_polls) {
      const auto close = [](uv_handle_t* h, void*) {
        if (uv_handle_get_type(h) == UV_POLL && uv_is_closing(h) == 0) uv_close(h, nullptr);
      };
      uv_walk(loop.get(), close, nullptr);
    }
    for (const auto end = steady::now() + lasts; steady::now() < end;) uv_run(loop.get(), UV_RUN_NOWAIT);
  }

  // notes each child that has ended, and how
  void reap() {
    std::erase_if(children, [](const auto& child) {
      int status = 0;
      if (::waitpid(child.first, &status, WNOHANG) == child.first) {
        EXPECT_EQ(status, 0) << "3 << 8: a callable was called in the child";
        return true;
      }
      if (steady::now() < child.second) return false;
      ADD_FAILURE() << "a child does not end";
      ::kill(child.first, SIGKILL);
      ::waitpid(child.first, &status, 0);
      return true;
    });
  }

  template <class Condition>
  void run_until(Condition ends) {
    for (const auto end = steady::now() + patience; !ends();) {
      uv_run(loop.get(), UV_RUN_NOWAIT);
      reap();
      ASSERT_LT(steady::now(), end) << "the parent waits for ever";
    }
  }

  /// Schedules `tasks` tasks and forks meanwhile, until each was started.
  void run(std::size_t tasks) {
    open();
    for (const auto end = steady::now() + patience; answered != tasks;) {
      ASSERT_LT(steady::now(), end) << "the parent waits for ever";
      while (asked != tasks && asked - answered < 30) schedule_one();
      uv_run(loop.get(), UV_RUN_NOWAIT);
      if (below(20) == 0 && children.size() < 3) fork(static_cast<conduct>(below(conducts)));
      reap();
    }
    EXPECT_EQ(scheduled, tasks);
    run_until([&] { return started.size() >= tasks && children.empty(); });
    EXPECT_EQ(started.size(), tasks) << "some were started twice";
  }

  std::mt19937_64 random;
  live_loop loop;
  tickwheel::timer_service timers;
  std::unique_ptr<tickwheel::durable::scheduler> scheduler;
  bool is_child = false;
  std::vector<std::pair<pid_t, steady::time_point>> children;
  std::size_t asked = 0, answered = 0, scheduled = 0;
  std::multiset<std::string> started;
};

}  // namespace conformance
