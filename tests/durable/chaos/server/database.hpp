// A connection of another program to the database of a round.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <string>
#include <vector>

namespace chaos {

/// The result of statements.
struct sql_result {
  std::string state;  ///< the SQLSTATE of a failure, "lost" if the connection broke off; empty: it succeeded
  std::string text;   ///< of the failure
  std::vector<std::string> rows;  ///< the first column of the last statement
  bool is_ok() const { return state.empty(); }
};

class database {
 public:
  explicit database(const std::string& conninfo);

  bool is_connected() const { return PQstatus(connection_.get()) == CONNECTION_OK; }
  /// Runs statements, and waits for their end.
  sql_result run(const std::string& sql) const;
  /// As above, with parameters $1, $2 ...
  sql_result run(const std::string& sql, const std::vector<std::string>& parameters) const;

 private:
  struct closed {
    void operator()(PGconn* c) const noexcept { PQfinish(c); }
  };
  std::unique_ptr<PGconn, closed> connection_;
};

}  // namespace chaos
