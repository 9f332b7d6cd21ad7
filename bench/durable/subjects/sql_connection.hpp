// Another program's connection to PostgreSQL, for statements as text.
#pragma once

#include "../support/failure.hpp"

#include <libpq-fe.h>

#include <cstdint>
#include <string>

namespace tickwheel::bench {

/// Ends the program with PostgreSQL's message if anything fails.
class sql_connection {
 public:
  explicit sql_connection(const std::string& conninfo) : connection_{PQconnectdb(conninfo.c_str())} {
    if (PQstatus(connection_) != CONNECTION_OK) fail(PQerrorMessage(connection_));
    run("set client_min_messages = error");
  }
  ~sql_connection() { PQfinish(connection_); }
  sql_connection(const sql_connection&) = delete;
  sql_connection& operator=(const sql_connection&) = delete;

  PGconn* get() const { return connection_; }

  /// Returns the first column of the first row of the last statement; empty: there is none.
  std::string run(const std::string& sql) const {
    PGresult* const last = PQexec(connection_, sql.c_str());
    const auto status = PQresultStatus(last);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail(sql + ": " + PQerrorMessage(connection_));
    std::string value = PQntuples(last) != 0 ? PQgetvalue(last, 0, 0) : "";
    PQclear(last);
    return value;
  }
  std::int64_t integer(const std::string& sql) const { return std::stoll(run(sql)); }

 private:
  PGconn* connection_;
};

}  // namespace tickwheel::bench
