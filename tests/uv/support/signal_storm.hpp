// A thousand signals per second, which interrupt the calls of whatever thread they meet.
#pragma once

#include "../../support/prelude.hpp"

#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <thread>

/// Sends SIGALRM to this process each millisecond. The handler only counts, and restarts no call.
class signal_storm {
 public:
  signal_storm() {
    struct sigaction quiet {};
    quiet.sa_handler = [](int) { ++struck_; };
    EXPECT_EQ(sigaction(SIGALRM, &quiet, &before_), 0);
    struck_ = 0;
    const itimerval each_millisecond{{0, 1000}, {0, 1000}};
    EXPECT_EQ(setitimer(ITIMER_REAL, &each_millisecond, nullptr), 0);
  }
  ~signal_storm() {
    const itimerval calm{};
    setitimer(ITIMER_REAL, &calm, nullptr);
    // One may be on its way, and would end the process where nobody handles it. The system drops it while it is ignored.
    // valgrind keeps signals back, and needs the pause.
    std::signal(SIGALRM, SIG_IGN);
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
    sigaction(SIGALRM, &before_, nullptr);
  }
  signal_storm(const signal_storm&) = delete;
  signal_storm& operator=(const signal_storm&) = delete;

  /// Returns how many signals were handled since the storm began.
  static int struck() noexcept { return struck_; }

 private:
  inline static std::atomic<int> struck_{0};
  static_assert(std::atomic<int>::is_always_lock_free, "it is counted in a signal handler");

  struct sigaction before_ {};
};
