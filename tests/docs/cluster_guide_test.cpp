// The program and the statements of docs/cluster.md run against a server.
#include "../durable/postgres/postgres_fixture.hpp"
#include "../durable/postgres/test_server.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

using namespace conformance;

namespace {

std::vector<std::string> sql_blocks() {
  std::ifstream guide{CLUSTER_GUIDE};
  std::vector<std::string> blocks;
  bool is_inside = false;
  for (std::string line; std::getline(guide, line);) {
    if (line == "```sql") {
      is_inside = true;
      blocks.emplace_back();
    } else if (line == "```") {
      is_inside = false;
    } else if (is_inside) {
      blocks.back() += line + '\n';
    }
  }
  return blocks;
}

TEST(cluster_guide, program_and_statements_run) {
  const test_server server;
  psql{server.conninfo()}.run("create database shop");
  ::setenv("PGHOST", server.folder().c_str(), 1);
  ::setenv("PGUSER", "tester", 1);
  EXPECT_EQ(std::system(ORDER_NODE " node-1"), 0);
  const psql shop{server.conninfo("dbname=shop")};
  EXPECT_EQ(shop.run("select id || ' ' || state from tickwheel.tasks"), "order-7 3") << "it has finished";
  const auto blocks = sql_blocks();
  EXPECT_EQ(blocks.size(), 4U);
  for (const std::string& block : blocks) shop.run(block);
  EXPECT_EQ(shop.run("select state from tickwheel.tasks where id = 'order-8'"), "4") << "it was cancelled";
}

}  // namespace
