// The PostgreSQL database that gets the tasks.
#pragma once

#include "../postgres/sql/failure.hpp"
#include "../postgres/sql/rows.hpp"
#include "../postgres/sql/schema.hpp"
#include "state_counts.hpp"
#include "task_file.hpp"

#include <tickwheel/durable/postgres.hpp>

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <string>

namespace tickwheel::durable::move {

/// The database has all tasks of the file from an earlier run, but perhaps its synchronous standby does not.
class unconfirmed : public postgres::failure {
 public:
  explicit unconfirmed(const postgres::failure& why) : failure{why} {}
};

/// A connection to the database, and the transaction that moves the tasks. A member that fails throws `postgres::failure`; then the
/// database is as it was before, unless `commit` failed.
class task_database {
 public:
  /// Connects, and makes the schema if there is none.
  task_database(const std::string& conninfo, const std::string& schema);

  /// Begins the transaction, and writes all rows of the file. May throw `unconfirmed`.
  void write(const task_file& from);
  /// Returns how many rows of the database equal their row of the file in each column.
  state_counts count() const;
  void commit();

 private:
  struct finish {
    void operator()(PGconn* c) const noexcept { PQfinish(c); }
  };

  postgres::result run(const std::string& sql) const;
  void make_schema() const;
  void copy(const task_file& from) const;
  void refuse_known_ids();
  [[noreturn]] void refuse_moved(std::int64_t tasks);
  void send(const std::string& lines) const;

  postgres_options options_;
  std::unique_ptr<PGconn, finish> connection_;
  postgres::failure lone_commit_;  // the server's warning of a commit that has not waited for the synchronous standby
};

}  // namespace tickwheel::durable::move
