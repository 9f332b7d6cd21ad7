// A schema for a test, in the server that the tests of a program share, and a loop for its stores.
#pragma once

#include "../../uv/support/live_loop.hpp"
#include "../store/conformance.hpp"
#include "test_server.hpp"

#include <tickwheel/durable/postgres.hpp>
#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer.hpp>

#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <uv.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace conformance {

/// Another program's connection to the database.
class psql {
 public:
  explicit psql(const std::string& conninfo) : connection_{PQconnectdb(conninfo.c_str())} {
    EXPECT_EQ(PQstatus(connection_), CONNECTION_OK) << PQerrorMessage(connection_);
    PQsetNoticeProcessor(
        connection_, [](void*, const char*) {}, nullptr);
  }
  ~psql() { PQfinish(connection_); }
  psql(const psql&) = delete;
  psql& operator=(const psql&) = delete;

  PGconn* get() const { return connection_; }

  /// Runs statements, which must succeed. Returns the first column of the last one's rows, a line each.
  std::string run(const std::string& sql) const {
    const std::string state = try_to_run(sql);
    EXPECT_EQ(state, "") << sql << ": " << PQerrorMessage(connection_);
    return lines_;
  }
  /// Returns the SQLSTATE of the failure; empty: there was none.
  std::string try_to_run(const std::string& sql) const {
    PGresult* const r = PQexec(connection_, sql.c_str());
    lines_.clear();
    for (int row = 0; row < PQntuples(r); ++row)
      lines_ += (row == 0 ? "" : "\n") + std::string{PQgetisnull(r, row, 0) != 0 ? "null" : PQgetvalue(r, row, 0)};
    const char* const state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    std::string answer = state != nullptr ? state : PQresultStatus(r) == PGRES_FATAL_ERROR ? "lost" : "";
    PQclear(r);
    return answer;
  }

 private:
  PGconn* connection_;
  mutable std::string lines_;
};

/// A schema, a libuv loop, and a clock that the test moves.
class postgres_fixture final : public store_fixture {
 public:
  /// `is_shared`: the schema is that of the fixture before, without its rows.
  explicit postgres_fixture(test_server& on = test_server::shared(), bool is_shared = false)
      : server{on}, is_shared_{is_shared} {
    static int made = 0;
    options.schema = is_shared ? "shared" : "test \"" + std::to_string(++made) + "\" 's";
    options.partitions = 4;
    options.connect_timeout = 15s;  // on a machine that is busy
    options.log = [this](std::string_view line) { log.emplace_back(line); };
    EXPECT_EQ(timers_.open(loop_), 0);
    hold_ = timers_.hold();  // a loop that nothing holds does not poll
  }
  ~postgres_fixture() override {
    patience_.cancel();
    hold_ = {};
    timers_.close();
    if (!is_shared_) {
      // a backend that a test has stopped and continued may still hold locks
      std::string state;
      do state = other().try_to_run("drop schema if exists " + schema() + " cascade");
      while (state == "40P01");
      EXPECT_EQ(state, "");
      return;
    }
    shift_clock(-shift_);
    other().run(
        "drop function if exists refuse cascade; delete from tasks; delete from nodes; delete from links; update "
        "parts set session = null");
  }

  std::unique_ptr<durable::store> make_store() override { return make_store(conninfo); }
  std::unique_ptr<durable::store> make_store(const std::string& database) const {
    return durable::postgres_store(database, options);
  }
  tickwheel::timer_service& timers() override { return timers_; }
  void turn() override {
    EXPECT_EQ(patience_.arm(20ms), 0);  // an answer that never comes fails the test instead of the loop
    uv_run(loop_.get(), UV_RUN_ONCE);
  }
  void advance(std::chrono::nanoseconds by) override { shift_clock(by); }

  bool can_share() const override { return true; }
  bool can_shift_clock() const override { return true; }
  void shift_clock(std::chrono::nanoseconds by) override {
    shift_ += by;
    if (by == 0ns) return;
    other().run(
        "create or replace function now_ns() returns bigint language sql volatile as 'select (extract(epoch from "
        "clock_timestamp()) * 1000000)::bigint * 1000 + " +
        std::to_string(shift_.count()) + "'");
  }
  bool can_refuse() const override { return true; }
  void refuse_payload(const std::string& payload) override {
    other().run("create function refuse() returns trigger language plpgsql as $$ begin if new.payload = '" + payload +
                "'::bytea then raise exception 'no such payload'; end if; return new; end $$; "
                "create trigger refuse before insert or update on tasks for each row execute function refuse()");
  }
  /// Lets a trigger raise an error with this SQLSTATE for each row whose id begins with "bad".
  void refuse_bad(const std::string& sqlstate) {
    other().run(
        "create function refuse() returns trigger language plpgsql as $$ begin if new.id like 'bad%' then "
        "raise exception 'not %', new.id using errcode = '" +
        sqlstate +
        "'; end if; return new; end $$; "
        "create trigger refuse before insert or update on tasks for each row execute function refuse()");
  }
  void refuse_no_more() { other().run("drop trigger refuse on tasks"); }
  /// Lets a trigger wait for a lock for each row whose id begins with "bad". Returns the client that holds the lock, until its transaction
  /// ends.
  std::unique_ptr<psql> block_bad() {
    other().run(
        "create table orders(id integer); insert into orders values (1); create function look() returns trigger "
        "language plpgsql as $$ begin perform from orders for update; return new; end $$; create trigger look before "
        "update on tasks for each row when (new.id like 'bad%') execute function look()");
    auto holder = std::make_unique<psql>(conninfo);
    holder->run("begin; select from " + schema() + ".orders for update");
    return holder;
  }
  bool validate(std::string* why) override {
    *why = other().run(
        "select coalesce(string_agg(id, ', '), '') from tasks where part <> partition_of(id) or (session is not null) "
        "<> "
        "(state = 1) or (gone is not null) <> (state > 2) or (state = 2) <> (at = 9223372036854775807) or (stop and "
        "state "
        "<> 1) or (state > 2 and payload is not null) or attempt < 0 or lost > 3");
    return why->empty();
  }

  /// Returns the name of the schema as an identifier.
  std::string schema() const {
    std::string quoted = "\"";
    for (const char c : options.schema) quoted.append(c == '"' ? 2 : 1, c);
    return quoted + '"';
  }
  /// Lets `other` connect anew: the server has ended its connection.
  void forget_other() { other_.reset(); }
  /// Another program's connection, in the schema.
  const psql& other() {
    if (other_ == nullptr) {
      other_ = std::make_unique<psql>(conninfo);
      other_->run("set client_min_messages = error; set search_path = " + schema());
    }
    return *other_;
  }

  test_server& server;
  std::string conninfo = server.conninfo();
  durable::postgres_options options;
  std::vector<std::string> log;

 private:
  const bool is_shared_;
  std::unique_ptr<psql> other_;
  std::chrono::nanoseconds shift_{};
  live_loop loop_;
  tickwheel::timer_service timers_;
  tickwheel::remote_hold hold_;
  struct nothing {
    void operator()() const noexcept {}
  };
  tickwheel::callback_timer<nothing> patience_{timers_, {}};
};

}  // namespace conformance
