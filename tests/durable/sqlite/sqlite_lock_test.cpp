// How long a connection waits for the file's write lock.
#include "sqlite_fixture.hpp"

#include "../../../src/durable/sqlite/file/connection.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>

namespace sqlite = tickwheel::durable::sqlite;
using namespace std::chrono_literals;

namespace {

// How much longer each sleep of this process takes, as on a machine that is busy.
std::atomic<long> more_nanoseconds = 0;

}  // namespace

extern "C" int nanosleep(const timespec* asked, timespec* rest) {
  timespec longer = *asked;
  if (longer.tv_sec == 0) longer.tv_nsec = std::min(longer.tv_nsec + more_nanoseconds, 999'999'999L);
  return static_cast<int>(::syscall(SYS_nanosleep, &longer, rest));
}

namespace {

TEST(sqlite_lock, is_waited_for_by_the_clock_and_not_by_the_number_of_sleeps) {
  const conformance::test_folder folder;
  const std::string path = folder.file("tasks.db");
  const std::atomic<bool> give_up = false;
  const sqlite::connection holder{path, sqlite::access::create, 1 << 20, give_up};
  const sqlite::connection waiter{path, sqlite::access::existing, 1 << 20, give_up};
  holder.run("begin immediate");
  more_nanoseconds = std::chrono::nanoseconds{100ms}.count();
  for (int wait = 0; wait < 2; ++wait) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THROW(waiter.run("begin immediate"), sqlite::failure);
    const auto waited = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(waited, 1s);
    EXPECT_LT(waited, 30s) << "a thousand of these sleeps take 100 s";
  }
  more_nanoseconds = 0;
  holder.run("rollback");
  waiter.run("begin immediate; rollback");
}

}  // namespace
