// When a start is tried again that has waited for a lock.
#include "../../../src/durable/postgres/link/blocked_starts.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

using tickwheel::durable::postgres::blocked_starts;
using namespace std::chrono_literals;

namespace {

constexpr blocked_starts::steady_time first{1h};

TEST(blocked_starts, pause_grows_with_each_try) {
  blocked_starts blocked;
  auto now = first;
  for (const auto pause : {500ms, 1000ms, 2000ms, 4000ms, 5000ms, 5000ms}) {
    EXPECT_FALSE(blocked.holds("t", now));
    blocked.add("t", now);
    EXPECT_TRUE(blocked.holds("t", now + pause - 1ns));
    EXPECT_FALSE(blocked.holds("t", now + pause));
    EXPECT_FALSE(blocked.holds("another", now));
    now += pause;
  }
}

TEST(blocked_starts, that_has_started_is_not_held) {
  blocked_starts blocked;
  for (int i = 0; i != 3; ++i) blocked.add("t", first);
  blocked.remove("t");
  EXPECT_FALSE(blocked.holds("t", first));
  blocked.add("t", first);
  EXPECT_FALSE(blocked.holds("t", first + 500ms)) << "the pause is short again";
}

TEST(blocked_starts, are_bounded) {
  blocked_starts blocked;
  for (int i = 0; i != 10'000; ++i) blocked.add(std::to_string(i), first);
  EXPECT_TRUE(blocked.holds("0", first));
  blocked.add("one more", first);
  EXPECT_FALSE(blocked.holds("0", first));
  EXPECT_TRUE(blocked.holds("one more", first));
}

}  // namespace
