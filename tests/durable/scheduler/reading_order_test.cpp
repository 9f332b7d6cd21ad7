// In which order a look reads its ranges, and what a load that fails changes in that.
#include "../../../src/durable/engine/reading_order.hpp"

#include "../../../src/durable/batch_limits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace tickwheel::durable::detail {
namespace {

using namespace std::chrono_literals;
using partitions = std::vector<partition_number>;

std::vector<load_range> ranges_of(const partitions& ps) {
  std::vector<load_range> ranges;
  for (const partition_number p : ps) ranges.push_back({p, {}, {}});
  return ranges;
}

partitions partitions_of(const std::vector<load_range>& ranges) {
  partitions ps;
  for (const load_range& r : ranges) ps.push_back(r.partition);
  return ps;
}

partitions first(std::size_t count) {
  partitions ps(count);
  std::iota(ps.begin(), ps.end(), partition_number{0});
  return ps;
}

class reading_order_test : public testing::Test {
 protected:
  static constexpr auto quick = limits.quick_failure;
  static constexpr auto slow = quick + 1ns;

  void begin(const partitions& marks, const partitions& step = {}, const partitions& unread = {},
             const partitions& put_off = {}) {
    order_.begin({ranges_of(marks), ranges_of(step), ranges_of(unread), ranges_of(put_off)}, now_);
  }

  // Returns the partitions of the next load.
  partitions take() {
    order_.take(taken_);
    return partitions_of(taken_);
  }

  void read(const partitions& rest = {}) {
    auto ranges = ranges_of(rest);
    order_.on_read(taken_, ranges);
  }

  // The next load is of these partitions, and is read.
  void reads(const partitions& expected) {
    EXPECT_EQ(take(), expected);
    read();
  }

  partitions fail(std::chrono::nanoseconds took = slow) { return partitions_of(order_.on_failed(taken_, now_, took)); }

  // Takes and reads all that is left.
  void read_all() {
    while (!order_.is_empty()) {
      take();
      read();
    }
  }

  // The partition 1 fails `times` times, and 2 does not.
  void fail_one(int times) {
    begin({1, 2});
    take();
    fail();
    EXPECT_EQ(take(), (partitions{1}));
    fail();
    take();
    read();
    for (; times != 1; --times) {
      now_ += 100h;
      begin({2}, {}, {}, {1});
      take();
      read();
      EXPECT_EQ(take(), (partitions{1}));
      fail();
    }
  }

  // Returns how long the partition 1 is put off, in times of its last try.
  std::int64_t pauses() {
    for (std::int64_t n = 0; n != 10000; ++n) {
      const auto from = std::exchange(now_, now_ + n * slow);
      begin({2}, {}, {}, {1});
      const std::size_t size = order_.size();
      now_ = from;
      if (size == 2) return n;
    }
    return -1;
  }

  reading_order order_;
  std::vector<load_range> taken_;
  reading_order::time_point now_{1h};
};

TEST_F(reading_order_test, reads_marks_then_the_step_then_unread_then_further_pages) {
  begin({1, 2}, {3}, {4});
  EXPECT_EQ(order_.size(), 4U);
  EXPECT_EQ(take(), (partitions{1, 2}));
  EXPECT_EQ(order_.taken(), range_kind::mark);
  read({2});  // a further page of a mark comes before all that begins at the beginning
  EXPECT_EQ(take(), (partitions{2}));
  EXPECT_EQ(order_.taken(), range_kind::mark);
  read();
  EXPECT_EQ(take(), (partitions{3}));
  EXPECT_EQ(order_.taken(), range_kind::step);
  read({3});
  EXPECT_EQ(take(), (partitions{4}));
  EXPECT_EQ(order_.taken(), range_kind::unread);
  read();
  EXPECT_EQ(take(), (partitions{3}));
  EXPECT_EQ(order_.taken(), range_kind::further);
  read();
  EXPECT_TRUE(order_.is_empty());
  EXPECT_FALSE(order_.has_failed());
}

TEST_F(reading_order_test, reads_a_few_partitions_at_a_time_from_the_beginning) {
  const partitions unread = first(limits.partitions + 1);
  begin({}, {}, unread);
  EXPECT_EQ(take().size(), limits.partitions);
  read();
  EXPECT_EQ(take().size(), 1U);
}

// A look that starts over after its first load, again and again, comes to all partitions.
TEST_F(reading_order_test, begins_behind_the_partition_that_was_taken_last) {
  const partitions unread = first(2 * limits.partitions);
  begin({}, {}, unread);
  EXPECT_EQ(take().front(), 0U);
  read();
  begin({}, {}, unread);
  EXPECT_EQ(take().front(), limits.partitions);
  read();
  begin({}, {}, unread);
  EXPECT_EQ(take().front(), 0U);
}

TEST_F(reading_order_test, quick_failure_is_repeated_once) {
  begin({1, 2});
  take();
  EXPECT_EQ(fail(quick), partitions{});
  EXPECT_EQ(take(), (partitions{1, 2}));
  fail(quick);
  EXPECT_EQ(take(), (partitions{1}));
  fail(quick);
  reads({1});
  EXPECT_EQ(take(), (partitions{2}));
  EXPECT_TRUE(order_.has_failed());
}

TEST_F(reading_order_test, slow_failure_is_not_repeated_as_it_was) {
  begin({1, 2});
  take();
  fail(slow);
  reads({1});
  EXPECT_EQ(take(), (partitions{2}));
}

TEST_F(reading_order_test, failed_load_is_read_in_parts_after_the_others_of_its_kind) {
  const partitions marks = first(limits.parts_of_failed * 2);
  begin(marks, {100});
  take();
  fail();
  reads({0, 1});
  EXPECT_EQ(take(), (partitions{2, 3}));
  fail();
  for (partition_number p = 4; p != marks.size(); p = static_cast<partition_number>(p + 2)) {
    EXPECT_EQ(take().front(), p);
    read();
  }
  reads({2});
  reads({3});
  EXPECT_EQ(take(), (partitions{100}));
}

// Otherwise a look at a store that has failed would try all partitions in all sizes of parts.
TEST_F(reading_order_test, few_loads_tell_that_the_store_answers_for_nothing) {
  const partitions marks = first(limits.parts_of_failed * limits.parts_of_failed * 4);
  for (int looks = 0; looks != 3; ++looks) {
    begin(marks);
    std::size_t loads = 0;
    for (; !order_.is_empty(); ++loads) {
      take();
      fail();
    }
    EXPECT_EQ(loads, 3 + limits.failures_in_a_row + 1) << "three sizes, single ranges, and another load";
  }
}

TEST_F(reading_order_test, partition_is_put_off_if_the_store_answers_for_another) {
  begin({1}, {}, {2});
  take();
  read({1});
  take();
  EXPECT_EQ(fail(), (partitions{1}));
  EXPECT_FALSE(order_.is_put_off(1)) << "it has only answered for the same one";
  take();
  read();
  EXPECT_TRUE(order_.is_put_off(1)) << "it answers for another one";
  EXPECT_FALSE(order_.is_put_off(2));
}

TEST_F(reading_order_test, nothing_is_put_off_if_the_store_answers_for_none) {
  begin({1, 2}, {}, {3});
  take();
  fail();
  take();
  EXPECT_EQ(fail(), (partitions{1}));
  take();
  EXPECT_EQ(fail(), (partitions{2}));
  take();
  EXPECT_EQ(fail(), (partitions{3}));
  EXPECT_TRUE(order_.is_empty());
  begin({1, 2}, {}, {3});
  for (partition_number p = 1; p <= 3; ++p) EXPECT_FALSE(order_.is_put_off(p));
}

TEST_F(reading_order_test, look_reads_no_more_of_a_kind_after_some_failures_in_a_row) {
  const partitions unread = first(limits.failures_in_a_row + 2);
  begin({}, {}, unread, {});
  take();
  fail();
  for (unsigned i = 0; i != limits.failures_in_a_row; ++i) {
    EXPECT_EQ(take().front(), i);
    EXPECT_EQ(fail().size(), 1U);
  }
  take();
  EXPECT_EQ(fail().size(), 2U) << "another load, and what is left";
  EXPECT_TRUE(order_.is_empty());
  begin({}, {}, unread);
  EXPECT_EQ(take().front(), limits.failures_in_a_row) << "the other load does not count";
}

// Partitions that fail are often side by side, so the other load is the last one.
TEST_F(reading_order_test, look_goes_on_after_failures_if_another_load_is_read) {
  const partitions marks = first(limits.parts_of_failed * 2 * limits.failures_in_a_row);
  begin(marks);
  for (const partition_number bad = 2 * limits.failures_in_a_row; !order_.is_empty();) {
    take();
    if (taken_.front().partition < bad)
      fail();
    else
      read();
  }
  for (const partition_number p : marks) EXPECT_EQ(order_.is_put_off(p), p < 2 * limits.failures_in_a_row) << p;
}

TEST_F(reading_order_test, look_goes_on_after_failures_if_the_store_has_answered) {
  const partitions unread = first(2 * limits.failures_in_a_row);
  begin({100}, {}, unread);
  take();
  read();
  take();
  fail();
  for (const partition_number p : unread) {
    EXPECT_EQ(take(), (partitions{p}));
    EXPECT_TRUE(fail().empty());
    EXPECT_TRUE(order_.is_put_off(p));
  }
  EXPECT_TRUE(order_.is_empty());
}

// They are read again by a later step. One that fails by itself waits for the next round: it may fail only from the beginning.
TEST_F(reading_order_test, failed_step_puts_nothing_off) {
  begin({1}, {2, 3}, {});
  take();
  read();
  take();
  fail();
  take();
  EXPECT_TRUE(fail().empty());
  take();
  read();
  EXPECT_FALSE(order_.is_put_off(2));
}

TEST_F(reading_order_test, partition_is_read_as_before_after_a_try) {
  fail_one(1);
  now_ += 100h;
  begin({2}, {}, {}, {1});
  read_all();
  EXPECT_FALSE(order_.is_put_off(1));
  begin({1, 2});
  read_all();
  EXPECT_FALSE(order_.has_failed());
}

TEST_F(reading_order_test, look_leaves_out_what_is_put_off) {
  fail_one(2);
  begin({2}, {}, {}, {1});
  reads({2});
  EXPECT_TRUE(order_.is_empty());
  EXPECT_TRUE(order_.leaves_out());
  EXPECT_FALSE(order_.has_failed());
}

TEST_F(reading_order_test, try_that_fails_ends_the_tries_of_the_look) {
  begin({1, 2, 3});
  take();
  fail();
  for (const partition_number p : partitions{1, 2}) {
    EXPECT_EQ(take(), (partitions{p}));
    fail();
  }
  take();
  read();
  now_ += 100h;
  begin({3}, {}, {}, {1, 2});
  take();
  read();
  EXPECT_EQ(take(), (partitions{1}));
  fail();
  EXPECT_TRUE(order_.is_empty());
  now_ += 100h;
  begin({3}, {}, {}, {1, 2});
  take();
  read();
  EXPECT_EQ(take(), (partitions{2}));
}

TEST_F(reading_order_test, first_try_comes_soon) {
  fail_one(1);
  EXPECT_EQ(pauses(), 1);
}

TEST_F(reading_order_test, later_tries_come_after_a_multiple_of_their_time) {
  fail_one(2);
  EXPECT_EQ(pauses(), limits.pause_if_failed);
}

TEST_F(reading_order_test, multiple_does_not_grow_for_one_partition) {
  fail_one(5);
  EXPECT_EQ(pauses(), limits.pause_if_failed);
}

// All of them together take the same share of the time.
TEST_F(reading_order_test, multiple_grows_with_the_number_of_partitions) {
  fail_one(1);
  begin({2, 3});
  take();
  fail();
  take();
  read();
  take();
  fail();
  for (int tries = 0; tries != 8; ++tries) {
    now_ += 100h;
    begin({2}, {}, {}, {1, 3});
    take();
    read();
    take();
    fail();
  }
  const auto is_tried_after = [&](std::int64_t n) {
    now_ += n * slow;
    begin({2}, {}, {}, {1, 3});
    return order_.size() == 3;
  };
  EXPECT_FALSE(is_tried_after(2 * limits.pause_if_failed - 1));
  EXPECT_TRUE(is_tried_after(1));
}

TEST_F(reading_order_test, pauses_after_very_slow_failures_have_a_limit) {
  begin({1, 2});
  take();
  fail(24h);
  take();
  fail(24h);
  take();
  read();
  now_ += 2s;
  begin({2}, {}, {}, {1});
  EXPECT_EQ(order_.size(), 2U);
  take();
  read();
  take();
  fail(24h);
  now_ += 30s * limits.pause_if_failed;
  begin({2}, {}, {}, {1});
  EXPECT_EQ(order_.size(), 2U);
}

// The cause may have gone for all of them.
TEST_F(reading_order_test, all_are_tried_once_one_that_failed_again_and_again_is_read) {
  fail_one(2);
  begin({2, 3});
  take();
  fail();
  take();
  read();
  take();
  fail();
  now_ += limits.pause_if_failed * slow;
  begin({2}, {}, {}, {1, 3});
  read_all();
  EXPECT_FALSE(order_.is_put_off(1));
  EXPECT_FALSE(order_.is_put_off(3));
}

// Its first page can be read, and the second one cannot.
TEST_F(reading_order_test, partition_whose_next_page_fails_waits_as_one_that_fails) {
  begin({1, 2});
  take();
  read({1});
  take();
  fail();
  EXPECT_TRUE(order_.is_put_off(1));
  now_ += 100h;
  begin({2}, {}, {}, {1});
  take();
  read();
  take();
  read({1});
  EXPECT_EQ(take(), (partitions{1}));
  EXPECT_EQ(order_.taken(), range_kind::further);
  fail();
  EXPECT_TRUE(order_.is_put_off(1));
  EXPECT_EQ(pauses(), limits.pause_if_failed);
}

TEST_F(reading_order_test, partition_that_the_node_lost_is_not_put_off_any_more) {
  fail_one(2);
  begin({2});
  read_all();
  EXPECT_FALSE(order_.is_put_off(1));
}

TEST_F(reading_order_test, failure_whose_repetition_was_read_is_none) {
  begin({1});
  take();
  fail(quick);
  EXPECT_FALSE(order_.has_failed());
  take();
  read();
  EXPECT_FALSE(order_.has_failed());
}

// It can be read from the beginning, and fails again at its mark.
TEST_F(reading_order_test, partition_that_fails_at_its_mark_after_tries_waits_longer) {
  fail_one(1);
  now_ += 100h;
  begin({2}, {}, {}, {1});
  read_all();
  fail_one(1);
  EXPECT_EQ(pauses(), limits.pause_if_failed);
}

}  // namespace
}  // namespace tickwheel::durable::detail
