// The merged journal of a cluster, and what it says about repeated starts.
#include "merged_journal.hpp"
#include "repeats.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using chaos::merged_journal;

TEST(merged_journal, puts_lines_of_processes_in_the_order_of_time) {
  merged_journal j;
  j.add(10, "start % 1");
  j.add_of_process(2, "1 40 entered t 7 1 5 1");
  j.add_of_process(1, "1 30 ready 0");
  j.add(20, "start % 2");
  EXPECT_EQ(j.text(), "start 10 1\nstart 20 2\n@1 1 30 ready 0\n@2 1 40 entered t 7 1 5 1\n");
}

TEST(merged_journal, keeps_the_order_of_lines_with_one_time) {
  merged_journal j;
  j.add(10, "order 1 cancel t");
  j.add_of_process(1, "1 10 asked 1");
  EXPECT_EQ(j.text(), "order 1 cancel t\n@1 1 10 asked 1\n");
}

TEST(merged_journal, shows_the_clock_of_the_database) {
  merged_journal j;
  j.add_of_process(1, "1 1000000 ready 0");
  j.set_clock(2'000'000, 3'000'000, 500'000'000);
  j.add_of_process(1, "2 4000000 closed");
  EXPECT_EQ(j.text(), "@1 1 1000000 ready 0\nclock 501999000 3001000 501999000\n@1 2 504000000 closed\n");
}

// Process 1 has begun t, and process 2 begins it again.
chaos::repeats repeated_after(const std::string& between) {
  const std::string text = "config 4 0 doubts cluster\nstart 1 1\nstart 1 2\n@1 1 10 entered t 7 1 5 1\n" + between +
                           "@2 1 900 entered t 9 2 5 1\n";
  return chaos::find_repeats(crash::read_journal(text));
}

TEST(repeats, measure_a_takeover_after_a_kill) {
  const auto found = repeated_after("end 100 9 1\n");
  EXPECT_EQ(found.by_cause.at("killed"), 1U);
  EXPECT_EQ(found.takeovers, 1U);
  EXPECT_EQ(found.longest_takeover.count(), 800);
}

TEST(repeats, measure_a_takeover_from_the_start_of_the_oldest_node) {
  const auto found = repeated_after("end 100 9 1\nstart 300 1\nend 400 9 2\nstart 500 2\n");
  EXPECT_EQ(found.takeovers, 1U);
  EXPECT_EQ(found.longest_takeover.count(), 600);
}

TEST(repeats, name_the_last_trouble_of_the_process) {
  const auto found = repeated_after("trouble 50 1 network\ntrouble 60 1 stopped\ntrouble 70 2 slow\n");
  EXPECT_EQ(found.by_cause.at("stopped"), 1U);
  EXPECT_EQ(found.takeovers, 0U);
  EXPECT_TRUE(found.is_slow);
}

TEST(repeats, leave_out_a_retry_that_the_handler_wants) {
  EXPECT_TRUE(repeated_after("@1 2 20 ending t 7 again\n").by_cause.empty());
}

}  // namespace
