// Programs that fork beside a scheduler whose tasks are in a database. Parent and child have the same connections.
#include "../store/fork_run.hpp"
#include "postgres_fixture.hpp"

#include <cstdint>

using namespace conformance;

namespace {

TEST(scheduler_fork, parent_keeps_its_connections_and_misses_nothing) {
  for (std::uint64_t seed = 1; seed != 6; ++seed) {
    SCOPED_TRACE(seed);
    postgres_fixture on;
    fork_run{on.make_store(), seed}.run(60);
    EXPECT_TRUE(on.log.empty()) << on.log.front();
  }
}

}  // namespace
