// The program of docs/cluster.md and its statements run against a server. Its other code is tests of this program.
#include "../durable/postgres/postgres_fixture.hpp"
#include "../durable/postgres/test_server.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
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

bool uses_token(const std::string& block) { return block.find(":token") != std::string::npos; }

/// Runs a block in psql, which must succeed. `token`: of a start.
void run_psql(const std::string& block, durable::revision token) {
  const std::string file = "/tmp/tickwheel_cluster_guide_" + std::to_string(::getpid()) + ".sql";
  std::ofstream{file} << block;
  const std::string program = test_server::find_programs().value() + "/psql";
  const std::string command =
      program + " --no-psqlrc --quiet --dbname shop --set ON_ERROR_STOP=1 --set token=" + std::to_string(token) +
      " --file " + file;
  EXPECT_EQ(std::system(command.c_str()), 0) << block;
  std::remove(file.c_str());
}

/// Schedules a task that is due, and starts it. Returns the token.
durable::revision start(node& own, const std::string& id) {
  own.put({.id = id, .due = durable::clock::time_point{1s}});
  return own.begin(id).token;
}

/// A server with an empty database `shop`, where programs find it.
class cluster_guide : public testing::Test {
 protected:
  cluster_guide() {
    psql{server.conninfo()}.run("create database shop");
    ::setenv("PGHOST", server.folder().c_str(), 1);
    ::setenv("PGUSER", "tester", 1);
    on.conninfo = server.conninfo("dbname=shop");
    on.options.schema = "tickwheel";
  }
  std::string run(const std::string& sql) const { return psql{on.conninfo}.run(sql); }
  void make_stock() const {
    run("create table stock(article bigint primary key, free bigint not null); insert into stock values (1, 0)");
  }

  test_server server;
  postgres_fixture on{server};
};

TEST_F(cluster_guide, program_and_statements_run) {
  EXPECT_EQ(std::system(ORDER_NODE " node-1"), 0);
  EXPECT_EQ(run("select id || ' ' || state from tickwheel.tasks"), "order-7 3") << "it has finished";
  EXPECT_EQ(std::system("timeout 60 " ORDER_NODE " node-1"), 0) << "a second run ends as well";
  node own{on};
  own.start();
  const auto blocks = sql_blocks();
  EXPECT_EQ(blocks.size(), 5U);
  for (const std::string& block : blocks) {
    durable::revision token = 0;
    if (uses_token(block)) {
      run("insert into orders values (9, 'unpaid')");
      make_stock();
      token = start(own, "order-9");
    }
    run_psql(block, token);
  }
  EXPECT_EQ(run("select state from tickwheel.tasks where id = 'order-8'"), "4") << "it was cancelled";
  EXPECT_EQ(run("select state from orders where id = 8"), "paid");
  EXPECT_EQ(run("select state from tickwheel.tasks where id = 'order-9'"), "3") << "it has finished";
  EXPECT_EQ(run("select state from orders where id = 9"), "cancelled");
  EXPECT_EQ(run("select free from stock"), "1");
  own.close();
}

TEST_F(cluster_guide, effect_of_a_lost_start_is_rolled_back) {
  node own{on};
  own.start();
  run("create table orders(id bigint primary key, state text not null); insert into orders values (9, 'unpaid')");
  make_stock();
  const durable::revision lost = start(own, "order-9");
  own.lose();
  own.recover();
  const durable::revision token = own.begin("order-9").token;
  for (const std::string& block : sql_blocks()) {
    if (!uses_token(block)) continue;
    run_psql(block, lost);
    EXPECT_EQ(run("select state from orders where id = 9"), "unpaid");
    EXPECT_EQ(run("select free from stock"), "0");
    run_psql(block, token);
  }
  EXPECT_EQ(run("select state from orders where id = 9"), "cancelled");
  EXPECT_EQ(run("select free from stock"), "1");
  own.close();
}

}  // namespace
