// A server that waits for a synchronous standby, and none comes.
#pragma once

#include "postgres_fixture.hpp"

#include <chrono>
#include <string>
#include <thread>

namespace conformance {

/// From `begin` to `end`, each commit of the server waits. `cancel_wait` leaves one without the standby, as a failover would lose it.
class lost_standby {
 public:
  explicit lost_standby(postgres_fixture& on) : on_{on}, admin_{on.conninfo} {}

  /// Commits wait once the checkpointer has read the setting.
  void begin() {
    set("nobody");
    while (!commit_alone("select pg_logical_emit_message(true, 'probe', '')")) {
    }
  }
  void end() { set(""); }

  bool is_awaited() const {
    return !admin_.run("select pid from pg_stat_activity where wait_event = 'SyncRep'").empty();
  }
  void cancel_wait() const {
    admin_.run("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
  }
  /// Runs another program's statement, and cancels the wait of its commit. Returns false if the commit did not wait.
  bool commit_alone(const std::string& sql) {
    const psql client{on_.conninfo};
    client.run("set search_path = " + on_.schema());
    EXPECT_EQ(PQsendQuery(client.get(), sql.c_str()), 1);
    bool waits = false;
    while (!waits && PQconsumeInput(client.get()) == 1 && PQisBusy(client.get()) == 1) waits = is_awaited();
    if (waits) cancel_wait();
    while (PGresult* const r = PQgetResult(client.get())) PQclear(r);
    return waits;
  }

 private:
  void set(const std::string& names) const {
    admin_.run("alter system set synchronous_standby_names = '" + names + "'");
    admin_.run("select pg_reload_conf()");
  }

  postgres_fixture& on_;
  psql admin_;
};

}  // namespace conformance
