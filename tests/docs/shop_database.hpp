// The database that the code of docs/cluster.md uses, and a node on it.
#pragma once

#include "../durable/postgres/postgres_fixture.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/postgres.hpp>
#include <tickwheel/uv/event_loop.hpp>

#include <chrono>
#include <string>

/// A new database on the server that the tests of this program share.
class shop_database {
 public:
  shop_database() { EXPECT_EQ(loop_.open(), 0); }

  /// Opens the node, which makes the tables of the tasks. A handler is set before.
  void open() {
    int error = -1;
    EXPECT_EQ(orders_.open([&](int result) noexcept { error = result; }), 0);
    turn_until([&] { return error >= 0; });
    EXPECT_EQ(error, 0) << orders_.problem();
  }

  tickwheel::durable::scheduler& orders() { return orders_; }
  PGconn* shop() const { return client_.get(); }
  /// Runs statements, which must succeed. Returns the first column of the last one's rows, a line each.
  std::string run(const std::string& sql) const { return client_.run(sql); }
  /// Runs the loop until a query has this answer. Returns false if it does not get it.
  bool run_until(const std::string& sql, const std::string& answer) {
    return turn_until([&] { return run(sql) == answer; });
  }

 private:
  static std::string make_database() {
    static int made = 0;
    const std::string name = "shop_" + std::to_string(++made);
    const auto& server = conformance::test_server::shared();
    conformance::psql{server.conninfo()}.run("create database " + name);
    return server.conninfo("dbname=" + name);
  }

  template <class Done>
  bool turn_until(const Done& done) {
    using namespace std::chrono_literals;
    tickwheel::callback_timer tick{loop_.timers(), [](tickwheel::timer& self) noexcept { (void)self.arm(5ms); }};
    (void)tick.arm(5ms);
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      loop_.run(UV_RUN_ONCE);
    }
    return true;
  }

  const std::string conninfo_ = make_database();
  conformance::psql client_{conninfo_};
  tickwheel::event_loop loop_;
  tickwheel::durable::scheduler orders_{loop_.timers(), tickwheel::durable::postgres_store(conninfo_)};
};
