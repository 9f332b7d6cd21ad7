// Runs the tests if PostgreSQL is installed. Otherwise they count as skipped.
#include "test_server.hpp"

#include <gtest/gtest.h>

#include <cstdio>

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  if (!conformance::test_server::find_programs()) {
    std::puts("skipped: PostgreSQL's programs are missing; install the package postgresql");
    return conformance::skipped;
  }
  return RUN_ALL_TESTS();
}
