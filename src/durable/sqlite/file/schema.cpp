#include "schema.hpp"

#include "statement.hpp"

#include <uv.h>

#include <string>

namespace tickwheel::durable::sqlite {

namespace {

// Times are nanoseconds since 1970. `state` is a task_state. `rev` of a running row is its token. The payload is the last column:
// a look at the others does not read it.
//
// The indexes: `due` is for load, `other` for list, recover and the number of the dead, `gone` for purge. SQLite uses a partial
// index only if the query contains its condition.
constexpr const char* tables = R"(
create table tasks(
  id text not null unique,
  state integer not null default 0,
  at integer not null,
  due integer not null,
  period integer not null,
  rev integer not null,
  ended integer not null default 0,
  attempt integer not null default 0,
  lost integer not null default 0,
  stop integer not null default 0,
  gone integer,
  error text,
  payload blob
) strict;
create index due on tasks(at, id) where state = 0;
create index other on tasks(state, id) where state <> 0;
create index gone on tasks(gone) where gone is not null;
create table meta(
  one integer primary key check (one = 1),
  session integer not null,
  revision integer not null,
  keep_finished integer not null
) strict;
insert into meta values(1, 0, 0, 0);
)";

bool is_empty(const connection& file) { return file.integer("select not exists (select * from sqlite_schema)") == 1; }

void check_version(const connection& file) {
  const auto id = file.integer("pragma application_id");
  const auto version = file.integer("pragma user_version");
  if (id == 0 && version == 0 && is_empty(file)) return;
  if (id != application_id) throw failure::final(UV_EFTYPE, "it is a database of another application");
  if (version > schema_version) throw failure::final(UV_ENOTSUP, "a newer version of tickwheel has written it");
  if (version < schema_version) throw failure::final(UV_EFTYPE, "its user_version is not one of tickwheel");
}

}  // namespace

void prepare_file(const connection& file) {
  check_version(file);
  if (file.is_read_only()) throw failure{SQLITE_READONLY, 0, "the file cannot be written"};
  {
    statement wal{file.get(), "pragma journal_mode = wal"};
    query q{wal};
    if (!q.next() || q.bytes(0) != "wal")
      throw failure::final(UV_ENOTSUP, "its file system has no write-ahead log for SQLite");
  }
  file.run("begin immediate");
  try {
    // another program may have written it meanwhile
    check_version(file);
    if (is_empty(file)) {
      file.run(tables);
      const std::string marks = "pragma application_id = " + std::to_string(application_id) +
                                "; pragma user_version = " + std::to_string(schema_version);
      file.run(marks.c_str());
    }
    file.run("commit");
  } catch (...) {
    file.rollback();
    throw;
  }
}

}  // namespace tickwheel::durable::sqlite
