#include "database.hpp"

namespace chaos {

namespace {

sql_result take(PGconn* connection, PGresult* r) {
  sql_result out;
  const ExecStatusType status = PQresultStatus(r);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    const char* const state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const bool is_lost = PQstatus(connection) != CONNECTION_OK || state == nullptr;
    out.state = is_lost ? "lost" : state;
    out.text = PQerrorMessage(connection);
  }
  for (int row = 0; row < PQntuples(r); ++row) out.rows.emplace_back(PQgetvalue(r, row, 0));
  PQclear(r);
  return out;
}

}  // namespace

database::database(const std::string& conninfo) : connection_{PQconnectdb(conninfo.c_str())} {
  PQsetNoticeProcessor(
      connection_.get(), [](void*, const char*) {}, nullptr);
}

sql_result database::run(const std::string& sql) const {
  return take(connection_.get(), PQexec(connection_.get(), sql.c_str()));
}

sql_result database::run(const std::string& sql, const std::vector<std::string>& parameters) const {
  std::vector<const char*> values;
  values.reserve(parameters.size());
  for (const std::string& p : parameters) values.push_back(p.c_str());
  return take(connection_.get(), PQexecParams(connection_.get(), sql.c_str(), static_cast<int>(values.size()), nullptr,
                                              values.data(), nullptr, nullptr, 0));
}

}  // namespace chaos
