// Programs that fork beside a scheduler whose tasks are in a file.
#include "../store/fork_run.hpp"
#include "child_process.hpp"
#include "sqlite_fixture.hpp"

#include <unistd.h>

#include <cstdint>

using namespace conformance;

namespace {

TEST(scheduler_fork, parent_misses_nothing_and_child_does_nothing) {
  for (std::uint64_t seed = 1; seed != 6; ++seed) {
    SCOPED_TRACE(seed);
    const test_folder folder;
    // a fork under a sanitizer takes its time
    fork_run{durable::sqlite_store(folder.file("tasks.db")), seed}.run(60);
  }
}

TEST(scheduler_fork, child_keeps_the_file_locked_when_the_parent_is_killed) {
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
