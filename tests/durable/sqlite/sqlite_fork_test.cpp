// Programs that fork beside a scheduler whose tasks are in a file.
#include "../store/fork_run.hpp"
#include "child_process.hpp"
#include "sqlite_fixture.hpp"

#include <unistd.h>

using namespace conformance;

namespace {

class sqlite_fork : public testing::TestWithParam<int> {};

TEST_P(sqlite_fork, parent_misses_nothing_and_child_does_nothing) {
  const test_folder folder;
  // a fork under a sanitizer takes its time
  fork_run{durable::sqlite_store(folder.file("tasks.db")), static_cast<std::uint64_t>(GetParam())}.run(60);
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
