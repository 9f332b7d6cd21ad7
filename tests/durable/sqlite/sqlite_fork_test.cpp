// A program that forks beside a scheduler: at any moment, and with requests and starts in flight. The child runs its loop, or ends at once.
#include "child_process.hpp"
#include "sqlite_fixture.hpp"

#include <tickwheel/durable/durable.hpp>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace conformance;
using steady = std::chrono::steady_clock;

namespace {

// a child ends much earlier
constexpr auto patience = 60s;

enum class conduct {
  exits,         // at once
  runs,          // its loop, after uv_loop_fork
  runs_shared,   // its loop, before uv_loop_fork
  closes_polls,  // closes the handles of its loop, and runs it
  closes,        // destroys the scheduler
};
constexpr std::size_t conducts = 5;

struct fork_run {
  explicit fork_run(std::uint64_t seed) : random{seed} {
    EXPECT_EQ(timers.open(loop), 0);
    durable::scheduler_options of;
    of.poll = 10ms;
    of.window = 50ms;
    of.request_timeout = 1min;
    scheduler = std::make_unique<durable::scheduler>(timers, durable::sqlite_store(folder.file("tasks.db")), of);
    scheduler->on_due([this](durable::execution run) noexcept {
      leave_if_child();
      started.insert(std::string{run.id()});
      if (below(100) == 0) fork(conduct::exits);  // a child returns from no handler
      run.done([this](durable::finish_result) noexcept { leave_if_child(); });
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
    durable::task what{.id = "t" + std::to_string(asked++), .due = durable::clock::now() + 1ms * below(100)};
    what.payload.resize(below(200));
    ASSERT_EQ(scheduler->schedule(std::move(what),
                                  [this](durable::schedule_result r) noexcept {
                                    leave_if_child();
                                    ++answered;
                                    scheduled += r == durable::schedule_result::scheduled;
                                  }),
              0);
  }

  void fork(conduct how) {
    const auto lasts = 1ms * (1 + below(60));
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

  test_folder folder;
  std::mt19937_64 random;
  live_loop loop;
  tickwheel::timer_service timers;
  std::unique_ptr<durable::scheduler> scheduler;
  bool is_child = false;
  std::vector<std::pair<pid_t, steady::time_point>> children;
  std::size_t asked = 0, answered = 0, scheduled = 0;
  std::multiset<std::string> started;
};

class sqlite_fork : public testing::TestWithParam<int> {};

TEST_P(sqlite_fork, parent_misses_nothing_and_child_does_nothing) {
  constexpr std::size_t tasks = 60;  // a fork under a sanitizer takes its time
  fork_run run{static_cast<std::uint64_t>(GetParam())};
  run.open();
  for (const auto end = steady::now() + patience; run.answered != tasks;) {
    ASSERT_LT(steady::now(), end) << "the parent waits for ever";
    while (run.asked != tasks && run.asked - run.answered < 30) run.schedule_one();
    uv_run(run.loop.get(), UV_RUN_NOWAIT);
    if (run.below(20) == 0 && run.children.size() < 3) run.fork(static_cast<conduct>(run.below(conducts)));
    run.reap();
  }
  EXPECT_EQ(run.scheduled, tasks);
  run.run_until([&] { return run.started.size() >= tasks && run.children.empty(); });
  EXPECT_EQ(run.started.size(), tasks) << "some were started twice";
}

INSTANTIATE_TEST_SUITE_P(, sqlite_fork, testing::Range(1, 6));

TEST(sqlite_fork_child, keeps_the_file_locked_when_the_parent_is_killed) {
  const test_folder folder;
  // a parent that is killed while its child lives on
  child_process parent{[&](const child_process::parent& us) {
    sqlite_fixture there{folder.file("tasks.db")};
    node own{there};
    own.start();
    const pid_t child = ::fork();
    if (child == 0) {
      us.tell();
      us.wait();  // until the test ends
      ::_exit(0);
    }
    ::pause();
    return 0;
  }};
  parent.wait();
  parent.kill();
  parent.exit_code();
  sqlite_fixture here{folder.file("tasks.db")};
  node next{here};
  EXPECT_EQ(next.join(), UV_EBUSY);
}

}  // namespace
