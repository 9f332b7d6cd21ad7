// The ceiling of sqlite_store: its tables and writes on bare SQLite, on one thread.
#pragma once

#include "../support/bench_tasks.hpp"
#include "../support/failure.hpp"
#include "raw_store.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
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
  [[noreturn]] void fail() const { bench::fail(sqlite3_errmsg(on_)); }

  sqlite3* on_;
  sqlite3_stmt* statement_ = nullptr;
};

/// A file with the tables of sqlite_store.
class raw_sqlite final : public raw_store {
 public:
  raw_sqlite(const std::string& path, std::size_t pending) {
    if (sqlite3_open(path.c_str(), &file_) != SQLITE_OK) fail(path + " cannot be opened");
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
    schedule(new_numbers(pending), pending, far_away);
  }
  ~raw_sqlite() override { sqlite3_close(file_); }
  raw_sqlite(const raw_sqlite&) = delete;
  raw_sqlite& operator=(const raw_sqlite&) = delete;

  void schedule(std::uint64_t first, std::size_t count, durable::clock::time_point due) override {
    raw_statement insert{
        file_,
        "insert into tasks(id, at, due, period, rev, payload) values(?1, ?2, ?2, 0, ?3, ?4) on conflict(id) do "
        "nothing returning rev"};
    in_batches(first, count, [&](std::uint64_t number) {
      const std::string id = id_of(number);
      insert.bind(1, id).bind(2, time(due)).bind(3, ++revision_).bind_blob(4, payload).run();
    });
  }
  void cancel(std::uint64_t first, std::size_t count) override {
    raw_statement cancel{
        file_,
        "update tasks set state = 4, rev = ?2, ended = rev, gone = ?3, payload = null where id = ?1 and state = 0 "
        "returning rev"};
    in_batches(first, count, [&](std::uint64_t number) {
      const std::string id = id_of(number);
      const std::int64_t changed = cancel.bind(1, id).bind(2, ++revision_).bind(3, now()).run();
      if (changed != revision_) fail("a task is not pending");
    });
  }
  void schedule_due(std::uint64_t first, std::size_t count) override {
    due_ = first;
    due_count_ = count;
    schedule(first, count, durable::clock::now());
  }
  void start_and_finish() override {
    raw_statement begin{
        file_,
        "update tasks set state = 1, rev = ?2, attempt = attempt + 1 where id = ?1 and state = 0 and at <= ?3 "
        "returning rev, payload"};
    raw_statement finish{
        file_,
        "update tasks set state = 3, rev = ?2, ended = rev, gone = ?3, payload = null where id = ?1 and state = 1 "
        "returning rev"};
    for (std::size_t done = 0; done < due_count_; done += raw_batch)
      for (raw_statement* const write : {&begin, &finish})
        in_batches(due_ + done, std::min(raw_batch, due_count_ - done), [&](std::uint64_t number) {
          const std::string id = id_of(number);
          const std::int64_t changed = write->bind(1, id).bind(2, ++revision_).bind(3, now()).run();
          if (changed != revision_) fail("a task is not due");
        });
  }

 private:
  static std::int64_t time(durable::clock::time_point t) { return t.time_since_epoch().count(); }
  static std::int64_t now() { return time(durable::clock::now()); }

  void execute(const char* sql) {
    if (sqlite3_exec(file_, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
      fail(std::string{sql} + ": " + sqlite3_errmsg(file_));
  }
  template <class Write>
  void in_batches(std::uint64_t first, std::size_t count, const Write& write) {
    for (std::size_t done = 0; done < count; done += raw_batch) {
      execute("begin immediate");
      for (std::size_t i = done; i != std::min(count, done + raw_batch); ++i) write(first + i);
      execute("commit");
    }
  }

  sqlite3* file_ = nullptr;
  std::int64_t revision_ = 0;
  std::uint64_t due_ = 0;
  std::size_t due_count_ = 0;
};

}  // namespace tickwheel::bench
