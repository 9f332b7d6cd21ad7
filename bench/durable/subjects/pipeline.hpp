// A connection to PostgreSQL that keeps several transactions under way.
#pragma once

#include "../support/failure.hpp"
#include "sql_connection.hpp"

#include "../../../src/durable/postgres/sql/parameters.hpp"
#include "../../../src/durable/postgres/sql/rows.hpp"
#include "../../../src/durable/postgres/sql/schema.hpp"
#include "../../../src/durable/postgres/sql/statements.hpp"

#include <tickwheel/durable/postgres.hpp>

#include <libpq-fe.h>

#include <string>
#include <utility>
#include <vector>

namespace tickwheel::bench {

namespace pg = durable::postgres;

/// Its settings and statements are those of a link of the store.
class pipeline {
 public:
  pipeline(const std::string& conninfo, const durable::postgres_options& options, pg::link_role role)
      : connection_{conninfo} {
    run(pg::settings_script(options, role));
    run(pg::prepare_script(role));
  }

  /// Runs statements as text. Requires: nothing is under way.
  std::string run(const std::string& sql) {
    if (PQpipelineStatus(connection_.get()) != PQ_PIPELINE_OFF) PQexitPipelineMode(connection_.get());
    return connection_.run(sql);
  }
  /// Sends a transaction of one statement.
  void send(pg::statement what, const pg::parameters& values) {
    if (PQpipelineStatus(connection_.get()) == PQ_PIPELINE_OFF) PQenterPipelineMode(connection_.get());
    std::vector<const char*> texts;
    std::vector<int> lengths;
    for (int i = 0; i != values.size(); ++i) {
      texts.push_back(values.value(i).data());
      lengths.push_back(static_cast<int>(values.value(i).size()));
    }
    const std::vector<int> formats(texts.size(), 1);
    if (PQsendQueryPrepared(connection_.get(), pg::name_of(what), values.size(), texts.data(), lengths.data(),
                            formats.data(), 1) != 1 ||
        PQpipelineSync(connection_.get()) != 1)
      fail(PQerrorMessage(connection_.get()));
  }
  /// Waits for the oldest transaction. Returns its rows.
  pg::result take() {
    pg::result rows{PQgetResult(connection_.get())};
    if (PQresultStatus(rows.get()) != PGRES_TUPLES_OK) fail(PQerrorMessage(connection_.get()));
    pg::result{PQgetResult(connection_.get())};  // the end of the statement
    const pg::result sync{PQgetResult(connection_.get())};
    if (PQresultStatus(sync.get()) != PGRES_PIPELINE_SYNC) fail(PQerrorMessage(connection_.get()));
    return rows;
  }

 private:
  sql_connection connection_;
};

}  // namespace tickwheel::bench
