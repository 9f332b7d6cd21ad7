// When a stamp may be judged: after one poll, and after a block not before two polls left nothing behind.
#include <tickwheel/uv/detail/verdict_stamp.hpp>

#include "../../support/prelude.hpp"

using tickwheel::detail::verdict_stamp;

namespace {

constexpr verdict_stamp::time_point start{1h};

verdict_stamp::moment at(std::chrono::nanoseconds after) { return {start + after, start + after}; }

/// A stamp of `start`, after a block.
verdict_stamp after_block(std::chrono::nanoseconds block, unsigned io_wait = 2) {
  verdict_stamp v{io_wait};
  v.busy_for(block);
  v.begin(at(0s));
  return v;
}

TEST(verdict_stamp, waits_for_no_input_without_a_block) {
  verdict_stamp v = after_block(verdict_stamp::longest_undisturbed);
  EXPECT_TRUE(v.waits());
  EXPECT_FALSE(v.waits_for_input());
  v.judge();
  EXPECT_EQ(v.judged().time, start);
  EXPECT_FALSE(v.waits());
}

TEST(verdict_stamp, waits_for_two_quiet_polls_after_a_block) {
  verdict_stamp v = after_block(verdict_stamp::longest_undisturbed + 1ns);
  ASSERT_TRUE(v.waits_for_input());
  v.polled(true);
  EXPECT_TRUE(v.waits_for_input());
  v.polled(true);
  EXPECT_FALSE(v.waits_for_input());
}

TEST(verdict_stamp, counts_only_quiet_polls_in_a_row) {
  verdict_stamp v = after_block(20ms);
  v.polled(true);
  v.polled(false);
  v.polled(true);
  EXPECT_TRUE(v.waits_for_input());
  v.polled(true);
  EXPECT_FALSE(v.waits_for_input());
}

TEST(verdict_stamp, waits_for_no_longer_than_its_bound) {
  verdict_stamp v = after_block(20ms, 3);
  EXPECT_FALSE(v.has_waited_enough(start + 60ms - 1ns));
  EXPECT_TRUE(v.waits_for_input());
  EXPECT_TRUE(v.has_waited_enough(start + 60ms));
  EXPECT_FALSE(v.waits_for_input());
}

TEST(verdict_stamp, takes_longest_block_for_its_bound_and_no_sum) {
  verdict_stamp v{2};
  v.busy_for(20ms);
  v.busy_for(30ms);
  v.begin(at(0s));
  v.busy_for(10ms);
  EXPECT_FALSE(v.has_waited_enough(start + 60ms - 1ns));
  v.busy_for(40ms);  // a block during the wait
  EXPECT_FALSE(v.has_waited_enough(start + 80ms - 1ns));
  EXPECT_TRUE(v.has_waited_enough(start + 80ms));
}

TEST(verdict_stamp, never_waits_longer_than_a_second) {
  for (const unsigned io_wait : {2U, 1000U, std::numeric_limits<unsigned>::max()}) {
    for (const std::chrono::nanoseconds block : {std::chrono::nanoseconds{600ms}, std::chrono::nanoseconds{10h}}) {
      verdict_stamp v = after_block(block, io_wait);
      EXPECT_FALSE(v.has_waited_enough(start + 1s - 1ns));
      EXPECT_TRUE(v.has_waited_enough(start + 1s));
    }
  }
}

TEST(verdict_stamp, keeps_blocks_that_came_while_it_waited_for_next) {
  verdict_stamp v{2};
  v.begin(at(0s));
  v.busy_for(20ms);  // its posted calls were delivered meanwhile
  ASSERT_FALSE(v.waits_for_input());
  v.judge();
  v.begin(at(1s));
  EXPECT_TRUE(v.waits_for_input());
}

TEST(verdict_stamp, forgets_blocks_when_it_was_judged) {
  verdict_stamp v = after_block(20ms);
  v.polled(true);
  v.polled(true);
  v.judge();
  v.begin(at(1s));
  EXPECT_FALSE(v.waits_for_input());
}

}  // namespace
