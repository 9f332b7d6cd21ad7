// The ceiling of sqlite_store: its tables and writes on bare SQLite, on one thread, in batches of 1,000, durable.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace tickwheel::bench {

/// A prepared statement. Stops the program with SQLite's message if anything fails.
class raw_statement {
 public:
  raw_statement(sqlite3* on, const char* sql) : on_{on} {
    if (sqlite3_prepare_v3(on, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr) != SQLITE_OK) fail();
  }
  ~raw_statement() { sqlite3_finalize(statement_); }
  raw_statement(const raw_statement&) = delete;
  raw_statement& operator=(const raw_statement&) = delete;

  raw_statement& bind(int place, std::int64_t value) {
    sqlite3_bind_int64(statement_, place, value);
    return *this;
  }
  raw_statement& bind(int place, const std::string& text) {
    sqlite3_bind_text(statement_, place, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
    return *this;
  }
  raw_statement& bind_blob(int place, const std::string& bytes) {
    sqlite3_bind_blob(statement_, place, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
    return *this;
  }
  /// Runs it to its end. Returns the first column of the last row; 0 if there is none.
  std::int64_t run() {
    std::int64_t value = 0;
    int code = sqlite3_step(statement_);
    for (; code == SQLITE_ROW; code = sqlite3_step(statement_)) value = sqlite3_column_int64(statement_, 0);
    if (code != SQLITE_DONE) fail();
    sqlite3_reset(statement_);
    return value;
  }

 private:
  [[noreturn]] void fail() const {
    std::fprintf(stderr, "durable_bench: %s\n", sqlite3_errmsg(on_));
    std::exit(1);
  }

  sqlite3* on_;
  sqlite3_stmt* statement_ = nullptr;
};

/// A file with the tables of sqlite_store.
class raw_sqlite {
 public:
  explicit raw_sqlite(const std::string& path) {
    if (sqlite3_open(path.c_str(), &file_) != SQLITE_OK) std::exit(1);
    for (const char* sql : {"pragma journal_mode = wal", "pragma synchronous = full", "pragma cache_size = -32768",
                            "pragma wal_autocheckpoint = 4000",
                            "create table tasks(id text not null unique, state integer not null default 0, at integer "
                            "not null, due integer not null, "
                            "period integer not null, rev integer not null, ended integer not null default 0, attempt "
                            "integer not null default 0, "
                            "lost integer not null default 0, stop integer not null default 0, gone integer, error "
                            "text, payload blob) strict",
                            "create index due on tasks(at, id) where state = 0",
                            "create index other on tasks(state, id) where state <> 0",
                            "create index gone on tasks(gone) where gone is not null"})
      execute(sql);
  }
  ~raw_sqlite() { sqlite3_close(file_); }
  raw_sqlite(const raw_sqlite&) = delete;
  raw_sqlite& operator=(const raw_sqlite&) = delete;

  void execute(const char* sql) {
    if (sqlite3_exec(file_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return;
    std::fprintf(stderr, "durable_bench: %s: %s\n", sql, sqlite3_errmsg(file_));
    std::exit(1);
  }
  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "durable_bench: %s\n", what);
    std::exit(1);
  }
  sqlite3* file() const { return file_; }

  /// Inserts the tasks `ids`, due at `at`, in one transaction.
  void put(const std::vector<std::string>& ids, std::int64_t at, const std::string& payload) {
    raw_statement insert{
        file_,
        "insert into tasks(id, at, due, period, rev, payload) values(?1, ?2, ?2, 0, ?3, ?4) on conflict(id) do "
        "nothing returning rev"};
    execute("begin immediate");
    for (const std::string& id : ids) insert.bind(1, id).bind(2, at).bind(3, ++revision_).bind_blob(4, payload).run();
    execute("commit");
  }

  /// Cancels the pending tasks `ids` in one transaction, leaving tombstones.
  void cancel(const std::vector<std::string>& ids, std::int64_t now) {
    raw_statement cancel{
        file_,
        "update tasks set state = 4, rev = ?2, ended = rev, gone = ?3, payload = null where id = ?1 and state = 0 "
        "returning rev"};
    execute("begin immediate");
    for (const std::string& id : ids) {
      const std::int64_t changed = cancel.bind(1, id).bind(2, ++revision_).bind(3, now).run();
      if (changed != revision_) fail("a task is not pending");
    }
    execute("commit");
  }

  /// Starts the tasks `ids`, and in a second transaction finishes them, leaving tombstones.
  void start_and_finish(const std::vector<std::string>& ids, std::int64_t now) {
    raw_statement begin{
        file_,
        "update tasks set state = 1, rev = ?2, attempt = attempt + 1 where id = ?1 and state = 0 and at <= ?3 "
        "returning rev, payload"};
    raw_statement finish{
        file_,
        "update tasks set state = 3, rev = ?2, ended = rev, gone = ?3, payload = null where id = ?1 and state = 1 "
        "returning rev"};
    execute("begin immediate");
    for (const std::string& id : ids) begin.bind(1, id).bind(2, ++revision_).bind(3, now).run();
    execute("commit");
    execute("begin immediate");
    for (const std::string& id : ids) finish.bind(1, id).bind(2, ++revision_).bind(3, now).run();
    execute("commit");
  }

  /// Deletes 1,000 tombstones.
  void purge(std::int64_t until) {
    raw_statement purge{
        file_,
        "delete from tasks where rowid in (select rowid from tasks where gone is not null and gone <= ?1 order by "
        "gone limit 1000)"};
    purge.bind(1, until).run();
  }

 private:
  sqlite3* file_ = nullptr;
  std::int64_t revision_ = 0;
};

}  // namespace tickwheel::bench
