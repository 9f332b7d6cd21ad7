// Where the purges of a server's tasks begin.
#include "../../../src/durable/postgres/link/node_state.hpp"

#include <gtest/gtest.h>

using tickwheel::durable::postgres::purge_mark;

namespace {

using namespace std::chrono_literals;

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t day = 86'400 * second;

struct marked : testing::Test {
  // The first purge of a store, and the one that starts over for the first time.
  marked() {
    EXPECT_EQ(purge(day, 0, false), 0);
    EXPECT_EQ(purge(day, 5, false), 0);
  }
  // Returns where it begins.
  std::int64_t purge(std::int64_t now, std::int64_t last, bool is_cut) {
    const std::int64_t from = mark.next(60s);
    mark.advance(now, last, is_cut);
    return from;
  }
  purge_mark mark;
};

TEST_F(marked, goes_on_where_the_last_purge_ended) {
  EXPECT_EQ(purge(day + second, 70, true), 5);
  EXPECT_EQ(mark.next(60s), 70);
}

TEST_F(marked, stays_if_nothing_was_deleted) {
  EXPECT_EQ(purge(day + second, 0, false), 5);
  EXPECT_EQ(mark.next(60s), 5);
}

TEST_F(marked, starts_over_once_a_minute) {
  EXPECT_EQ(purge(day + 59 * second, 70, false), 5);
  EXPECT_EQ(purge(day + 60 * second, 80, false), 70);
  EXPECT_EQ(purge(day + 61 * second, 0, false), 0);
  EXPECT_EQ(mark.next(60s), 80) << "nothing was there";
}

TEST_F(marked, goes_on_through_what_a_purge_from_the_beginning_found) {
  EXPECT_EQ(purge(day + 60 * second, 80, false), 5);
  EXPECT_EQ(purge(day + 61 * second, 7, true), 0);
  EXPECT_EQ(mark.next(60s), 7);
}

TEST_F(marked, starts_over_after_the_clock_was_set_back) {
  EXPECT_EQ(purge(day - 3600 * second, 0, false), 5);
  EXPECT_EQ(purge(day - 3600 * second, 3, false), 0);
  EXPECT_EQ(mark.next(60s), 5);
}

TEST_F(marked, starts_over_again_if_that_purge_failed) {
  EXPECT_EQ(purge(day + 60 * second, 80, false), 5);
  EXPECT_EQ(mark.next(60s), 0);
  EXPECT_EQ(mark.next(60s), 0);
}

}  // namespace
