// In which order a look reads its ranges, and what a load that fails changes in that.
#include "../../../src/durable/engine/reading_order.hpp"

#include "../../../src/durable/batch_limits.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tickwheel::durable::detail {
namespace {

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

class reading_order_test : public testing::Test {
 protected:
  void begin(const partitions& marks, const partitions& step, const partitions& unread, bool leaves_out = false) {
    order_.begin(ranges_of(marks), ranges_of(step), ranges_of(unread), leaves_out);
  }

  // Returns the partitions of the next load.
  partitions take() {
    order_.take(taken_);
    return partitions_of(taken_);
  }

  void read(const partitions& rest = {}) {
    auto ranges = ranges_of(rest);
    order_.on_read(ranges);
  }

  reading_order::failure fail() { return order_.on_failed(taken_); }

  // The next look reads marks one by one.
  void fail_marks(const partitions& marks) {
    for (unsigned i = 0; i != limits.failures_until_single; ++i) {
      begin(marks, {}, {});
      EXPECT_EQ(take(), marks);
      EXPECT_FALSE(fail().is_alone);
    }
  }

  reading_order order_;
  std::vector<load_range> taken_;
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
  read({4});
  EXPECT_EQ(take(), (partitions{3, 4}));
  EXPECT_EQ(order_.taken(), range_kind::further);
  read();
  EXPECT_TRUE(order_.is_empty());
  EXPECT_FALSE(order_.has_failed());
}

TEST_F(reading_order_test, reads_a_few_partitions_at_a_time_from_the_beginning) {
  partitions unread;
  for (partition_number p = 0; p != limits.partitions + 1; ++p) unread.push_back(p);
  begin({}, {}, unread);
  EXPECT_EQ(take().size(), limits.partitions);
  read();
  EXPECT_EQ(take().size(), 1U);
}

TEST_F(reading_order_test, failure_ends_its_kind_and_no_other) {
  begin({1, 2}, {3, 4}, {5});
  take();
  EXPECT_EQ(partitions_of(fail().dropped), (partitions{1, 2}));
  EXPECT_EQ(take(), (partitions{3, 4}));
  read({3});
  EXPECT_EQ(take(), (partitions{5}));
  read({5});
  EXPECT_EQ(take(), (partitions{3, 5}));
  EXPECT_TRUE(fail().dropped.empty());  // the next look reads these pages
  EXPECT_TRUE(order_.is_empty());
  EXPECT_TRUE(order_.has_failed());
  begin({1}, {}, {});
  EXPECT_FALSE(order_.has_failed());
}

TEST_F(reading_order_test, reads_marks_one_by_one_after_some_failures_in_a_row) {
  fail_marks({1, 2, 3});
  begin({1, 2, 3}, {}, {});
  EXPECT_EQ(take(), (partitions{1}));  // 3 was the last of those that failed
  read({1});
  EXPECT_EQ(take(), (partitions{1}));
  read();
  EXPECT_EQ(take(), (partitions{2}));
  read();
  EXPECT_EQ(take(), (partitions{3}));
  read();
  begin({1, 2, 3}, {}, {});
  EXPECT_EQ(take(), (partitions{1, 2, 3}));
}

TEST_F(reading_order_test, mark_fails_alone_only_if_the_store_has_answered_for_others) {
  fail_marks({1, 2, 3});
  begin({1, 2, 3}, {}, {});
  EXPECT_EQ(take(), (partitions{1}));
  EXPECT_FALSE(fail().is_alone);  // the store may have failed
  begin({1, 2, 3}, {}, {});
  EXPECT_EQ(take(), (partitions{2}));  // that which failed comes last
  read();
  EXPECT_EQ(take(), (partitions{3}));
  read();
  EXPECT_EQ(take(), (partitions{1}));
  const reading_order::failure failed = fail();
  EXPECT_TRUE(failed.is_alone);
  EXPECT_TRUE(failed.dropped.empty());
}

TEST_F(reading_order_test, reads_marks_together_after_one_failed_alone_until_a_load_fails_again) {
  fail_marks({1, 2, 3});
  begin({1, 2, 3}, {}, {});
  take();
  read();
  take();
  EXPECT_TRUE(fail().is_alone);
  begin({1, 3}, {}, {2});
  EXPECT_EQ(take(), (partitions{1, 3}));
  EXPECT_FALSE(fail().is_alone);
  begin({1, 3}, {}, {});
  EXPECT_EQ(take(), (partitions{1}));
}

TEST_F(reading_order_test, unread_partition_that_failed_last_comes_last_in_the_next_look) {
  begin({}, {}, {1, 2, 3});
  EXPECT_EQ(take(), (partitions{1, 2, 3}));
  EXPECT_FALSE(fail().is_alone);
  begin({}, {}, {1, 2, 3});
  EXPECT_EQ(take(), (partitions{1}));
  EXPECT_TRUE(fail().is_alone);
  begin({}, {}, {1, 2, 3});
  EXPECT_EQ(take(), (partitions{2}));
  read();
  EXPECT_EQ(take(), (partitions{3}));
  read();
  EXPECT_EQ(take(), (partitions{1}));
}

TEST_F(reading_order_test, reads_from_the_beginning_together_once_a_look_has_read_all_of_it) {
  begin({}, {1, 2}, {});
  take();
  EXPECT_EQ(partitions_of(fail().dropped), (partitions{1, 2}));
  begin({}, {1, 2}, {}, true);  // it leaves out what may fail again
  EXPECT_EQ(take(), (partitions{1}));
  read();
  EXPECT_EQ(take(), (partitions{2}));
  read();
  begin({}, {1, 2}, {});
  EXPECT_EQ(take(), (partitions{1}));
  read();
  EXPECT_EQ(take(), (partitions{2}));
  read();
  begin({}, {1, 2}, {});
  EXPECT_EQ(take(), (partitions{1, 2}));
}

}  // namespace
}  // namespace tickwheel::durable::detail
