// The simulation itself: it repeats, reads what it writes, and finds the least scenario.
#include "scenario.hpp"
#include "shrinker.hpp"
#include "world.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace {

using namespace simulation;

TEST(simulation, seeds_break_no_promise) {
  std::size_t starts = 0;
  std::size_t burials = 0;
  for (std::uint64_t seed = 1; seed != 41; ++seed) {
    const result r = run(make_scenario(seed));
    ASSERT_EQ(r.broken, "") << "seed " << seed;
    starts += r.starts;
    burials += r.burials;
  }
  EXPECT_GT(starts, 0U);
  EXPECT_GT(burials, 0U);
}

TEST(simulation, one_node_and_many_nodes_break_no_promise) {
  for (const unsigned nodes : {1U, 2U, 20U}) EXPECT_EQ(run(make_scenario(7, nodes)).broken, "") << nodes << " nodes";
}

TEST(simulation, same_seed_gives_same_run) {
  for (std::uint64_t seed = 1; seed != 4; ++seed) {
    const std::string journal = run(make_scenario(seed)).journal;
    EXPECT_EQ(journal, run(make_scenario(seed)).journal);
    EXPECT_NE(journal, run(make_scenario(seed + 1)).journal);
  }
}

TEST(simulation, text_of_a_scenario_gives_same_run) {
  const scenario s = make_scenario(3);
  std::string why;
  const auto read = from_text(to_text(s), why);
  ASSERT_TRUE(read) << why;
  EXPECT_EQ(to_text(*read), to_text(s));
  EXPECT_EQ(run(*read).journal, run(s).journal);
}

TEST(simulation, invalid_text_is_named) {
  std::string why;
  EXPECT_FALSE(from_text("nodes 1\ndrift 0\n100 explode 0 0 0 0 - -\n", why));
  EXPECT_NE(why.find("line 3"), std::string::npos) << why;
  EXPECT_FALSE(from_text("nodes 1\ndrift 0\n100 kill 1 0 0 0 - -\n", why));
  EXPECT_NE(why.find("node 1"), std::string::npos) << why;
}

// A cluster whose lease is shorter than a round trip has no chance: whatever else happens, nothing is taken over in time.
TEST(simulation, failure_is_shrunk_to_the_events_that_it_needs) {
  scenario s = make_scenario(5);
  s.delay = 2 * s.lease;
  const result failed = run(s);
  ASSERT_NE(failed.broken, "");
  const shrunk least = shrink(s, failed);
  EXPECT_TRUE(least.what.events.empty()) << to_text(least.what);
  EXPECT_NE(least.how.broken, "");
}

}  // namespace
