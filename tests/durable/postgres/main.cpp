// Runs the tests if PostgreSQL is installed. Otherwise they count as skipped. Only a long run breaks servers and connections: that
// waits for timeouts, and a busy machine misses them.
#include "test_server.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  if (!conformance::test_server::find_programs()) {
    std::puts("skipped: PostgreSQL's programs are missing; install the package postgresql");
    return conformance::skipped;
  }
  if (std::getenv("TICKWHEEL_TEST_LONG") == nullptr && testing::GTEST_FLAG(filter) == "*")
    testing::GTEST_FLAG(filter) =
        "-postgres_outage.*:postgres_server.*:postgres_setting.*:postgres_failover.*:full_disk.*";
  return RUN_ALL_TESTS();
}
