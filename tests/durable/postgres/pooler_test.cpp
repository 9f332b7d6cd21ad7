// Clients behind PgBouncer use the SQL functions, in pooled transactions. A node is refused there.
#include "joining.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <optional>
#include <string>
#include <thread>

using namespace conformance;
using durable::task_state;

namespace {

/// PgBouncer before a server, with one connection for all transactions.
class test_pooler {
 public:
  static std::optional<std::string> find_program() {
    for (const char* const path : {"/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"})
      if (::access(path, X_OK) == 0) return path;
    return std::nullopt;
  }

  test_pooler(const test_server& before, const std::string& mode) : folder_{before.folder()} {
    const std::string settings = folder_ + "/pgbouncer.ini";
    std::ofstream{folder_ + "/users"} << "\"tester\" \"\"\n\"producer\" \"\"\n";
    std::ofstream{settings} << "[databases]\n* = host=" << folder_ << "\n[pgbouncer]\nlisten_port = 6432\n"
                            << "unix_socket_dir = " << folder_ << "\nauth_type = trust\nauth_file = " << folder_
                            << "/users\npool_mode = " << mode << "\ndefault_pool_size = 1\n";
    process_ = before.spawn({find_program().value(), settings}, folder_ + "/pgbouncer.log");
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (PQping(conninfo().c_str()) != PQPING_OK && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(10ms);
  }
  ~test_pooler() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  test_pooler(const test_pooler&) = delete;
  test_pooler& operator=(const test_pooler&) = delete;

  std::string conninfo() const { return "host=" + folder_ + " port=6432 user=tester dbname=postgres"; }

 private:
  const std::string folder_;
  pid_t process_ = -1;
};

class postgres_pooler : public testing::Test {
 protected:
  void SetUp() override {
    if (!test_pooler::find_program()) GTEST_SKIP() << "install the package pgbouncer";
  }
  postgres_fixture on;
};

TEST_F(postgres_pooler, sql_functions_take_part_in_pooled_transactions) {
  const test_pooler pooler{on.server, "transaction"};
  node own{on};
  own.start();
  const psql shop{pooler.conninfo()}, other{pooler.conninfo()};
  const std::string due = "now() - interval '1 s', 'data')";
  shop.run("begin");
  EXPECT_EQ(shop.run("select " + on.schema() + ".tickwheel_schedule('kept', " + due), "scheduled");
  EXPECT_FALSE(own.get("kept"));
  shop.run("commit");
  EXPECT_EQ(other.run("select " + on.schema() + ".tickwheel_schedule('kept', " + due), "exists");
  shop.run("begin");
  EXPECT_EQ(shop.run("select " + on.schema() + ".tickwheel_schedule('rolled back', " + due), "scheduled");
  shop.run("rollback");
  EXPECT_FALSE(own.get("rolled back"));
  const auto token = own.begin("kept").token;
  EXPECT_EQ(other.run("select " + on.schema() + ".tickwheel_cancel('kept')"), "running");
  EXPECT_EQ(shop.run("select " + on.schema() + ".tickwheel_done('kept', " + std::to_string(token) + ")"), "finished");
  EXPECT_EQ(own.get("kept")->state, task_state::finished);
}

TEST_F(postgres_pooler, node_is_refused) {
  for (const char* const mode : {"transaction", "session"}) {
    const test_pooler pooler{on.server, mode};
    expect_refused(try_to_join(on, pooler.conninfo()), UV_ENOTSUP,
                   "a pooler stands before the server; a node must connect to the server itself");
  }
}

}  // namespace
