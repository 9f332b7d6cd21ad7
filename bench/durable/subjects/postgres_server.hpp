// The subject postgres_store: a server of its own with Debian's default settings.
#pragma once

#include "raw_postgres.hpp"
#include "sql_connection.hpp"
#include "store_subject.hpp"

#include "../../../tests/durable/postgres/test_server.hpp"

#include <tickwheel/durable/postgres.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::bench {

class postgres_server final : public store_subject {
 public:
  /// Starts the server. `folder`: the data is in a folder of its own there.
  explicit postgres_server(const std::string& folder) : server_{defaults(), {}, folder} {}

  static bool is_installed() { return conformance::test_server::find_programs().has_value(); }

  std::unique_ptr<durable::store> make_store() const override { return durable::postgres_store(conninfo(), options()); }
  std::unique_ptr<raw_store> make_raw(std::size_t) const override { return make_raw_postgres(conninfo(), options()); }
  std::shared_ptr<void> hold_snapshot() const override {
    auto reader = std::make_shared<sql_connection>(conninfo());
    reader->run("begin isolation level repeatable read; select count(*) from pg_class");
    return reader;
  }
  // Its old log files become its next ones. It would make new ones otherwise, and each holds up all commits for 50 ms.
  void settle() const override { (void)sql_connection{conninfo()}.run("checkpoint"); }
  void describe(figure_table& to) const override {
    std::string text = "Debian's defaults";
    for (const std::string& line : defaults()) text += ", " + line;
    to.add_note("postgresql", text);
  }

  std::string conninfo() const { return server_.conninfo(); }
  /// The folder of the server's socket.
  const std::string& socket_folder() const { return server_.folder(); }
  static durable::postgres_options options() { return {}; }

 private:
  // of the settings that tests have otherwise
  static std::vector<std::string> defaults() {
    return {"shared_buffers = 128MB",    "max_wal_size = 1GB", "max_connections = 100",
            "autovacuum_naptime = 1min", "fsync = on",         "synchronous_commit = on"};
  }

  conformance::test_server server_;
};

}  // namespace tickwheel::bench
