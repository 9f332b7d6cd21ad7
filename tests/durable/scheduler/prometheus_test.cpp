// The text for Prometheus.
#include "../support/manual_node.hpp"

#include <tickwheel/durable/scheduler_stats.hpp>

#include <iomanip>
#include <locale>
#include <map>
#include <sstream>
#include <string>

using namespace tickwheel_test;

namespace {

/// Returns the samples by name. Each one but those of a histogram has a HELP and a TYPE line before it.
std::map<std::string, double> samples_of(const durable::scheduler& s) {
  std::stringstream text;
  write_prometheus(text, s);
  std::map<std::string, double> samples;
  std::string described, typed;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words{line};
    std::string first, second, name;
    words >> first >> second >> name;
    if (first == "#") {
      (second == "HELP" ? described : typed) = name;
      continue;
    }
    EXPECT_TRUE(first.starts_with("tickwheel_durable_")) << line;
    EXPECT_TRUE(first.starts_with(described)) << line;
    EXPECT_TRUE(first.starts_with(typed)) << line;
    EXPECT_TRUE(samples.emplace(first, std::stod(second)).second) << line;
  }
  return samples;
}

TEST(prometheus_text, has_what_stats_counts) {
  manual_world world;
  manual_node node{world};
  ASSERT_EQ(node.open(), 0);
  node.on_start = [&](durable::execution run) { run.id() == "good" ? run.done() : run.bury("broken"); };
  node.schedule("good", 1s);
  node.schedule("bad", 1s);
  node.schedule("later", 2min);
  node.advance(1min);
  const auto samples = samples_of(node.scheduler);
  const auto value = [&](const std::string& name) { return samples.at("tickwheel_durable_" + name); };
  EXPECT_EQ(value("scheduled_total"), 3);
  EXPECT_EQ(value("started_total"), 2);
  EXPECT_EQ(value("finished_total"), 2);
  EXPECT_EQ(value("failed_total"), 1);
  EXPECT_EQ(value("recovered_total"), 0);
  EXPECT_EQ(value("stale_total"), 0);
  EXPECT_EQ(value("unavailable_total"), 0);
  EXPECT_EQ(value("requests"), 0);
  EXPECT_EQ(value("running"), 0);
  EXPECT_EQ(value("loaded"), 0);
  EXPECT_EQ(value("partitions"), static_cast<double>(node.scheduler.stats().partitions));
  EXPECT_EQ(value("dead"), 1);
  EXPECT_EQ(value("store_failures_total"), 0);
  EXPECT_EQ(value("oldest_overdue_seconds"), 0);
  EXPECT_EQ(value("oldest_running_seconds"), 0);
  EXPECT_EQ(value("lateness_seconds_count"), 2);
  EXPECT_EQ(value("lateness_seconds_bucket{le=\"+Inf\"}"), 2);
}

TEST(prometheus_text, buckets_of_lateness_grow) {
  manual_world world;
  manual_node node{world};
  ASSERT_EQ(node.open(), 0);
  for (const auto late : {0ms, 1ms, 10ms, 100ms, 1000ms}) {
    node.schedule("t" + std::to_string(late.count()), -late);
    node.advance(10ms);
  }
  const auto samples = samples_of(node.scheduler);
  std::map<double, double> buckets;
  const std::string prefix = "tickwheel_durable_lateness_seconds_bucket{le=\"";
  for (const auto& [name, count] : samples)
    if (name.starts_with(prefix) && name.find("+Inf") == std::string::npos)
      buckets[std::stod(name.substr(prefix.size()))] = count;
  ASSERT_FALSE(buckets.empty());
  double before = 0;
  for (const auto& [edge, count] : buckets) {
    EXPECT_GE(count, before) << edge;
    before = count;
  }
  EXPECT_EQ(before, 5);
  EXPECT_LT(buckets.begin()->second, 5);
}

/// As of a country that groups digits.
struct grouping : std::numpunct<char> {
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\1"; }
};

TEST(prometheus_text, does_not_depend_on_the_stream) {
  manual_world world;
  manual_node node{world};
  ASSERT_EQ(node.open(), 0);
  for (int i = 0; i != 10; ++i) node.schedule("t" + std::to_string(i), 2min);
  std::ostringstream out;
  out.imbue(std::locale{std::locale::classic(), new grouping});
  out << std::hex << std::showpos << std::setprecision(1) << std::setfill('*') << std::setw(9);
  const auto flags = out.flags();
  write_prometheus(out, node.scheduler);
  EXPECT_NE(out.str().find("\ntickwheel_durable_scheduled_total 10\n"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("_bucket{le=\"0.536870912\"} 0\n"), std::string::npos) << out.str();
  EXPECT_EQ(out.str().find('*'), std::string::npos);
  EXPECT_EQ(out.flags(), flags);
  EXPECT_EQ(out.precision(), 1);
  EXPECT_EQ(std::use_facet<std::numpunct<char>>(out.getloc()).thousands_sep(), '.');
}

}  // namespace
